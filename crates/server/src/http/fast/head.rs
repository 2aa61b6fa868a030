//! Recognizes a plain request: a whole `POST /v1/check` over HTTP/1.1 with a short body.
//!
//! In doubt it is not one: then the general-purpose stack reads the same bytes, and says what is
//! wrong with them.

use std::mem::MaybeUninit;

use httparse::{Header, Request, Status};

use crate::limits;

/// Such a request, where it was read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Plain<'b> {
    pub(super) media_type: Option<&'b [u8]>,
    /// `X-Tidegate-Token`.
    pub(super) token: Option<&'b [u8]>,
    pub(super) authorization: Option<&'b [u8]>,
    pub(super) traceparent: Option<&'b [u8]>,
    pub(super) body: &'b [u8],
    /// How many bytes it is, head and body.
    pub(super) len: usize,
}

/// What bytes begin with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Seen<'b> {
    Plain(Plain<'b>),
    /// One whose body is on its way.
    Begun,
    /// Anything else.
    Other,
}

/// Looks what `bytes` begin with.
pub(super) fn look(bytes: &[u8]) -> Seen<'_> {
    let mut fields = [const { MaybeUninit::<Header<'_>>::uninit() }; FIELDS_MAX];
    let mut head = Request::new(&mut []);
    let Ok(Status::Complete(start)) = head.parse_with_uninit_headers(bytes, &mut fields) else {
        return Seen::Other;
    };
    let is_plain = head.path == Some("/v1/check") && head.method == Some("POST");
    if !is_plain || head.version != Some(1) {
        return Seen::Other;
    }
    let Some((mut plain, length)) = read_fields(head.headers) else { return Seen::Other };
    let Some(body) = bytes[start..].get(..length) else { return Seen::Begun };
    (plain.body, plain.len) = (body, start + length);
    Seen::Plain(plain)
}

/// What the fields say, and how long the body is. Nothing if that is anything to think about: what
/// is said twice, how the body comes, or what becomes of the connection.
fn read_fields<'b>(fields: &[Header<'b>]) -> Option<(Plain<'b>, usize)> {
    let (mut plain, mut length, mut host) = (Plain::default(), None, None);
    for Header { name, value } in fields {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        let place = match name.len() {
            4 if is("host") => &mut host,
            6 if is("expect") => return None,
            7 if is("upgrade") => return None,
            10 if is("connection") && !value.eq_ignore_ascii_case(b"keep-alive") => return None,
            17 if is("transfer-encoding") => return None,
            11 if is("traceparent") => &mut plain.traceparent,
            12 if is("content-type") => &mut plain.media_type,
            13 if is("authorization") => &mut plain.authorization,
            14 if is("content-length") => &mut length,
            16 if is("x-tidegate-token") => &mut plain.token,
            _ => continue,
        };
        if place.replace(*value).is_some() {
            return None;
        }
    }
    host?;
    let length = short(length?)?;
    Some((plain, length))
}

/// A length in digits, of a body that is not long.
fn short(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || DIGITS_MAX < digits.len() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let length = digits.iter().fold(0, |length, digit| 10 * length + usize::from(digit - b'0'));
    (length <= limits::BODY_BYTES_FREE).then_some(length)
}

/// Clients send about ten.
const FIELDS_MAX: usize = 32;
const DIGITS_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn with(fields: &str, body: &str) -> String {
        format!("POST /v1/check HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}")
    }

    #[test]
    fn a_plain_request_is_seen_where_it_is() {
        let fields = "Content-Type: application/json\r\nCONTENT-LENGTH: 2\r\n\
                      connection: Keep-Alive\r\nauthorization: Bearer x\r\n\
                      x-tidegate-token: y\r\ntraceparent: z\r\nuser-agent: me\r\n";
        let one = with(fields, "{}");
        let two = format!("{one}{one}");
        let plain = Plain {
            media_type: Some(b"application/json"),
            token: Some(b"y"),
            authorization: Some(b"Bearer x"),
            traceparent: Some(b"z"),
            body: b"{}",
            len: one.len(),
        };
        assert_eq!(look(two.as_bytes()), Seen::Plain(plain));
    }

    #[test]
    fn a_body_on_its_way_is_waited_for() {
        let whole = with("content-length: 2\r\n", "{}");
        for len in 0..whole.len() {
            let expected = if len < whole.len() - 2 { Seen::Other } else { Seen::Begun };
            assert_eq!(look(&whole.as_bytes()[..len]), expected, "{len}");
        }
    }

    #[test]
    fn what_needs_thought_is_left_to_others() {
        for fields in [
            "",
            "content-length: 2\r\ncontent-length: 2\r\n",
            "content-length: +2\r\n",
            "content-length:\r\n",
            "content-length: 99999999999999999999\r\n",
            "content-length: 4097\r\n",
            "content-length: 2\r\ntransfer-encoding: chunked\r\n",
            "content-length: 2\r\nexpect: 100-continue\r\n",
            "content-length: 2\r\nupgrade: h2c\r\n",
            "content-length: 2\r\nconnection: close\r\n",
            "content-length: 2\r\nconnection: upgrade\r\n",
            "content-length: 2\r\ntraceparent: a\r\ntraceparent: a\r\n",
            "content-length: 2\r\n bad: a\r\n",
            "content-length: 2\r\nhost: b\r\n",
        ] {
            assert_eq!(look(with(fields, "{}").as_bytes()), Seen::Other, "{fields}");
        }
        let plain = with("content-length: 2\r\n", "{}");
        assert!(matches!(look(plain.as_bytes()), Seen::Plain(_)));
        for (from, to) in [("POST", "PUT"), ("check", "peek"), ("check", "check?a"), ("1.1", "1.0")]
        {
            assert_eq!(look(plain.replacen(from, to, 1).as_bytes()), Seen::Other, "{to}");
        }
        assert_eq!(look(plain.replacen("Host: a\r\n", "", 1).as_bytes()), Seen::Other);
        assert_eq!(look(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Seen::Other);
    }
}
