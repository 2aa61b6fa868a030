//! Refusals as gRPC tells them: HTTP says 200, and the status is in a trailer that comes first.

use http::Method;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use tidegate_core::Verdict;
use tidegate_gate::{Admission, Reason};

use crate::seen::Answered;

/// `PERMISSION_DENIED`
const PERMISSION_DENIED: &str = "7";
/// `RESOURCE_EXHAUSTED`
const RESOURCE_EXHAUSTED: &str = "8";
/// `UNAVAILABLE`
const UNAVAILABLE: &str = "14";
/// `UNAUTHENTICATED`
const UNAUTHENTICATED: &str = "16";

/// Whether a request is a call of gRPC; if so, the media type of its answer. Only a `POST` is one:
/// a client that says so of a `GET` would get a refusal that looks like a success, for caches to
/// keep.
pub(crate) fn media_type(method: &Method, headers: &HeaderMap) -> Option<HeaderValue> {
    let asked = headers.get(header::CONTENT_TYPE).filter(|_| *method == Method::POST)?;
    let rest = asked.as_bytes().strip_prefix(b"application/grpc")?;
    match rest.first() {
        None | Some(b'+' | b';' | b' ') => Some(HeaderValue::from_static("application/grpc")),
        // A browser's call is answered in the encoding that it came in.
        Some(b'-') if rest.starts_with(b"-web") => Some(asked.clone()),
        Some(_) => None,
    }
}

/// Whether a response is one of gRPC whose status is still to come, behind its body. That of a call
/// for browsers is in the body itself, where nobody looks.
pub(crate) fn ends_in_trailers(answered: &Answered<'_>) -> bool {
    let media_type = answered.headers.get(header::CONTENT_TYPE);
    let rest = media_type.and_then(|it| it.as_bytes().strip_prefix(b"application/grpc"));
    let is_grpc = rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')));
    is_grpc && !answered.headers.contains_key("grpc-status")
}

/// Adds status and message.
pub(crate) fn write(admission: &Admission, media_type: HeaderValue, headers: &mut HeaderMap) {
    let status = match admission.reason() {
        Reason::Blocked => PERMISSION_DENIED,
        Reason::Crowded => UNAVAILABLE,
        Reason::UnknownKey => UNAUTHENTICATED,
        _ => RESOURCE_EXHAUSTED,
    };
    headers.insert(header::CONTENT_TYPE, media_type);
    headers.insert(HeaderName::from_static("grpc-status"), HeaderValue::from_static(status));
    if let Ok(message) = HeaderValue::try_from(encoded(&admission.message())) {
        headers.insert(HeaderName::from_static("grpc-message"), message);
    }
    headers.insert(HeaderName::from_static("grpc-retry-pushback-ms"), pushback(admission));
}

/// When clients that retry by themselves may do so; a negative number is never.
fn pushback(admission: &Admission) -> HeaderValue {
    match admission.verdict() {
        Verdict::Deny { retry_after } => {
            let millis = retry_after.get().div_ceil(1_000).max(1);
            // Clients read it as a signed word.
            HeaderValue::from(millis.min(i32::MAX.unsigned_abs().into()))
        }
        _ => HeaderValue::from_static("-1"),
    }
}

/// A message in percent-encoding, as the protocol asks for.
fn encoded(message: &str) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(message.len());
    for byte in message.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_bytes_are_encoded() {
        assert_eq!(encoded("try again"), "try again");
        assert_eq!(encoded("100 %\n\u{e9}"), "100 %25%0A%C3%A9");
    }

    #[track_caller]
    fn check(asked: &'static str, answered: Option<&str>) {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static(asked));
        assert_eq!(media_type(&Method::GET, &headers), None);
        let found = media_type(&Method::POST, &headers);
        assert_eq!(found.as_ref().and_then(|it| it.to_str().ok()), answered, "{asked}");
    }

    #[test]
    fn calls_are_known_by_their_media_type() {
        for asked in ["application/grpc", "application/grpc+proto", "application/grpc;v=1"] {
            check(asked, Some("application/grpc"));
        }
        check("application/grpc-web+proto", Some("application/grpc-web+proto"));
        for other in ["application/grpcx", "application/json", "text/application/grpc", ""] {
            check(other, None);
        }
    }
}
