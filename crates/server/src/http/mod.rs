//! The HTTP door: decisions as JSON, answers for proxies, and what operators look at.
//!
//! A connection is served by [`fast`] until it asks for anything but a check, and then by the
//! general-purpose stack: HTTP/1.1, or HTTP/2 by what its first bytes say.

mod body;
mod check;
mod fast;
mod field;
mod forward;
mod host;
mod json;
mod load;
mod operate;
mod page;
mod permit;
mod reply;
mod route;
mod tried;

use std::pin::pin;
use std::sync::Arc;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::time::timeout;

use self::fast::Rewound;
pub(crate) use self::route::TOKEN_HEADER;
pub use self::tried::read_body;
use crate::auth::Visitor;
use crate::desk::{Desk, Newcomers, Turns};
use crate::limits;
use crate::listen::{Busy, Calm, Door, Idle, Stream};
use crate::metrics::DoorName;
use crate::stop::Stop;
use crate::tls::Offer;

/// Answers `POST /json`: Envoy's rate limit request as JSON.
pub(crate) type Json = Arc<dyn Fn(bytes::Bytes) -> JsonAnswer + Send + Sync>;

/// A status and a body in JSON, some time.
pub(crate) type JsonAnswer =
    std::pin::Pin<Box<dyn Future<Output = (http::StatusCode, Vec<u8>)> + Send>>;

/// The HTTP door.
#[derive(Clone)]
pub(crate) struct HttpDoor {
    desk: Arc<Desk>,
    json: Option<Json>,
}

impl HttpDoor {
    pub(crate) fn new(desk: Arc<Desk>, json: Option<Json>) -> HttpDoor {
        HttpDoor { desk, json }
    }

    /// How connections are spoken to.
    fn builder(&self) -> Builder<TokioExecutor> {
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            // Bodies are not copied: so they are counted until they are taken.
            .writev(true)
            .timer(TokioTimer::new())
            .header_read_timeout(self.desk.bounds.http_head_time)
            .max_buf_size(limits::HTTP_HEAD_BYTES_MAX)
            .max_headers(limits::HTTP_HEADERS_MAX);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits::HTTP2_STREAMS_MAX)
            .max_header_list_size(limits::HTTP2_HEAD_BYTES_MAX)
            .keep_alive_interval(limits::HTTP_HEAD_TIME)
            .keep_alive_timeout(limits::HTTP_HEAD_TIME);
        builder
    }
}

impl Door for HttpDoor {
    const OFFER: Offer = Offer::Http;

    async fn serve<S: Stream>(&self, stream: S, visitor: Visitor, mut stop: Stop, busy: &Busy) {
        let mut stream = Idle::new(stream, self.desk.bounds.http_head_time);
        let room = self.desk.room(visitor);
        let first = fast::serve(self, &mut stream, visitor, &stop, (&room, busy)).await;
        let Some(first) = first else { return };
        stream.set_patience(limits::HTTP_IDLE_TIME);
        let door = self.clone();
        let (home, here) = (stream.lend(busy), Arc::clone(&room));
        let service = busy.counting(move |request| {
            let (door, room) = (door.clone(), Arc::clone(&here));
            // In a box, which is gone while the reply waits to be taken.
            async move { Box::pin(door.respond(request, visitor, &room)).await }
        });
        let builder = self.builder();
        // HTTP/2 has its own way to say that no more is read.
        let is_two = first.starts_with(b"PRI ");
        let stream = TokioIo::new(Calm::new(Rewound::new(first, stream)));
        let has_ended = {
            let mut connection = pin!(builder.serve_connection(stream, service));
            // How a connection ends is its client's business: there is nobody to tell.
            let has_ended = tokio::select! {
                _ = connection.as_mut() => true,
                () = room.late() => return,
                () = stop.asked() => false,
            };
            if !has_ended {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    () = busy.finish(connection) => {}
                    () = room.late() => return,
                }
            }
            has_ended
        };
        if !has_ended {
            home.farewell().await;
        } else if !is_two {
            // A refusal may have been answered before the whole body was read. To close at once
            // would reset the connection, and a proxy would take that for an error of ours.
            let _ = timeout(limits::FAREWELL_TIME, home.farewell()).await;
        }
    }

    fn connections(&self, change: i64) {
        self.desk.metrics.connections(DoorName::Http, change);
    }

    fn lines(&self) -> (&Newcomers, &Turns) {
        (&self.desk.newcomers, &self.desk.turns)
    }
}

impl std::fmt::Debug for HttpDoor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpDoor").finish_non_exhaustive()
    }
}
