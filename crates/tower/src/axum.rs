//! [`Limits`] as an argument of axum's handlers.

use std::convert::Infallible;
use std::fmt;

use ::axum::extract::{FromRequestParts, OptionalFromRequestParts};
use ::axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;

use crate::limits::Limits;

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
