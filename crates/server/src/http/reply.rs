//! Responses: JSON, and problems in words that say what to do.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use serde_json::json;

/// A response of this door.
pub(super) type Reply = Response<Full<Bytes>>;

/// A request that gets no decision: why, and with which status.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
    /// The methods that would be accepted.
    allow: Option<HeaderValue>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem { status, detail: detail.into(), allow: None }
    }

    /// Adds to the problem which methods would be accepted.
    pub(super) fn allowing(mut self, methods: &str) -> Problem {
        self.allow = HeaderValue::from_str(methods).ok();
        self
    }

    /// What was sent cannot be read, or makes no sense.
    pub(super) fn bad(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    /// Whether there was more of it than is read.
    pub(super) fn is_too_much(&self) -> bool {
        matches!(self.status, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::SERVICE_UNAVAILABLE)
    }

    pub(super) fn into_reply(self) -> Reply {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let problem = json!({
            "type": "about:blank",
            "title": title,
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let mut reply = Response::new(Full::from(problem.to_string()));
        *reply.status_mut() = self.status;
        set_type(&mut reply, tidegate_gate::Admission::PROBLEM_TYPE);
        reply.headers_mut().extend(self.allow.map(|methods| (ALLOW, methods)));
        reply
    }
}

/// A request that is not decided, since nobody takes the answers to those before it.
pub(super) fn no_room() -> Problem {
    let wrong = "too many answers wait to be read: nothing was charged, try again later";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, wrong)
}

/// A value as JSON.
pub(super) fn json(value: &impl Serialize) -> Reply {
    match serde_json::to_vec(value) {
        Ok(body) => with_type(body, "application/json"),
        Err(error) => {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_reply()
        }
    }
}

/// A body of some type.
pub(super) fn with_type(body: impl Into<Bytes>, media_type: &'static str) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    set_type(&mut reply, media_type);
    reply
}

/// A body of some type. No decision is true for long: nobody may keep it.
pub(super) fn set_type(reply: &mut Reply, media_type: &'static str) {
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}
