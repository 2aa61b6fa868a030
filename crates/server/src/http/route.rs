//! Which request is for what, and who may ask it.

use std::sync::Arc;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};

use super::reply::{self, Problem, Reply};
use super::{HttpDoor, body, check, forward, host, load, operate, page, permit};
use crate::auth::{Role, Shown, Visitor, bearer};
use crate::desk::Desk;
use crate::metrics::{DoorName, Stranger};
use crate::room::{Kept, Place, Room, head_bytes};
use crate::trace::{Ending, Outcome, Traced};

/// Everything that can be asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Route {
    Acquire,
    AuthRequest,
    Check,
    Clock,
    ClockAdvance,
    ForwardAuth,
    Health,
    Json,
    Load,
    LoadPush,
    Metrics,
    OpenApi,
    Peek,
    Ready,
    Refund,
    Release,
    Reload,
    Renew,
    Reset,
}

/// A token, for those who need the `Authorization` header for something else.
pub(crate) const TOKEN_HEADER: &str = "x-tidegate-token";

impl Route {
    /// By path; each with the method that it takes, where it does not take all.
    const ALL: [(&'static str, Option<Method>, Route); 19] = [
        ("/v1/check", Some(Method::POST), Route::Check),
        ("/v1/peek", Some(Method::POST), Route::Peek),
        ("/v1/refund", Some(Method::POST), Route::Refund),
        ("/v1/acquire", Some(Method::POST), Route::Acquire),
        ("/v1/renew", Some(Method::POST), Route::Renew),
        ("/v1/release", Some(Method::POST), Route::Release),
        ("/v1/forward-auth", None, Route::ForwardAuth),
        ("/v1/auth-request", None, Route::AuthRequest),
        ("/v1/reset", Some(Method::POST), Route::Reset),
        ("/v1/reload", Some(Method::POST), Route::Reload),
        ("/v1/clock", Some(Method::GET), Route::Clock),
        ("/v1/clock", Some(Method::POST), Route::ClockAdvance),
        ("/v1/load", Some(Method::GET), Route::Load),
        ("/v1/load", Some(Method::PUT), Route::LoadPush),
        ("/json", Some(Method::POST), Route::Json),
        ("/metrics", Some(Method::GET), Route::Metrics),
        ("/healthz", Some(Method::GET), Route::Health),
        ("/readyz", Some(Method::GET), Route::Ready),
        ("/openapi.json", Some(Method::GET), Route::OpenApi),
    ];

    fn find(method: &Method, path: &str) -> Result<Route, Problem> {
        let here = || Route::ALL.iter().filter(|(at, ..)| *at == path);
        let takes = |accepted: &Option<Method>| accepted.as_ref().is_none_or(|it| it == method);
        if let Some((.., route)) = here().find(|(_, accepted, _)| takes(accepted)) {
            return Ok(*route);
        }
        let accepted: Vec<&str> =
            here().filter_map(|(_, method, _)| Some(method.as_ref()?.as_str())).collect();
        if accepted.is_empty() {
            let wrong = format!("there is no `{path}` here; `/openapi.json` says what there is");
            return Err(Problem::new(StatusCode::NOT_FOUND, wrong));
        }
        let wrong = format!("`{path}` takes {}", accepted.join(" and "));
        Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, wrong).allowing(&accepted.join(", ")))
    }

    /// What one has to be to ask for it.
    const fn role(self) -> Option<Role> {
        match self {
            Route::Health | Route::Metrics | Route::OpenApi | Route::Ready => None,
            Route::ClockAdvance | Route::LoadPush | Route::Reload | Route::Reset => {
                Some(Role::Admin)
            }
            _ => Some(Role::Check),
        }
    }

    /// What its span is called; what only operators look at has none.
    pub(super) const fn span(self) -> Option<&'static str> {
        Some(match self {
            Route::Acquire => "acquire",
            Route::AuthRequest => "auth-request",
            Route::Check => "check",
            Route::ForwardAuth => "forward-auth",
            Route::Json => "json",
            Route::Peek => "peek",
            Route::Refund => "refund",
            Route::Release => "release",
            Route::Renew => "renew",
            Route::Reset => "reset",
            Route::Clock
            | Route::ClockAdvance
            | Route::Health
            | Route::Load
            | Route::LoadPush
            | Route::Metrics
            | Route::OpenApi
            | Route::Ready
            | Route::Reload => return None,
        })
    }

    /// The token that is shown for it: in our own header, or in `Authorization`.
    pub(super) fn token<'h>(
        self,
        own: Option<&'h [u8]>,
        authorization: Option<&'h [u8]>,
    ) -> Option<&'h [u8]> {
        let usual = || authorization.filter(|_| !self.is_forwarded()).and_then(bearer);
        own.or_else(usual)
    }

    /// Whether `Authorization` is about somebody else: the request that is asked about.
    const fn is_forwarded(self) -> bool {
        matches!(self, Route::AuthRequest | Route::ForwardAuth)
    }
}

impl HttpDoor {
    /// Answers a request on a connection that has so much room.
    pub(super) async fn respond(
        &self,
        request: Request<Incoming>,
        visitor: Visitor,
        room: &Arc<Room>,
    ) -> Response<Kept<Full<Bytes>>> {
        let Some(mut place) = room.begin(head_bytes(request.headers())) else {
            // Without a body, which would take room as well.
            let mut refusal = Response::new(Kept::without_place(Full::default()));
            *refusal.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            return refusal;
        };
        let is_json = request.uri().path() == "/json";
        let reply = match self.answer(request, visitor, &mut place).await {
            Ok(reply) => reply,
            Err(problem) if is_json && problem.is_too_much() => {
                json_reply(crate::rls::json_too_long())
            }
            Err(problem) => problem.into_reply(),
        };
        let bytes = reply.body().size_hint().lower();
        place.fit(usize::try_from(bytes).unwrap_or(usize::MAX));
        reply.map(|body| Kept::new(body, place))
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        visitor: Visitor,
        place: &mut Place,
    ) -> Result<Reply, Problem> {
        let (head, body) = request.into_parts();
        let route = Route::find(&head.method, head.uri.path())?;
        host::check(&head)?;
        let said = |name: &str| head.headers.get(name).map(HeaderValue::as_bytes);
        if route.role() == Some(Role::Admin) {
            page::refuse(&self.desk.guard, &head).inspect_err(|_| {
                self.desk.metrics.refused(DoorName::Http, visitor.peer, Stranger::Page);
            })?;
        }
        let token = route.token(said(TOKEN_HEADER), said(AUTHORIZATION.as_str()));
        let shown = Shown { visitor, token };
        self.let_in(route, shown).inspect_err(|problem| {
            let why = match (problem.status(), token) {
                (StatusCode::FORBIDDEN, _) => Stranger::Role,
                (_, Some(_)) => Stranger::WrongToken,
                (_, None) => Stranger::NoToken,
            };
            self.desk.metrics.refused(DoorName::Http, visitor.peer, why);
        })?;
        let desk = &*self.desk;
        let whole;
        let body = if route.is_forwarded() {
            &Bytes::new()
        } else {
            whole = body::whole(desk, body).await?;
            &whole.bytes
        };
        let begun = desk.metrics.begun();
        let headers = &head.headers;
        let mut traced = match route.span() {
            Some(_) => desk.traces.begin_of(begun, headers),
            None => Traced::default(),
        };
        let notes = &mut traced.notes();
        let reply = match route {
            Route::Check => check::check(desk, (headers, shown), body, notes, place).await,
            Route::Peek => check::peek(desk, headers, body, notes, place).await,
            Route::Acquire => permit::acquire(desk, (headers, shown), body, notes).await,
            Route::Renew => permit::renew(&self.desk, headers, body).await,
            Route::Release => permit::release(desk, headers, body).await,
            Route::Refund => permit::refund(desk, headers, body).await,
            Route::ForwardAuth => forward::forwarded(desk, &head, visitor, notes).await,
            Route::AuthRequest => forward::original(desk, &head, visitor, notes).await,
            Route::Reset => check::reset(desk, headers, body).await,
            Route::Reload => operate::reload(&self.desk, headers).await,
            Route::Clock => Ok(operate::clock(desk)),
            Route::ClockAdvance => operate::advance(desk, headers, body),
            Route::Load => Ok(load::look(desk)),
            Route::LoadPush => load::push(desk, headers, body),
            Route::Json => self.json(headers, body.clone(), place).await,
            Route::Metrics => metrics(desk, place).await,
            Route::Health => Ok(operate::health()),
            Route::Ready => operate::ready(desk),
            Route::OpenApi => Ok(operate::open_api()),
        };
        let status = reply.as_ref().map_or_else(Problem::status, Reply::status).as_u16();
        if route.role() == Some(Role::Admin) {
            let path = head.uri.path();
            tracing::info!(peer = %visitor.peer, path, status, "an administrator's call");
        }
        let ended = desk.metrics.answered(DoorName::Http, begun, 1);
        desk.traces.end(traced, || {
            let name = route.span().unwrap_or_default().into();
            Ending { name, begun, ended, outcome: Outcome::Http { status } }
        });
        reply
    }

    /// Refuses those who may not ask for it.
    pub(super) fn let_in(&self, route: Route, shown: Shown<'_>) -> Result<(), Problem> {
        let Some(wanted) = route.role() else { return Ok(()) };
        let Shown { visitor, token } = shown;
        match self.desk.guard.role(visitor, token) {
            Some(role) if wanted <= role => Ok(()),
            Some(_) if self.desk.guard.knows_tokens() => {
                Err(Problem::new(StatusCode::FORBIDDEN, "this takes the token of an administrator"))
            }
            Some(_) => Err(Problem::new(
                StatusCode::FORBIDDEN,
                "to administer takes a token (`--token-file`), a client's certificate \
                 (`--tls-admins`) or the socket of `--admin`",
            )),
            None => Err(Problem::new(
                StatusCode::UNAUTHORIZED,
                "send `authorization: Bearer TOKEN`, or `x-tidegate-token: TOKEN`",
            )),
        }
    }

    async fn json(
        &self,
        headers: &HeaderMap,
        body: Bytes,
        place: &mut Place,
    ) -> Result<Reply, Problem> {
        let Some(json) = &self.json else {
            let wrong = "this server was started without Envoy's rate limit service";
            return Err(Problem::new(StatusCode::NOT_FOUND, wrong));
        };
        body::is_json(body::media_type(headers))?;
        let (desk, units) = (&self.desk, body.len());
        if !place.grow(desk.rls_sizes.of(units)).await {
            return Err(reply::no_room());
        }
        let (status, answer) = json(body).await;
        desk.rls_sizes.learn(units, answer.len());
        Ok(json_reply((status, answer)))
    }
}

/// The page is long, and how long is known only once it is written.
async fn metrics(desk: &Desk, place: &mut Place) -> Result<Reply, Problem> {
    if !place.grow(desk.page_sizes.of(1)).await {
        return Err(reply::no_room());
    }
    let page = operate::metrics(desk);
    desk.page_sizes.learn(1, usize::try_from(page.body().size_hint().lower()).unwrap_or_default());
    Ok(page)
}

fn json_reply((status, body): (StatusCode, Vec<u8>)) -> Reply {
    let mut reply = reply::with_type(body, "application/json");
    *reply.status_mut() = status;
    reply
}
