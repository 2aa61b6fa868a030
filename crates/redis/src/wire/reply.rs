//! A reply as it came, and a way to read it without copying.

use redis::{RedisError, Value};

/// One whole reply, as it came.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Reply(Box<[u8]>);

/// What a reply is made of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Item<'a> {
    Number(i64),
    Bytes(&'a [u8]),
    /// So many items follow that are part of it.
    List(usize),
}

/// Reads the items of a reply, one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Items<'a>(&'a [u8]);

impl Reply {
    /// `bytes` are what a look found to be one reply.
    pub(super) fn new(bytes: &[u8]) -> Reply {
        Reply(bytes.into())
    }

    pub(crate) fn items(&self) -> Items<'_> {
        Items(&self.0)
    }

    pub(super) fn is_error(&self) -> bool {
        matches!(self.0.first(), Some(b'-' | b'!'))
    }

    /// All of it, by the client library: for what is seldom, or may be of any kind.
    pub(super) fn value(&self) -> Result<Value, RedisError> {
        redis::parse_redis_value(&self.0)
    }
}

impl<'a> Items<'a> {
    /// The next item. Nothing if there is none, or of a kind that scripts of ours do not send.
    pub(crate) fn next(&mut self) -> Option<Item<'a>> {
        let end = self.0.iter().position(|&byte| byte == b'\r')?;
        let (kind, line) = self.0[..end].split_first()?;
        let rest = self.0.get(end + 2..)?;
        let (item, rest) = match kind {
            b':' => (Item::Number(number(line)?), rest),
            b'*' => (Item::List(usize::try_from(number(line)?).ok()?), rest),
            b'$' => {
                let length = usize::try_from(number(line)?).ok()?;
                (Item::Bytes(rest.get(..length)?), rest.get(length + 2..)?)
            }
            _ => return None,
        };
        self.0 = rest;
        Some(item)
    }
}

/// A number in decimal.
fn number(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    // One more would not fit for certain.
    if digits.is_empty() || 18 < digits.len() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |sum, digit| 10 * sum + i64::from(digit - b'0'));
    Some(if is_negative { -number } else { number })
}

#[cfg(test)]
impl Reply {
    /// Waits for the next reply, for tests that have a stream to themselves.
    pub(crate) fn read(stream: &mut impl std::io::Read) -> Reply {
        let (mut scan, mut bytes) = (super::frame::Scan::default(), Vec::new());
        loop {
            let mut some = [0; 4096];
            let count = stream.read(&mut some).unwrap();
            assert_ne!(count, 0, "the stream has ended");
            bytes.extend_from_slice(&some[..count]);
            if let Some(length) = scan.look(&bytes).unwrap() {
                assert_eq!(length, bytes.len(), "more than one reply");
                return Reply::new(&bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_sim::rng::Rng;

    use super::*;

    /// Lists the items as the client library's parser reads them.
    fn flatten<'a>(value: &'a Value, items: &mut Vec<Item<'a>>) -> Option<()> {
        match value {
            Value::Int(number) => items.push(Item::Number(*number)),
            Value::BulkString(bytes) => items.push(Item::Bytes(bytes)),
            Value::Array(list) => {
                items.push(Item::List(list.len()));
                list.iter().try_for_each(|value| flatten(value, items))?;
            }
            _ => return None,
        }
        Some(())
    }

    #[track_caller]
    fn check(text: &str) {
        let reply = Reply::new(text.as_bytes());
        let value = reply.value().unwrap();
        let mut expected = Vec::new();
        flatten(&value, &mut expected).unwrap();
        let mut items = reply.items();
        for item in expected {
            assert_eq!(items.next(), Some(item), "{text:?}");
        }
        assert_eq!(items.next(), None, "{text:?}");
    }

    #[test]
    fn items_are_what_the_client_library_reads() {
        check("*4\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n$0\r\n\r\n*2\r\n:-2\r\n$3\r\na\r\n\r\n");
        check("*3\r\n:1700000000000000\r\n:0\r\n$16\r\n1700000000000001\r\n");
        check(":1\r\n");
        check("*0\r\n");
    }

    #[test]
    fn what_scripts_of_ours_do_not_send_is_not_read() {
        for text in ["+OK\r\n", "$-1\r\n", "*-1\r\n", "_\r\n", ":9223372036854775808\r\n", ":\r\n"]
        {
            assert_eq!(Reply::new(text.as_bytes()).items().next(), None, "{text:?}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut rng = Rng::new(9);
        let marks = b":$*-0123456789\r\n\r\n";
        for _ in 0..200_000 {
            let any = |rng: &mut Rng| marks[usize::try_from(rng.below(18)).unwrap()];
            let bytes: Vec<u8> = (0..rng.below(30)).map(|_| any(&mut rng)).collect();
            let reply = Reply::new(&bytes);
            let mut items = reply.items();
            let read = std::iter::from_fn(|| items.next()).count();
            assert!(read <= bytes.len());
        }
    }

    #[test]
    fn errors_are_known_by_how_they_begin() {
        assert!(Reply::new(b"-ERR no\r\n").is_error());
        assert!(Reply::new(b"!3\r\nERR\r\n").is_error());
        assert!(!Reply::new(b"+OK\r\n").is_error());
    }
}
