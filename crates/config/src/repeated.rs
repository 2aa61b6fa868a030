//! What a request may have more than once: cookies and query parameters.
//!
//! Which of several values an application takes is not for us to know. So as a part of a key, a
//! cookie that has two values has none, and of a query parameter the first counts, as for most who
//! read them; matches and costs look at each.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::request::Request;

/// The values that were sent. Most have one.
pub(crate) type Values<'a> = SmallVec<[Cow<'a, [u8]>; 1]>;

/// The values of a cookie, without quotes around them.
pub(crate) fn cookies<'a>(request: &'a dyn Request, name: &str) -> Values<'a> {
    let mut values = Values::new();
    request.header_lines("cookie", &mut |line| {
        for pair in line.split(|byte| *byte == b';') {
            let mut halves = pair.splitn(2, |byte| *byte == b'=');
            let is_it = halves.next().is_some_and(|it| it.trim_ascii() == name.as_bytes());
            if let (true, Some(value)) = (is_it, halves.next()) {
                values.push(without_quotes(value.trim_ascii()).into());
            }
        }
    });
    values
}

/// The values of a query parameter, decoded: one value has one spelling.
pub(crate) fn parameters<'a>(query: &'a str, name: &str) -> Values<'a> {
    let mut values = Values::new();
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if decoded(key)[..] == *name.as_bytes() {
            values.push(decoded(value));
        }
    }
    values
}

/// The value, if there is one only, however often it was sent.
pub(crate) fn only(values: Values<'_>) -> Option<Cow<'_, [u8]>> {
    let is_clear = values.windows(2).all(|pair| pair[0] == pair[1]);
    values.into_iter().next().filter(|_| is_clear)
}

fn without_quotes(value: &[u8]) -> &[u8] {
    match value {
        [b'"', inner @ .., b'"'] => inner,
        _ => value,
    }
}

fn decoded(text: &str) -> Cow<'_, [u8]> {
    let bytes = text.as_bytes();
    if !bytes.contains(&b'%') && !bytes.contains(&b'+') {
        return bytes.into();
    }
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let pair = (digit(at + 1), digit(at + 2));
        let (byte, width) = match (bytes[at], pair) {
            (b'%', (Some(high), Some(low))) => (u8::try_from(high << 4 | low).unwrap_or(b'%'), 3),
            (b'+', _) => (b' ', 1),
            (byte, _) => (byte, 1),
        };
        plain.push(byte);
        at += width;
    }
    plain.into()
}
