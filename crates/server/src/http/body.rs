//! Bodies of requests: whole, in time, and not too long.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use hyper::body::{Body as _, Incoming};
use serde::Deserialize;

use super::field::Object;
use super::reply::Problem;
use crate::body::{Unread, Whole};
use crate::desk::Desk;
use crate::limits;

/// The whole body.
pub(super) async fn whole(desk: &Desk, body: Incoming) -> Result<Whole, Problem> {
    // A client that declares a length that is too long gets the error at once.
    if (limits::HTTP_BODY_BYTES_MAX as u64) < body.size_hint().lower() {
        return Err(too_long());
    }
    let bounded = desk.bodies.bound(body, desk.bounds.body_time);
    bounded.whole(limits::HTTP_BODY_BYTES_MAX).await.map_err(|unread| match unread {
        Unread::NoRoom => Problem::new(StatusCode::SERVICE_UNAVAILABLE, unread.to_string()),
        Unread::Slow => Problem::new(StatusCode::REQUEST_TIMEOUT, unread.to_string()),
        Unread::BrokeOff(_) => Problem::bad("the body ended too soon"),
        Unread::TooLong => too_long(),
    })
}

fn too_long() -> Problem {
    let wrong = format!("the body has more than {} bytes", limits::HTTP_BODY_BYTES_MAX);
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, wrong)
}

/// What a body says, if it is said to be JSON.
pub(super) fn read<'b, T: Deserialize<'b>>(
    headers: &http::HeaderMap,
    body: &'b [u8],
) -> Result<T, Problem> {
    is_json(media_type(headers))?;
    said(serde_json::from_slice(body))
}

/// Of which type a body is said to be.
pub(super) fn media_type(headers: &http::HeaderMap) -> Option<&[u8]> {
    headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes)
}

/// Reads as `read` does, but takes text and the media type that it is said to have.
pub(super) fn read_as<'b, T: Deserialize<'b>>(
    media_type: Option<&[u8]>,
    body: &'b str,
) -> Result<T, Problem> {
    is_json(media_type)?;
    said(serde_json::from_str(body))
}

fn said<T>(read: serde_json::Result<Object<T>>) -> Result<T, Problem> {
    read.map(|Object(it)| it)
        .map_err(|error| Problem::bad(format!("the body is not what it should be: {error}")))
}

/// Refuses a body that is not said to be JSON. A web page cannot say that of what it has a browser
/// send to others, unless these have agreed; and nobody here does.
pub(super) fn is_json(media_type: Option<&[u8]>) -> Result<(), Problem> {
    let mut parts = media_type.unwrap_or_default().split(|byte| *byte == b';');
    let essence = parts.next().unwrap_or_default().trim_ascii();
    if essence.eq_ignore_ascii_case(b"application/json") {
        return Ok(());
    }
    let wrong = "send `content-type: application/json`";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, wrong))
}
