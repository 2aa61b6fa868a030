//! What a client wrote, as text, whatever it wrote.
//!
//! A caller passes it on, and may let pass what it gets an error about: so what is no text is none
//! here, but has U+FFFD, the sign for what is no character, in its place.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

/// Bytes as text.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    // The usual text is looked at once, and fast.
    str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// JSON whose texts can all be read; what is no JSON is none afterwards either.
pub(crate) fn json(bytes: &[u8]) -> Cow<'_, str> {
    let text = text(bytes);
    if text.contains('\\') { paired(&text).into() } else { text }
}

/// The JSON without halves of pairs of surrogates, which are written by programs whose texts are
/// UTF-16, or that keep bytes in them which are no text.
fn paired(text: &str) -> String {
    let (mut paired, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        paired.push_str(before);
        let low = escape.get(ESCAPE_BYTES..).and_then(surrogate);
        let width = match (surrogate(escape), low) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..)) => 2 * ESCAPE_BYTES,
            (Some(_), _) => {
                paired.push_str("\\ufffd");
                rest = &escape[ESCAPE_BYTES..];
                continue;
            }
            (None, _) => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        paired.push_str(&escape[..width]);
        rest = &escape[width..];
    }
    paired + rest
}

/// Bytes of an escape such as `\u00e9`.
const ESCAPE_BYTES: usize = 6;

/// The half of a pair that a text begins with as an escape.
fn surrogate(text: &str) -> Option<u32> {
    let digits = text.get(..ESCAPE_BYTES)?.strip_prefix("\\u")?;
    u32::from_str_radix(digits, 16).ok().filter(|half| (0xD800..=0xDFFF).contains(half))
}

/// What an address is, for those who wrote none.
pub(crate) const ADDRESS: &str = "an address such as 192.0.2.1 or 2001:db8::1";

/// An address as sockets tell it: the zone of a neighbor (`fe80::1%eth0`) is no part of it.
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    match text.split_once('%') {
        Some((address, _)) => address.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_of_a_client_can_be_read() {
        for (written, expected) in [
            (&b"plain \xc3\xa9"[..], "plain \u{e9}"),
            (b"\xff", "\u{fffd}"),
            (br"\ud800", "\u{fffd}"),
            (br"\udcff", "\u{fffd}"),
            (br"\uD800", "\u{fffd}"),
            (br"\ud800\ud800\udc00", "\u{fffd}\u{10000}"),
            (br"\udc00\ud83d\ude00\ud83d", "\u{fffd}\u{1f600}\u{fffd}"),
            (br"\\ud800\u00e9\ud800\\", "\\ud800\u{e9}\u{fffd}\\"),
            (b"\\ud800\xff\\n", "\u{fffd}\u{fffd}\n"),
        ] {
            let body = [b"\"", written, b"\""].concat();
            let read: String = serde_json::from_str(&json(&body)).unwrap();
            assert_eq!(read, expected, "{}", body.escape_ascii());
        }
    }

    #[test]
    fn what_is_no_json_stays_none() {
        for wrong in [
            &b"\"\\"[..],
            b"\"\\u12\"",
            b"\"\\ud8\"",
            b"\"\\x\"",
            b"\\ud800",
            b"\xff",
            b"{\"a\":\xff}",
            b"\xff{}",
            b"\"\\\xff\"",
        ] {
            let read = serde_json::from_str::<serde_json::Value>(&json(wrong));
            assert!(read.is_err(), "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn what_can_be_read_is_left_as_it_is() {
        let body = br#"{"path":"/search?q=x"}"#;
        assert!(matches!(json(body), Cow::Borrowed(text) if text.as_bytes() == body));
    }

    #[test]
    fn a_zone_is_no_part_of_an_address() {
        for (written, expected) in [
            ("192.0.2.1", Some("192.0.2.1")),
            ("fe80::1%eth0", Some("fe80::1")),
            ("fe80::1%25eth0", Some("fe80::1")),
            ("fe80::1%", Some("fe80::1")),
            ("192.0.2.1%eth0", None),
            ("%eth0", None),
            ("localhost", None),
            ("", None),
        ] {
            let expected = expected.map(|it| it.parse().unwrap());
            assert_eq!(address(written), expected, "{written}");
        }
    }
}
