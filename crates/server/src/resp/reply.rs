//! Replies as bytes, in either version of the protocol.

use std::fmt;

/// Which version of the protocol a client speaks. All begin with the second.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Protocol {
    #[default]
    Two,
    Three,
}

/// Writes replies at the end of a buffer.
pub(super) struct Reply<'o> {
    out: &'o mut Vec<u8>,
    protocol: Protocol,
}

impl Protocol {
    pub(super) const fn number(self) -> u8 {
        match self {
            Protocol::Two => 2,
            Protocol::Three => 3,
        }
    }
}

impl<'o> Reply<'o> {
    pub(super) fn new(out: &'o mut Vec<u8>, protocol: Protocol) -> Reply<'o> {
        Reply { out, protocol }
    }

    /// A word that is known beforehand, such as `OK`.
    pub(super) fn simple(&mut self, word: &'static str) {
        self.line(b'+', word.as_bytes());
    }

    /// What went wrong. The first word says what kind of thing, as `ERR` does.
    pub(super) fn error(&mut self, message: &str) {
        self.out.push(b'-');
        // A line break would end the reply in the middle of it.
        self.out.extend(message.bytes().map(|byte| if is_break(byte) { b' ' } else { byte }));
        self.end();
    }

    pub(super) fn number(&mut self, number: impl itoa::Integer) {
        self.line(b':', itoa::Buffer::new().format(number).as_bytes());
    }

    pub(super) fn text(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        self.line(b'$', itoa::Buffer::new().format(text.len()).as_bytes());
        self.out.extend_from_slice(text);
        self.end();
    }

    pub(super) fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Two => b"$-1\r\n",
            Protocol::Three => b"_\r\n",
        });
    }

    pub(super) fn boolean(&mut self, value: bool) {
        self.out.extend_from_slice(match (self.protocol, value) {
            (Protocol::Two, false) => b":0\r\n",
            (Protocol::Two, true) => b":1\r\n",
            (Protocol::Three, false) => b"#f\r\n",
            (Protocol::Three, true) => b"#t\r\n",
        });
    }

    /// The head of a list: so many replies belong to it.
    pub(super) fn array(&mut self, len: usize) {
        self.line(b'*', itoa::Buffer::new().format(len).as_bytes());
    }

    /// The head of a map: so many pairs belong to it. The second version has only lists.
    pub(super) fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Two => self.array(2 * pairs),
            Protocol::Three => {
                self.line(b'%', itoa::Buffer::new().format(pairs).as_bytes());
            }
        }
    }

    /// A list of five integers, which is what most replies of this door are.
    #[inline]
    pub(super) fn numbers(&mut self, numbers: [i64; 5]) {
        // In one piece: growing the buffer bit by bit would take longer than filling it.
        let mut piece = [0; NUMBERS_BYTES_MAX];
        piece[..4].copy_from_slice(b"*5\r\n");
        let mut end = 4;
        for number in numbers {
            piece[end] = b':';
            end += 1;
            if let Ok(digit @ 0..=9) = u8::try_from(number) {
                piece[end] = b'0' + digit;
                end += 1;
            } else {
                let mut digits = itoa::Buffer::new();
                let digits = digits.format(number).as_bytes();
                piece[end..end + digits.len()].copy_from_slice(digits);
                end += digits.len();
            }
            piece[end..end + 2].copy_from_slice(b"\r\n");
            end += 2;
        }
        self.out.extend_from_slice(&piece[..end]);
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend_from_slice(text);
        self.end();
    }

    fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

impl fmt::Debug for Reply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("protocol", &self.protocol).finish_non_exhaustive()
    }
}

/// Bytes of five integers, each as long as can be.
const NUMBERS_BYTES_MAX: usize = 4 + 5 * (1 + 20 + 2);

const fn is_break(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(write: fn(&mut Reply<'_>), two: &str, three: &str) {
        for (protocol, expected) in [(Protocol::Two, two), (Protocol::Three, three)] {
            let mut out = Vec::new();
            write(&mut Reply::new(&mut out, protocol));
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn what_both_versions_write_alike() {
        check(|reply| reply.simple("OK"), "+OK\r\n", "+OK\r\n");
        check(|reply| reply.error("ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n");
        check(|reply| reply.number(-1), ":-1\r\n", ":-1\r\n");
        check(|reply| reply.text("a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n");
        check(|reply| reply.text(""), "$0\r\n\r\n", "$0\r\n\r\n");
        let five = "*5\r\n:0\r\n:9\r\n:10\r\n:-1\r\n:-9223372036854775808\r\n";
        check(|reply| reply.numbers([0, 9, 10, -1, i64::MIN]), five, five);
        check(|reply| reply.array(3), "*3\r\n", "*3\r\n");
    }

    #[test]
    fn what_the_third_version_has_a_type_for() {
        check(
            |reply| {
                reply.null();
            },
            "$-1\r\n",
            "_\r\n",
        );
        check(|reply| reply.boolean(true), ":1\r\n", "#t\r\n");
        check(|reply| reply.boolean(false), ":0\r\n", "#f\r\n");
        check(|reply| reply.map(2), "*4\r\n", "%2\r\n");
    }
}
