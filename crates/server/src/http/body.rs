//! Bodies of requests: whole, in time, and not too long.

use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use tokio::time::timeout;

use super::reply::Problem;
use crate::limits;

/// The whole body.
pub(super) async fn whole(body: Incoming) -> Result<Bytes, Problem> {
    let limited = Limited::new(body, limits::HTTP_BODY_BYTES_MAX);
    match timeout(limits::HTTP_BODY_TIME, limited.collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body has more than {} bytes", limits::HTTP_BODY_BYTES_MAX),
        )),
        Ok(Err(_)) => Err(Problem::bad("the body ended too soon")),
        Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "the body did not come in time")),
    }
}

/// What a body says, if it is JSON. Without a media type it is taken for that.
pub(super) fn read<'b, T: Deserialize<'b>>(
    headers: &http::HeaderMap,
    body: &'b [u8],
) -> Result<T, Problem> {
    let media_type = headers.get(CONTENT_TYPE).map_or(&b"application/json"[..], |it| it.as_bytes());
    let essence = media_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if !essence.eq_ignore_ascii_case(b"application/json") {
        let wrong = "send `content-type: application/json`";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, wrong));
    }
    serde_json::from_slice(body)
        .map_err(|error| Problem::bad(format!("the body is not what it should be: {error}")))
}
