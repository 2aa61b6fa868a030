//! A policy that counts by address, in an application that tells none: a mistake of the
//! application, which its developer is to see at the first request.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{HeaderName, Response, StatusCode};

use crate::grpc;
use crate::refusal::IsRefusal;
use crate::seen::Seen;

/// What to do about it.
const ADVICE: &str = "\
the policy counts by `ip`, and the address of the client is not known: with axum, serve \
`app.into_make_service_with_connect_info::<SocketAddr>()` and turn on the feature `axum` of \
tidegate; with tonic, turn on the feature `tonic`; otherwise put a `tidegate_tower::Peer` into the \
extensions of each request";

/// `INTERNAL`
const INTERNAL: HeaderValue = HeaderValue::from_static("13");

/// Clients decide how many requests there are, so they must not decide how many log lines.
fn log_once() {
    static IS_LOGGED: AtomicBool = AtomicBool::new(false);
    if !IS_LOGGED.swap(true, Ordering::Relaxed) {
        tracing::error!("{ADVICE}");
    }
}

/// A 500 with the advice.
pub(crate) fn respond(seen: Seen<'_>) -> Response<Bytes> {
    log_once();
    let mut response = Response::new(Bytes::from_static(ADVICE.as_bytes()));
    response.extensions_mut().insert(IsRefusal);
    let Some(media_type) = grpc::media_type(seen.method, seen.headers) else {
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, text);
        return response;
    };
    *response.body_mut() = Bytes::new();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, media_type);
    headers.insert(HeaderName::from_static("grpc-status"), INTERNAL);
    headers.insert(HeaderName::from_static("grpc-message"), HeaderValue::from_static(ADVICE));
    response
}
