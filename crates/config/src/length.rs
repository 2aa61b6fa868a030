//! How long the body of a request is, as far as that is known before it has come.

/// The length of a body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Length {
    /// So many bytes; none, if there is no body.
    Known(u64),
    /// It comes in pieces, or nobody said.
    Unknown,
}

impl Length {
    /// What `Content-Length` says: digits only. One that is too large is the largest; anything else
    /// says nothing.
    pub fn read(text: &[u8]) -> Length {
        number(text).map_or(Length::Unknown, Length::Known)
    }

    /// What two lines say together: what differs is not known.
    #[must_use]
    pub fn and(self, other: Length) -> Length {
        if self == other { self } else { Length::Unknown }
    }

    /// The length of a body that nobody has said anything of: none where the method has no use for
    /// one.
    pub fn unsaid(method: &str) -> Length {
        let has_none = ["GET", "HEAD"].iter().any(|it| it.eq_ignore_ascii_case(method));
        if has_none { Length::Known(0) } else { Length::Unknown }
    }
}

/// A number of digits only; one that is too large is the largest.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| {
        let add =
            |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add((digit - b'0').into());
        text.iter().fold(0, add)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Request as _, Sample};

    #[track_caller]
    fn check(line: &str, headers: &[(&str, &str)], expected: Length) {
        let mut request = Sample::new(line);
        for (name, value) in headers {
            request = request.with_header(name, value);
        }
        assert_eq!(request.length(), expected, "{line} {headers:?}");
    }

    #[test]
    fn what_is_not_said_for_sure_is_not_known() {
        use Length::{Known, Unknown};
        check("POST /", &[("content-length", "30")], Known(30));
        check("POST /", &[("content-length", "30"), ("content-length", " 30 ")], Known(30));
        check("GET /", &[("content-length", "30")], Known(30));
        check("POST /", &[("content-length", "99999999999999999999")], Known(u64::MAX));
        for odd in ["", "-1", "+1", "1e3", "ten", "1 0", "0x10", "5, 5"] {
            check("POST /", &[("content-length", odd)], Unknown);
            check("GET /", &[("content-length", odd)], Unknown);
        }
        check("POST /", &[("content-length", "0"), ("content-length", "9")], Unknown);
        let chunked = ("transfer-encoding", "chunked");
        for line in ["POST /", "GET /", "HEAD /"] {
            check(line, &[chunked], Unknown);
            check(line, &[("content-length", "0"), chunked], Unknown);
        }
        for line in ["GET /", "HEAD /", "get /"] {
            check(line, &[], Known(0));
        }
        for line in ["POST /", "PUT /", "DELETE /", "QUERY /", "/"] {
            let expected = if line == "/" { Known(0) } else { Unknown };
            check(line, &[], expected);
        }
    }
}
