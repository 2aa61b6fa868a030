//! How long a caller waits for an answer.

use std::time::Duration;

use http::{Extensions, HeaderMap, HeaderName, Method};
use tidegate_core::Span;

use crate::grpc;

/// How long the caller of a request waits; put it into the request's extensions. A request that
/// would have to be held back for longer is refused at once, and charged nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Deadline(pub Duration);

/// Read once: as a text it would be read for every request.
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The shorter of what the extensions and, for a call of gRPC, `grpc-timeout` say.
pub(crate) fn of(method: &Method, headers: &HeaderMap, extensions: &Extensions) -> Option<Span> {
    let given = extensions.get::<Deadline>().map(|deadline| Span::from(deadline.0));
    let said = headers.get(GRPC_TIMEOUT).filter(|_| grpc::media_type(method, headers).is_some());
    let said = said.and_then(|value| grpc_timeout(value.as_bytes()));
    match (given, said) {
        (Some(given), Some(said)) => Some(given.min(said)),
        (given, said) => given.or(said),
    }
}

/// One to eight digits and a unit. What is not one is no deadline: it is for the service to mind.
fn grpc_timeout(text: &[u8]) -> Option<Span> {
    let (unit, digits) = text.split_last()?;
    if !(1..=8).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |sum: u64, digit| sum * 10 + u64::from(digit - b'0'));
    let micros = match unit {
        b'H' => number * 3_600_000_000,
        b'M' => number * 60_000_000,
        b'S' => number * 1_000_000,
        b'm' => number * 1_000,
        b'u' => number,
        b'n' => number.div_ceil(1_000),
        _ => return None,
    };
    Some(Span::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_of_grpc_have_six_units() {
        let hours = 99_999_999 * 3_600_000_000;
        let timeouts = [("99999999H", hours), ("1M", 60_000_000), ("2S", 2_000_000)];
        for (text, micros) in timeouts.into_iter().chain([("3m", 3_000), ("4u", 4), ("5n", 1)]) {
            assert_eq!(grpc_timeout(text.as_bytes()), Some(Span::from_micros(micros)), "{text}");
        }
        for nonsense in ["", "S", "1", "-1S", "1.5S", "123456789S", "1s", " 1S", "1 S", "1\u{b5}"] {
            assert_eq!(grpc_timeout(nonsense.as_bytes()), None, "{nonsense}");
        }
    }

    #[test]
    fn the_shorter_one_counts() {
        let (mut headers, mut extensions) = (HeaderMap::new(), Extensions::new());
        let (post, value) = (Method::POST, http::HeaderValue::from_static);
        headers.insert("grpc-timeout", value("2S"));
        assert_eq!(of(&post, &headers, &extensions), None);
        headers.insert("content-type", value("application/grpc"));
        assert_eq!(of(&post, &headers, &extensions), Some(Span::from_secs(2)));
        assert_eq!(of(&Method::GET, &headers, &extensions), None);
        extensions.insert(Deadline(Duration::from_secs(1)));
        assert_eq!(of(&post, &headers, &extensions), Some(Span::from_secs(1)));
    }
}
