//! What is different with axum: [`Limits`] are an argument of its handlers, and bodies are its own.

use std::convert::Infallible;
use std::fmt;

use ::axum::BoxError;
use ::axum::body::Body;
use ::axum::extract::{FromRequestParts, OptionalFromRequestParts};
use ::axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http::request::Parts;
use tidegate_gate::Length;

use crate::body::{Bodies, LimitedBody};
use crate::length::Lengths;
use crate::limits::Limits;

/// Axum's own bodies; see [`TidegateLayer::for_axum`](crate::TidegateLayer::for_axum).
#[derive(Clone, Copy, Debug)]
pub struct Axum;

impl<R> Bodies<R> for Axum
where
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Body = Body;

    fn ours(bytes: Bytes) -> Body {
        bytes.into()
    }

    fn theirs(body: R) -> Body {
        // One that is axum's own already stays what it is.
        Body::new(body)
    }

    fn in_flight(body: LimitedBody<R>) -> Body {
        Body::new(body)
    }
}

/// What a body says of itself is surer than headers: over HTTP/2 one may come without a length.
impl<B: http_body::Body> Lengths<B> for Axum {
    fn length(body: &B) -> Option<Length> {
        if body.is_end_stream() {
            return Some(Length::Known(0));
        }
        Some(body.size_hint().exact().map_or(Length::Unknown, Length::Known))
    }
}

/// Why there are no [`Limits`]: the route has no [`TidegateLayer`](crate::TidegateLayer). It is a
/// mistake of the application, so clients get a 500.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoLimits;

impl<S: Sync> FromRequestParts<S> for Limits {
    type Rejection = NoLimits;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Limits, NoLimits> {
        parts.extensions.get::<Limits>().cloned().ok_or(NoLimits)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for Limits {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Limits>, Infallible> {
        Ok(parts.extensions.get::<Limits>().cloned())
    }
}

impl IntoResponse for NoLimits {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, self.to_string()).into_response()
    }
}

impl fmt::Display for NoLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`Limits` needs a `TidegateLayer` on this route: add `.layer(…)` below it")
    }
}

impl std::error::Error for NoLimits {}
