//! What operators look at, and what administrators do.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::json;
use tidegate_core::Span;
use tidegate_gate::Reloaded;

use super::field::Whole;
use super::reply::{self, Problem, Reply};
use super::{body, permit};
use crate::desk::Desk;
use crate::limits;
use crate::metrics;

/// `GET /healthz`: whether the process is alive.
pub(super) fn health() -> Reply {
    reply::with_type("alive\n", "text/plain")
}

/// `GET /readyz`: whether traffic should be sent here, and by what it is decided.
///
/// A server without its Redis is ready: it decides as the policy says for that case, and a balancer
/// that took all such servers away would leave nobody to decide.
pub(super) fn ready(desk: &Desk) -> Result<Reply, Problem> {
    if !desk.is_ready() {
        let wrong = "the server is starting or stopping";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, wrong));
    }
    let text = match desk.gate.store_health() {
        Some(health) if !health.is_seen() => {
            "ready, but Redis was never seen: rules decide as their on_store_error says\n"
        }
        Some(health) if !health.is_connected() => {
            "ready, but Redis is away: rules decide as their on_store_error says\n"
        }
        _ => "ready\n",
    };
    Ok(reply::with_type(text, "text/plain"))
}

/// `GET /metrics`, for Prometheus.
pub(super) fn metrics(desk: &Desk) -> Reply {
    reply::with_type(desk.metrics.exposition(desk), metrics::MEDIA_TYPE)
}

/// `GET /openapi.json`: what there is.
pub(super) fn open_api() -> Reply {
    reply::with_type(include_str!("openapi.json"), "application/json")
}

/// `POST /v1/reload`: puts the policy's file in force as it is now. It takes no body; a form says
/// of which type one would be.
pub(super) async fn reload(desk: &Arc<Desk>, headers: &HeaderMap) -> Result<Reply, Problem> {
    if let media_type @ Some(_) = body::media_type(headers) {
        body::is_json(media_type)?;
    }
    // Files are read, which may take a while: not among those who decide.
    let reading = Arc::clone(desk);
    let reloaded = tokio::task::spawn_blocking(move || reading.reload()).await;
    match reloaded
        .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?
    {
        None => Err(Problem::new(
            StatusCode::CONFLICT,
            "the policy is not in a file that can be read again: start with `--policy FILE`",
        )),
        Some(Reloaded::Done { warnings }) => {
            Ok(reply::json(&json!({ "outcome": "done", "warnings": warnings })))
        }
        Some(Reloaded::Kept { error }) => {
            Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error))
        }
        Some(_) => Ok(reply::json(&json!({ "outcome": "done" }))),
    }
}

/// `GET /v1/clock`: what tick it is.
pub(super) fn clock(desk: &Desk) -> Reply {
    let now = desk.gate.now().get();
    reply::json(&json!({ "now_us": now, "manual": desk.manual.is_some() }))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    advance_us: Whole,
}

/// Whether a body is one of `POST /v1/clock`.
pub(super) fn is_advance(headers: &HeaderMap, body: &[u8]) -> bool {
    body::read::<Advance>(headers, body).is_ok()
}

/// `POST /v1/clock`: moves a manual clock on.
pub(super) fn advance(desk: &Desk, headers: &HeaderMap, body: &[u8]) -> Result<Reply, Problem> {
    let Advance { advance_us: Whole(advance_us) } = body::read(headers, body)?;
    let Some(manual) = &desk.manual else {
        let wrong = "the clock is the system's: start with `--clock manual` to move it";
        return Err(Problem::new(StatusCode::CONFLICT, wrong));
    };
    let most = permit::span(limits::CLOCK_STEP_MAX).get();
    if most < advance_us {
        return Err(Problem::bad(format!("`advance_us` is at most {most}: a year")));
    }
    manual.advance(Span::from_micros(advance_us));
    desk.let_go();
    Ok(clock(desk))
}
