//! For proxies that ask before they let a request through: nginx, Caddy, Traefik and their like.
//!
//! There are two dialects, each at an address of its own: whoever can choose which headers count
//! could choose what they are counted as.

use std::borrow::Cow;
use std::fmt::Write as _;

use http::header::HOST;
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode};
use tidegate_gate::{Admission, Field};

use super::reply::{self, Reply};
use crate::ask::Ask;
use crate::auth::Visitor;
use crate::desk::Desk;
use crate::trace::Notes;

/// Where a dialect has the request that is asked about.
struct Dialect {
    method: &'static str,
    target: &'static str,
    host: &'static str,
}

/// `/v1/forward-auth`, as Caddy and Traefik ask.
pub(super) async fn forwarded(
    desk: &Desk,
    head: &Parts,
    visitor: Visitor,
    notes: &mut Notes<'_>,
) -> Reply {
    let dialect = Dialect {
        method: "x-forwarded-method",
        target: "x-forwarded-uri",
        host: "x-forwarded-host",
    };
    decide(desk, head, visitor, &dialect, notes).await
}

/// `/v1/auth-request`, as nginx is told to ask.
pub(super) async fn original(
    desk: &Desk,
    head: &Parts,
    visitor: Visitor,
    notes: &mut Notes<'_>,
) -> Reply {
    let dialect =
        Dialect { method: "x-original-method", target: "x-original-uri", host: "x-original-host" };
    decide(desk, head, visitor, &dialect, notes).await
}

async fn decide(
    desk: &Desk,
    head: &Parts,
    visitor: Visitor,
    dialect: &Dialect,
    notes: &mut Notes<'_>,
) -> Reply {
    let admitting = desk.gate.admit(&asked_about(head, visitor, dialect));
    // A proxy lets through what is answered: what is to be held back is held back here. Whoever
    // hangs up leaves the queue.
    let admission = admitting.await.start().await;
    notes.admission(&admission);
    let mut reply = if admission.verdict().passes() {
        reply::with_type(bytes::Bytes::new(), "text/plain")
    } else {
        reply::with_type(admission.problem(), Admission::PROBLEM_TYPE)
    };
    if !admission.verdict().passes() {
        *reply.status_mut() =
            StatusCode::from_u16(admission.status()).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    }
    admission.fields(|field: Field, value| {
        // Names of rules in them are plain text, by what a policy accepts.
        if let Ok(value) = HeaderValue::from_str(value) {
            reply.headers_mut().insert(HeaderName::from_static(field.name()), value);
        }
    });
    reply
}

/// The request as the proxy tells of it. What is odd is told all the same: whatever was left out
/// instead would be a way around the rules for it.
fn asked_about<'h>(head: &'h Parts, visitor: Visitor, dialect: &Dialect) -> Ask<'h> {
    let bytes = |name: &str| head.headers.get(name).map(HeaderValue::as_bytes);
    let mut ask = Ask { ip: Some(visitor.peer), ..Ask::default() };
    let method = bytes(dialect.method).unwrap_or(head.method.as_str().as_bytes());
    ask.method = String::from_utf8_lossy(method);
    ask.set_target(bytes(dialect.target).map_or("/".into(), escaped));
    let host = bytes(dialect.host).or_else(|| bytes(HOST.as_str()));
    ask.host = host.map(String::from_utf8_lossy);
    for (name, value) in &head.headers {
        if name != super::route::TOKEN_HEADER {
            ask.add_header(name.as_str(), value.as_bytes());
        }
    }
    ask
}

/// A target as a text: what is not ASCII in it is written as it should have been sent.
fn escaped(target: &[u8]) -> Cow<'_, str> {
    if let (true, Ok(text)) = (target.is_ascii(), str::from_utf8(target)) {
        return text.into();
    }
    let mut text = String::with_capacity(target.len());
    for byte in target {
        if byte.is_ascii() {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_is_no_ascii_is_escaped() {
        assert_eq!(escaped(b"/search?q=x"), "/search?q=x");
        assert_eq!(escaped(b"/search?q=\xFF"), "/search?q=%FF");
        assert_eq!(escaped("/s\u{e9}".as_bytes()), "/s%C3%A9");
    }
}
