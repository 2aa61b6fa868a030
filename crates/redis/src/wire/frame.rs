//! Where a reply ends in what a server has sent so far, in either protocol.
//!
//! Nothing is understood here but lengths, and all of them have a bound. A look that finds no end
//! goes on later from where it stopped, so a reply that comes in pieces is looked at once.

use std::fmt;

use arrayvec::ArrayVec;

/// The longest reply: a cluster's slots in as many pieces as there can be are a few megabytes.
const REPLY_MAX: usize = 32 << 20;
/// The longest line, which is an error's text.
const LINE_MAX: usize = 64 << 10;
/// The most lists in lists.
const DEPTH_MAX: usize = 16;

/// A look for the end of a reply.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// What has been seen.
    at: usize,
    /// How many items are still to come, of each list that is open.
    open: ArrayVec<usize, DEPTH_MAX>,
}

/// What is no reply, so that nobody knows where the next one begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Broken {
    Kind(u8),
    Length,
    TooLong,
    TooDeep,
}

impl Scan {
    /// The length of the reply at the start of `bytes`, if all of it is there. Until then `bytes`
    /// may only grow.
    pub(super) fn look(&mut self, bytes: &[u8]) -> Result<Option<usize>, Broken> {
        loop {
            let Some((end, items)) = element(bytes, self.at)? else { return Ok(None) };
            if REPLY_MAX < end {
                return Err(Broken::TooLong);
            }
            self.at = end;
            if 0 < items {
                self.open.try_push(items).map_err(|_| Broken::TooDeep)?;
            } else if self.close() {
                *self = Scan::default();
                return Ok(Some(end));
            }
        }
    }

    /// Counts an item that is over; says whether that was the reply.
    fn close(&mut self) -> bool {
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if 0 < *left {
                return false;
            }
            self.open.pop();
        }
        true
    }
}

/// The end of the element at `at`, and how many items follow that are part of it.
fn element(bytes: &[u8], at: usize) -> Result<Option<(usize, usize)>, Broken> {
    let rest = bytes.get(at..).unwrap_or_default();
    let Some(&kind) = rest.first() else { return Ok(None) };
    let Some(line) = line(rest)? else { return Ok(None) };
    let end = at + line.len() + 2;
    let length = || length(&line[1..]);
    match kind {
        b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => Ok(Some((end, 0))),
        b'$' | b'!' | b'=' => match length()? {
            None => Ok(Some((end, 0))),
            Some(length) => match bytes.get(end + length..end + length + 2) {
                None => Ok(None),
                Some(b"\r\n") => Ok(Some((end + length + 2, 0))),
                Some(_) => Err(Broken::Length),
            },
        },
        b'*' | b'~' | b'>' => Ok(Some((end, length()?.unwrap_or(0)))),
        b'%' => Ok(Some((end, 2 * length()?.unwrap_or(0)))),
        // What is said about the value that follows.
        b'|' => Ok(Some((end, 2 * length()?.unwrap_or(0) + 1))),
        other => Err(Broken::Kind(other)),
    }
}

/// The first line, without its end.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, Broken> {
    let Some(end) = bytes.iter().take(LINE_MAX).position(|&byte| byte == b'\n') else {
        return if bytes.len() < LINE_MAX { Ok(None) } else { Err(Broken::TooLong) };
    };
    match bytes[..end].split_last() {
        // A line has a kind at least.
        Some((b'\r', line)) if !line.is_empty() => Ok(Some(line)),
        _ => Err(Broken::Length),
    }
}

/// A length in decimal; nothing for one that says that there is nothing.
fn length(digits: &[u8]) -> Result<Option<usize>, Broken> {
    if digits == b"-1" {
        return Ok(None);
    }
    if digits.is_empty() || 10 < digits.len() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Broken::Length);
    }
    let length = digits.iter().fold(0, |sum, digit| 10 * sum + usize::from(digit - b'0'));
    if length <= REPLY_MAX { Ok(Some(length)) } else { Err(Broken::TooLong) }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Kind(kind) => write!(f, "not a reply: it begins with byte {kind}"),
            Broken::Length => f.write_str("not a reply: a length that is none"),
            Broken::TooLong => f.write_str("a reply that is longer than any should be"),
            Broken::TooDeep => f.write_str("a reply that is deeper than any should be"),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_sim::rng::Rng;

    use super::*;

    /// Replies of every kind, as servers write them.
    pub(in crate::wire) const REPLIES: [&str; 22] = [
        "+OK\r\n",
        "+\r\n",
        "-ERR no\r\n",
        ":-12\r\n",
        "$0\r\n\r\n",
        "$5\r\na\r\nbc\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*2\r\n$1\r\na\r\n:7\r\n",
        "*3\r\n*0\r\n*2\r\n*1\r\n:1\r\n$-1\r\n+x\r\n",
        "_\r\n",
        ",3.25\r\n",
        "#t\r\n",
        "(3492890328409238509324850943850943825024385\r\n",
        "!9\r\nERR it is\r\n",
        "=7\r\ntxt:abc\r\n",
        "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n",
        "~2\r\n:1\r\n:2\r\n",
        ">2\r\n+message\r\n+x\r\n",
        "%0\r\n",
        "*1\r\n%1\r\n$1\r\nk\r\n~0\r\n",
    ];

    fn look(bytes: &[u8]) -> Result<Option<usize>, Broken> {
        Scan::default().look(bytes)
    }

    #[test]
    fn a_reply_ends_where_the_client_library_says() {
        for reply in REPLIES {
            redis::parse_redis_value(reply.as_bytes()).unwrap();
            for behind in ["", "+OK\r\n", "*"] {
                assert_eq!(look(format!("{reply}{behind}").as_bytes()), Ok(Some(reply.len())));
            }
        }
        assert_eq!(look(b"|1\r\n+k\r\n:1\r\n:7\r\n:8\r\n"), Ok(Some(16)));
    }

    #[test]
    fn replies_that_come_in_pieces_end_where_they_end_whole() {
        for reply in REPLIES {
            let bytes = reply.as_bytes();
            for cut in 0..bytes.len() {
                let mut scan = Scan::default();
                assert_eq!(scan.look(&bytes[..cut]), Ok(None), "{reply:?} cut at {cut}");
                assert_eq!(scan.look(bytes), Ok(Some(bytes.len())), "{reply:?} cut at {cut}");
            }
            let mut scan = Scan::default();
            let ends: Vec<_> = (1..=bytes.len()).map(|to| scan.look(&bytes[..to])).collect();
            assert_eq!(ends.last(), Some(&Ok(Some(bytes.len()))), "{reply:?}");
            assert_eq!(ends.iter().filter(|end| **end == Ok(None)).count(), bytes.len() - 1);
        }
    }

    #[test]
    fn what_is_no_reply_is_named() {
        assert_eq!(look(b"HTTP/1.1 400\r\n"), Err(Broken::Kind(b'H')));
        assert_eq!(look(b"\r\n"), Err(Broken::Length));
        for bad in ["$\r\n", "$x\r\n", "$-2\r\n", "*+1\r\n", "$12345678901\r\n", "$1\r\nabc", "+\n"]
        {
            assert_eq!(look(bad.as_bytes()), Err(Broken::Length), "{bad:?}");
        }
    }

    #[test]
    fn every_length_has_a_bound() {
        assert_eq!(look(b"$33554433\r\n"), Err(Broken::TooLong));
        assert_eq!(look(b"*33554433\r\n"), Err(Broken::TooLong));
        assert_eq!(look(b"$33554432\r\n"), Ok(None));
        let mut line = vec![b'-'];
        line.resize(LINE_MAX - 1, b'a');
        assert_eq!(look(&line), Ok(None));
        line.push(b'a');
        assert_eq!(look(&line), Err(Broken::TooLong));
        let deep = |depth: usize| "*1\r\n".repeat(depth) + ":1\r\n";
        assert_eq!(look(deep(DEPTH_MAX).as_bytes()), Ok(Some(4 * DEPTH_MAX + 4)));
        assert_eq!(look(deep(DEPTH_MAX + 1).as_bytes()), Err(Broken::TooDeep));
        let many = "*1000\r\n".to_owned() + &format!("${}\r\n", 1 << 20);
        let mut bytes = many.into_bytes();
        let mut scan = Scan::default();
        let end = loop {
            bytes.resize(bytes.len() + (1 << 20), b'a');
            bytes.extend_from_slice(format!("\r\n${}\r\n", 1 << 20).as_bytes());
            if let Err(broken) = scan.look(&bytes) {
                break broken;
            }
        };
        assert_eq!(end, Broken::TooLong);
        assert!(bytes.len() < REPLY_MAX + (4 << 20));
    }

    /// Whatever comes in: an end within what is there, or none, or a word why it is no reply.
    #[test]
    fn no_bytes_make_it_panic() {
        let mut rng = Rng::new(7);
        let marks = b"+-:_,#($!=*~>%|\r\n0123456789a-";
        for round in 0..200_000_u32 {
            let length = rng.below(40);
            let any = |rng: &mut Rng| {
                let of_marks = usize::try_from(rng.below(marks.len() as u64)).unwrap();
                let any = u8::try_from(rng.below(256)).unwrap();
                if round % 4 == 0 { any } else { marks[of_marks] }
            };
            let bytes: Vec<u8> = (0..length).map(|_| any(&mut rng)).collect();
            if let Ok(Some(end)) = look(&bytes) {
                assert!(0 < end && end <= bytes.len(), "{bytes:?}");
            }
        }
    }

    /// Where the client library reads a value, it ends where we say.
    #[test]
    fn whatever_the_client_library_reads_ends_where_we_say() {
        let mut rng = Rng::new(8);
        let mut read = 0;
        for _ in 0..50_000 {
            let mut bytes = REPLIES[usize::try_from(rng.below(22)).unwrap()].as_bytes().to_vec();
            let place = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
            bytes[place] = b"+-:_#$*%~0123\r\na"[usize::try_from(rng.below(16)).unwrap()];
            let Ok(Some(end)) = look(&bytes) else { continue };
            if redis::parse_redis_value(&bytes[..end]).is_ok() {
                read += 1;
                // It takes no fewer bytes than we do.
                assert!(redis::parse_redis_value(&bytes[..end - 1]).is_err(), "{bytes:?}");
            }
        }
        assert!(10_000 < read, "{read}");
    }
}
