//! The gRPC door: one connection of HTTP/2, with the rate limit service, health and reflection.
//!
//! A connection is closed after a while, in good order, so that Envoy opens another: that is how
//! a server that has just been started gets its share of the load.

use std::future::ready;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message as _;
use tonic::body::Body;
use tonic::metadata::GRPC_CONTENT_TYPE;
use tonic::service::Routes;
use tonic::{Code, Status};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;
use tower_service::Service as _;

use super::proto::DESCRIPTORS;
use super::proto::{
    rate_limit_service_server::RateLimitServiceServer, rate_limit_service_server::SERVICE_NAME,
};
use super::{RateLimits, answer};
use crate::auth::{Visitor, bearer};
use crate::body::Unread;
use crate::desk::{Desk, Newcomers, Turns};
use crate::http::TOKEN_HEADER;
use crate::limits;
use crate::listen::{Busy, Calm, Door, Idle, Stream};
use crate::metrics::{DoorName, Stranger};
use crate::room::{Kept, Place, Room, head_bytes};
use crate::stop::Stop;
use crate::tls::Offer;
use crate::trace::{Ending, Noted, Outcome};

/// The gRPC door.
#[derive(Clone)]
pub(crate) struct RlsDoor {
    desk: Arc<Desk>,
    limits: RateLimitServiceServer<RateLimits>,
    /// Health and reflection.
    others: Routes,
    health: HealthReporter,
}

/// The name of spans: of the service's one method.
const SPAN: &str = "ShouldRateLimit";

/// Where health is asked for; no token is needed for that.
const HEALTH: &str = "/grpc.health.v1.Health/";

impl RlsDoor {
    pub(crate) async fn new(desk: Arc<Desk>, limits: RateLimits) -> RlsDoor {
        let (health, healths) = tonic_health::server::health_reporter();
        let door = RlsDoor {
            desk,
            limits: RateLimitServiceServer::new(limits)
                .max_decoding_message_size(limits::RLS_MESSAGE_BYTES_MAX),
            others: reflection().add_service(healths),
            health,
        };
        door.tell(ServingStatus::Serving).await;
        door
    }

    /// Says to who asks for health that this server is about to stop.
    pub(crate) async fn stops(&self) {
        self.tell(ServingStatus::NotServing).await;
    }

    async fn tell(&self, status: ServingStatus) {
        for service in ["", SERVICE_NAME] {
            self.health.set_service_status(service, status).await;
        }
    }

    async fn respond(
        &self,
        request: Request<Incoming>,
        visitor: Visitor,
        room: &Arc<Room>,
    ) -> Response<Kept<Body>> {
        let path = request.uri().path();
        let own = path.strip_prefix('/').and_then(|path| path.strip_prefix(SERVICE_NAME));
        let is_limits = own.is_some_and(|rest| rest.starts_with('/'));
        if !path.starts_with(HEALTH) && !self.lets_in(&request, visitor) {
            let message =
                "send the metadata `authorization: Bearer TOKEN`, or `x-tidegate-token: TOKEN`";
            return Status::unauthenticated(message).into_http().map(Kept::without_place);
        }
        if is_limits {
            return match room.begin(head_bytes(request.headers())) {
                Some(place) => self.limit(request, place).await,
                None => refused().map(Kept::without_place),
            };
        }
        // Reflection is a talk, not one message.
        let Some(talk) = room.talk() else {
            let message = "too many calls of health and reflection are open on this connection";
            return Status::resource_exhausted(message).into_http().map(Kept::without_place);
        };
        let bodies = &self.desk.bodies;
        let request = request.map(|body| Body::new(bodies.bound(body, limits::RLS_IDLE_TIME)));
        never_fails(self.others.clone().call(request).await).map(|body| Kept::talk(body, talk))
    }

    async fn limit(&self, request: Request<Incoming>, mut place: Place) -> Response<Kept<Body>> {
        let desk = &*self.desk;
        let begun = desk.metrics.begun();
        let (mut head, body) = request.into_parts();
        let mut traced = desk.traces.begin_of(begun, &head.headers);
        if traced.is_on() {
            head.extensions.insert(Noted::default());
        }
        let (mut response, units) = self.ask(head, body, &mut place).await;
        if Status::from_header_map(response.headers()).is_some_and(|it| it.code() == TOO_LONG) {
            response = refused();
        }
        let ended = desk.metrics.answered(DoorName::Grpc, begun, 1);
        if traced.is_on() {
            traced.note(response.extensions_mut().remove());
        }
        desk.traces.end(traced, || {
            // What goes well says so at its end, not in its headers.
            let code = Status::from_header_map(response.headers()).map_or(0, |it| it.code().into());
            Ending { name: SPAN.into(), begun, ended, outcome: Outcome::Grpc { code } }
        });
        let (head, body) = response.into_parts();
        match Kept::read(body, place, |bytes| desk.rls_sizes.learn(units, bytes)).await {
            Ok(body) => Response::from_parts(head, body),
            Err(status) => status.into_http().map(Kept::without_place),
        }
    }

    /// Reads a message whole, and has it answered once there is room for the answer; and how many
    /// bytes it has.
    async fn ask(
        &self,
        head: http::request::Parts,
        body: Incoming,
        place: &mut Place,
    ) -> (Response<Body>, usize) {
        let desk = &*self.desk;
        let bounded = desk.bodies.bound(body, desk.bounds.body_time);
        let whole = match bounded.whole(FRAMED_BYTES + limits::RLS_MESSAGE_BYTES_MAX).await {
            Ok(whole) => whole,
            Err(unread) => return (told(&unread).into_http(), 0),
        };
        let units = whole.bytes.len();
        if !place.grow(desk.rls_sizes.of(units)).await {
            return (refused(), units);
        }
        let request = Request::from_parts(head, Full::new(whole.bytes.clone()));
        (never_fails(self.limits.clone().call(request).await), units)
    }

    fn lets_in(&self, request: &Request<Incoming>, visitor: Visitor) -> bool {
        let said = |name: &str| request.headers().get(name).map(HeaderValue::as_bytes);
        let usual = || said(header::AUTHORIZATION.as_str()).and_then(bearer);
        let token = said(TOKEN_HEADER).or_else(usual);
        let lets_in = self.desk.guard.role(visitor, token).is_some();
        if !lets_in {
            let why = if token.is_some() { Stranger::WrongToken } else { Stranger::NoToken };
            self.desk.metrics.refused(DoorName::Grpc, visitor.peer, why);
        }
        lets_in
    }
}

/// Why a message was not read, as tonic passes it on.
fn told(unread: &Unread) -> Status {
    match unread {
        Unread::NoRoom | Unread::TooLong => Status::new(TOO_LONG, unread.to_string()),
        Unread::BrokeOff(_) | Unread::Slow => Status::internal(unread.to_string()),
    }
}

/// What stands before a message: whether it is compressed, and its length.
const FRAMED_BYTES: usize = 5;

/// What tonic says of a message that is too long. Nothing of ours says that.
const TOO_LONG: Code = Code::OutOfRange;

/// Refuses what is too long to be read: a client may have made it so, and Envoy lets pass what it
/// gets an error about.
fn refused() -> Response<Body> {
    let message = answer::refused(0).encode_to_vec();
    let length = u32::try_from(message.len()).unwrap_or_default();
    // It is not compressed, and so long.
    let framed = [&[0][..], &length.to_be_bytes(), &message].concat();
    let mut ending = http::HeaderMap::new();
    ending.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
    let body = Full::new(Bytes::from(framed)).with_trailers(ready(Some(Ok(ending))));
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(header::CONTENT_TYPE, GRPC_CONTENT_TYPE);
    response
}

fn never_fails<E>(answered: Result<Response<Body>, E>) -> Response<Body>
where
    E: std::fmt::Display,
{
    answered.unwrap_or_else(|error| Status::internal(error.to_string()).into_http())
}

/// What there is, for those who ask without having Envoy's files.
fn reflection() -> Routes {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let mut routes = Routes::default();
    // What is registered was made by a compiler, so it can be read.
    if let Ok(service) = builder().build_v1() {
        routes = routes.add_service(service);
    }
    if let Ok(service) = builder().build_v1alpha() {
        routes = routes.add_service(service);
    }
    routes
}

impl Door for RlsDoor {
    const OFFER: Offer = Offer::Http2;

    async fn serve<S: Stream>(&self, stream: S, visitor: Visitor, mut stop: Stop, busy: &Busy) {
        let door = self.clone();
        let room = self.desk.room(visitor);
        let here = Arc::clone(&room);
        let service = busy.counting(move |request| {
            let (door, room) = (door.clone(), Arc::clone(&here));
            // In a box, which is gone while the reply waits to be taken.
            async move { Box::pin(door.respond(request, visitor, &room)).await }
        });
        let mut stream = Idle::new(stream, limits::RLS_IDLE_TIME);
        let home = stream.lend(busy);
        {
            let stream = TokioIo::new(Calm::new(stream));
            let mut connection = pin!(builder().serve_connection(stream, service));
            // How a connection ends is its client's business: there is nobody to tell.
            tokio::select! {
                _ = connection.as_mut() => return,
                () = room.late() => return,
                () = stop.asked() => {}
                () = tokio::time::sleep(age()) => {}
            }
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                _ = tokio::time::timeout(limits::RLS_GRACE, busy.finish(connection)) => {}
                () = room.late() => return,
            }
        }
        let _ = tokio::time::timeout(limits::RLS_GRACE, home.farewell()).await;
    }

    fn connections(&self, change: i64) {
        self.desk.metrics.connections(DoorName::Grpc, change);
    }

    fn lines(&self) -> (&Newcomers, &Turns) {
        (&self.desk.newcomers, &self.desk.turns)
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::RLS_STREAMS_MAX)
        .max_header_list_size(limits::RLS_HEADERS_BYTES_MAX)
        .max_frame_size(limits::RLS_FRAME_BYTES_MAX)
        .keep_alive_interval(limits::RLS_KEEPALIVE_EVERY)
        .keep_alive_timeout(limits::RLS_KEEPALIVE_TIMEOUT);
    builder
}

/// How long a connection lasts, with up to a tenth more by chance.
fn age() -> Duration {
    let chance = RandomState::new().build_hasher().finish() % 1_000;
    let more = limits::RLS_AGE_MAX.as_millis().saturating_mul(chance.into()) / 10_000;
    limits::RLS_AGE_MAX + Duration::from_millis(u64::try_from(more).unwrap_or_default())
}

impl std::fmt::Debug for RlsDoor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RlsDoor").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_do_not_all_end_at_once() {
        let ages: std::collections::BTreeSet<Duration> = (0..64).map(|_| age()).collect();
        assert!(32 < ages.len());
        assert!(ages.iter().all(|it| limits::RLS_AGE_MAX <= *it));
        assert!(ages.iter().all(|it| *it <= limits::RLS_AGE_MAX + limits::RLS_AGE_MAX / 10));
    }

    #[test]
    fn what_is_registered_for_reflection_can_be_read() {
        let builder = tonic_reflection::server::Builder::configure();
        let builder = builder.register_encoded_file_descriptor_set(DESCRIPTORS);
        assert!(builder.build_v1().is_ok());
    }
}
