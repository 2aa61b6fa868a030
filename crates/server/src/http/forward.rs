//! For proxies that ask before they let a request through: nginx, Caddy, Traefik and their like.
//!
//! There are two dialects, each at an address of its own: a client that can choose which headers
//! count could choose what its requests are counted as.

use std::borrow::Cow;
use std::fmt::Write as _;

use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tidegate_core::Span;
use tidegate_gate::{Admission, Field, Length};

use super::reply::{self, Problem, Reply};
use crate::ask::Ask;
use crate::auth::Visitor;
use crate::desk::Desk;
use crate::legible;
use crate::trace::Notes;

/// Where a dialect has the request that is asked about.
struct Dialect {
    method: &'static str,
    target: &'static str,
    host: &'static str,
    /// What to do without the first two.
    advice: &'static str,
    /// How long its body is. Not where proxies pass on whatever header a client sends.
    length: Option<&'static str>,
}

/// `/v1/forward-auth`, as Caddy and Traefik ask.
pub(super) async fn forwarded(
    desk: &Desk,
    head: &Parts,
    visitor: Visitor,
    notes: &mut Notes<'_>,
) -> Result<Reply, Problem> {
    let dialect = Dialect {
        method: "x-forwarded-method",
        target: "x-forwarded-uri",
        host: "x-forwarded-host",
        advice: "send `X-Forwarded-Method` and `X-Forwarded-Uri` once each, as Traefik and Caddy's \
                 `forward_auth` do; with `X-Original-Method` and `X-Original-URI`, as from nginx, \
                 ask `/v1/auth-request`",
        length: None,
    };
    decide(desk, head, visitor, &dialect, notes).await
}

/// `/v1/auth-request`, as nginx is configured to ask.
pub(super) async fn original(
    desk: &Desk,
    head: &Parts,
    visitor: Visitor,
    notes: &mut Notes<'_>,
) -> Result<Reply, Problem> {
    let dialect = Dialect {
        method: "x-original-method",
        target: "x-original-uri",
        host: "x-original-host",
        advice: "send `X-Original-Method` and `X-Original-URI` once each, as the files in `deploy` \
                 do; Traefik and Caddy's `forward_auth` ask `/v1/forward-auth`",
        length: Some("x-original-content-length"),
    };
    decide(desk, head, visitor, &dialect, notes).await
}

async fn decide(
    desk: &Desk,
    head: &Parts,
    visitor: Visitor,
    dialect: &Dialect,
    notes: &mut Notes<'_>,
) -> Result<Reply, Problem> {
    let ask = asked_about(head, visitor, dialect)?;
    let mut admission = desk.gate.admit(&ask).await;
    if let Some(patience) = ask.patience {
        // Others may have come between the look at a queue and the place in it.
        admission.hurry(patience).await;
    }
    // A proxy lets through what is answered: what is to be held back is held back here. A client
    // that hangs up leaves the queue.
    let admission = admission.start().await;
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
    Ok(reply)
}

/// The request as the proxy describes it. Odd values are passed on as well: leaving one out would
/// be a way around the rules for it.
fn asked_about<'h>(
    head: &'h Parts,
    visitor: Visitor,
    dialect: &Dialect,
) -> Result<Ask<'h>, Problem> {
    let bytes = |name: &str| head.headers.get(name).map(HeaderValue::as_bytes);
    // Nothing is made up: rules for what was really asked would not be for that.
    let once = |name: &str| {
        let mut lines = head.headers.get_all(name).iter();
        let only = lines.next().filter(|_| lines.next().is_none());
        only.map(HeaderValue::as_bytes).ok_or_else(|| Problem::bad(dialect.advice))
    };
    let patience = patience(&head.headers)?;
    let mut ask = Ask { ip: Some(visitor.peer), patience, ..Ask::default() };
    ask.method = legible::text(once(dialect.method)?);
    ask.set_target(escaped(once(dialect.target)?));
    ask.length = Some(length(head, dialect).unwrap_or_else(|| Length::unsaid(&ask.method)));
    let host = bytes(dialect.host).or_else(|| bytes(HOST.as_str()));
    ask.host = host.map(legible::text);
    for (name, value) in &head.headers {
        if name != super::route::TOKEN_HEADER {
            ask.add_header(name.as_str(), value.as_bytes());
        }
    }
    Ok(ask)
}

/// How long the body is, as the proxy says: the headers of the question are about the question. An
/// empty one says nothing, since some proxies send that for a header that they do not have.
fn length(head: &Parts, dialect: &Dialect) -> Option<Length> {
    let said = head.headers.get_all(dialect.length?).into_iter();
    let said = said.filter(|it| !it.is_empty()).map(|it| Length::read(it.as_bytes()));
    said.reduce(Length::and)
}

/// How long a proxy waits for the answer, less what the way takes.
const WAIT_HEADER: &str = "x-tidegate-wait";

/// The shortest time that the proxy says it waits. A time that cannot be read is refused: a proxy
/// that waits for less than we think lets the request through before it is answered.
fn patience(headers: &HeaderMap) -> Result<Option<Span>, Problem> {
    let mut shortest = None;
    for value in headers.get_all(WAIT_HEADER) {
        let wrong = || Problem::bad(format!("`{WAIT_HEADER}` is a time such as `900ms` or `2s`"));
        let wait = wait(value.as_bytes()).ok_or_else(wrong)?;
        shortest = Some(shortest.map_or(wait, |it: Span| it.min(wait)));
    }
    Ok(shortest)
}

/// One to nine digits with `ms` or `s`.
fn wait(text: &[u8]) -> Option<Span> {
    let (digits, micros) = match text.strip_suffix(b"ms") {
        Some(digits) => (digits, 1_000),
        None => (text.strip_suffix(b"s")?, 1_000_000),
    };
    if !(1..=9).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |sum: u64, digit| sum * 10 + u64::from(digit - b'0'));
    Some(Span::from_micros(number * micros))
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
    fn a_wait_is_digits_and_a_unit() {
        for (text, micros) in [("900ms", 900_000), ("2s", 2_000_000), ("0s", 0)] {
            assert_eq!(wait(text.as_bytes()), Some(Span::from_micros(micros)), "{text}");
        }
        for wrong in ["", "s", "ms", "2", "2 s", "-1s", "1.5s", "2m", "1234567890s", "2s, 3s"] {
            assert_eq!(wait(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn the_shortest_wait_counts_and_none_is_guessed() {
        let mut headers = HeaderMap::new();
        let shortest = |headers: &HeaderMap| patience(headers).map_err(|it| it.status());
        assert_eq!(shortest(&headers), Ok(None));
        for wait in ["2s", "900ms", "1h"] {
            headers.append(WAIT_HEADER, HeaderValue::from_static(wait));
            let expected = match wait {
                "2s" => Ok(Some(Span::from_secs(2))),
                "900ms" => Ok(Some(Span::from_millis(900))),
                _ => Err(StatusCode::BAD_REQUEST),
            };
            assert_eq!(shortest(&headers), expected);
        }
    }

    #[test]
    fn a_target_that_is_no_ascii_is_escaped() {
        assert_eq!(escaped(b"/search?q=x"), "/search?q=x");
        assert_eq!(escaped(b"/search?q=\xFF"), "/search?q=%FF");
        assert_eq!(escaped("/s\u{e9}".as_bytes()), "/s%C3%A9");
    }
}
