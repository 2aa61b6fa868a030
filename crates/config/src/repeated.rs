//! What a request may have more than once: lines of a header, cookies and query parameters.
//!
//! Which of several values an application takes is not for us to know. So as a part of a key, what
//! has two values has none; matches and costs look at each. And a value has one spelling, however
//! it was sent: otherwise each spelling would have a bucket of its own.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::matcher::Certainty;
use crate::request::Request;

/// The values that were sent. Most have one.
pub(crate) type Values<'a> = SmallVec<[Cow<'a, [u8]>; 1]>;

/// The lines of a header, without the blanks around them.
pub(crate) fn lines<'a>(request: &'a dyn Request, name: &str) -> Values<'a> {
    let mut values = Values::new();
    let has_scheme = has_scheme(name);
    request.header_lines(name, &mut |line| {
        let line = line.trim_ascii();
        values.push(if has_scheme { plain_scheme(line) } else { line.into() });
    });
    values
}

/// The values of a cookie, decoded, and without quotes around them. To be sure, also as they were
/// sent: many applications decode nothing.
pub(crate) fn cookies<'a>(
    request: &'a dyn Request,
    name: &str,
    certainty: Certainty,
) -> Values<'a> {
    let mut values = Values::new();
    request.header_lines("cookie", &mut |line| {
        for pair in line.split(|byte| *byte == b';') {
            let mut halves = pair.splitn(2, |byte| *byte == b'=');
            let is_it = halves.next().is_some_and(|it| it.trim_ascii() == name.as_bytes());
            if let (true, Some(value)) = (is_it, halves.next()) {
                values.push(plain_cookie(value));
                if certainty == Certainty::Surely {
                    values.push(value.trim_ascii().into());
                }
            }
        }
    });
    values
}

/// The values of a query parameter, decoded.
///
/// Some applications end a parameter at a `;` as well, and some take `Key`, `key[]` and `k.y` for
/// `key` and `k_y`: all of that is the parameter, since any of it may be what they read. But what
/// not all of them read has no value of which anybody is sure.
pub(crate) fn parameters<'a>(query: &'a str, name: &str, certainty: Certainty) -> Values<'a> {
    let mut values = Values::new();
    let mut look_at = |pair: &'a str, is_plain: bool| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let key = decoded(key.as_bytes(), Plus::IsSpace);
        if is_called(&key, name.as_bytes()) {
            let is_sure = is_plain && *key == *name.as_bytes();
            let counts = is_sure || certainty == Certainty::Perhaps;
            let value = counts.then(|| decoded(value.as_bytes(), Plus::IsSpace));
            values.push(value.unwrap_or_default());
        }
    };
    for pair in query.split('&') {
        let is_plain = !pair.contains(';');
        look_at(pair, true);
        if !is_plain {
            pair.split(';').for_each(|part| look_at(part, false));
        }
    }
    values
}

/// The value, if there is one only, however often it was sent.
pub(crate) fn only(values: Values<'_>) -> Option<Cow<'_, [u8]>> {
    let is_clear = !are_torn(&values);
    values.into_iter().next().filter(|_| is_clear)
}

/// Whether there are several that differ.
pub(crate) fn are_torn(values: &[Cow<'_, [u8]>]) -> bool {
    values.windows(2).any(|pair| pair[0] != pair[1])
}

/// Whether the values of a header begin with the name of a scheme, as in `Bearer abc`.
pub(crate) fn has_scheme(header: &str) -> bool {
    matches!(header, "authorization" | "proxy-authorization")
}

/// Credentials with one spelling of their scheme, which means the same in upper and lower case:
/// that which most clients send, such as `Bearer`, with one blank behind it.
pub(crate) fn plain_scheme(value: &[u8]) -> Cow<'_, [u8]> {
    let Some(end) = value.iter().position(u8::is_ascii_whitespace) else { return value.into() };
    let (scheme, rest) = value.split_at(end);
    let text = rest.trim_ascii_start();
    let is_plain = rest.len() == text.len() + 1 && rest.first() == Some(&b' ');
    if is_plain && is_title(scheme) {
        return value.into();
    }
    let mut plain = title(scheme);
    plain.push(b' ');
    plain.extend_from_slice(text);
    plain.into()
}

/// In lower case, but for the first letter.
pub(crate) fn title(word: &[u8]) -> Vec<u8> {
    let mut word = word.to_ascii_lowercase();
    if let Some(first) = word.first_mut() {
        first.make_ascii_uppercase();
    }
    word
}

fn is_title(word: &[u8]) -> bool {
    let Some((first, rest)) = word.split_first() else { return true };
    !first.is_ascii_lowercase() && !rest.iter().any(u8::is_ascii_uppercase)
}

/// The value of a cookie with one spelling.
pub(crate) fn plain_cookie(value: &[u8]) -> Cow<'_, [u8]> {
    let value = match value.trim_ascii() {
        [b'"', inner @ .., b'"'] => inner,
        value => value,
    };
    decoded(value, Plus::IsPlus)
}

/// Whether an application may take `key` for the parameter `name`.
fn is_called(key: &[u8], name: &[u8]) -> bool {
    if key == name {
        return true;
    }
    let end = key.iter().position(|byte| matches!(byte, b'[' | 0)).unwrap_or(key.len());
    let key = key[..end].trim_ascii_start();
    let plain = |byte: &u8| match byte {
        b'.' | b' ' => b'_',
        byte => byte.to_ascii_lowercase(),
    };
    key.len() == name.len() && key.iter().map(plain).eq(name.iter().map(plain))
}

/// What a `+` means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Plus {
    IsPlus,
    IsSpace,
}

fn decoded(bytes: &[u8], plus: Plus) -> Cow<'_, [u8]> {
    let is_space = |byte: u8| byte == b'+' && plus == Plus::IsSpace;
    if !bytes.iter().any(|byte| *byte == b'%' || is_space(*byte)) {
        return bytes.into();
    }
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
    let (mut plain, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let pair = (digit(at + 1), digit(at + 2));
        let (byte, width) = match (bytes[at], pair) {
            (b'%', (Some(high), Some(low))) => (u8::try_from(high << 4 | low).unwrap_or(b'%'), 3),
            (byte, _) if is_space(byte) => (b' ', 1),
            (byte, _) => (byte, 1),
        };
        plain.push(byte);
        at += width;
    }
    plain.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_have_one_spelling_of_their_scheme() {
        for (sent, plain) in [
            ("Bearer AbC", "Bearer AbC"),
            ("bEaReR AbC", "Bearer AbC"),
            ("BEARER \t AbC", "Bearer AbC"),
            ("Bearer\tAbC d", "Bearer AbC d"),
            ("ApiKey x", "Apikey x"),
            ("AbC", "AbC"),
            ("", ""),
        ] {
            assert_eq!(plain_scheme(sent.as_bytes()), plain.as_bytes(), "{sent}");
        }
    }

    #[test]
    fn a_parameter_is_whatever_an_application_may_take_for_it() {
        let found = |query: &'static str| {
            let values = parameters(query, "api_key", Certainty::Perhaps);
            values.iter().map(|it| String::from_utf8_lossy(it).into_owned()).collect::<Vec<_>>()
        };
        for query in [
            "api_key=a",
            "API_KEY=a",
            "api.key=a",
            "%61pi+key=%61",
            "api_key[]=a",
            "+api_key%00x=a",
        ] {
            assert_eq!(found(query), ["a"], "{query}");
        }
        for query in ["apikey=a", "api-key=a", "xapi_key=a", "api_keys=a", ""] {
            assert_eq!(found(query), [""; 0], "{query}");
        }
        assert_eq!(found("api_key=a;b=c"), ["a;b=c", "a"]);
        assert_eq!(found("b=c;api_key=a&api_key=d"), ["a", "d"]);
    }

    #[test]
    fn a_cookie_has_one_spelling() {
        for sent in ["a+b", " \"a+b\" ", "%61+%62", "\"a%2Bb\"", "a%2bb"] {
            assert_eq!(&*plain_cookie(sent.as_bytes()), b"a+b", "{sent}");
        }
        assert_eq!(&*plain_cookie(b"%zz%4"), b"%zz%4");
    }
}
