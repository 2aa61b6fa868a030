//! Commands as a person types them: words on a line.

use smallvec::SmallVec;

use super::frame::{Arguments, Misframed};
use crate::limits::RESP_ARGUMENTS_MAX;

/// Whether a line may start with it. Whatever else does is another protocol: TLS, say.
pub(super) const fn may_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || is_space(byte) || is_quote(byte)
}

/// The words of a line, without the quotes around them.
pub(super) fn words(line: &[u8]) -> Result<Arguments<'_>, Misframed> {
    let mut words: Arguments<'_> = SmallVec::new();
    let mut rest = line.trim_ascii_start();
    while let Some(first) = rest.first() {
        if words.len() == RESP_ARGUMENTS_MAX {
            return Err(Misframed::Arguments);
        }
        let (word, after) = if is_quote(*first) { quoted(rest)? } else { plain(rest)? };
        words.push(word);
        rest = after.trim_ascii_start();
    }
    match words.first() {
        // What a page in a browser can be made to send here.
        Some(first) if [&b"post"[..], b"host:"].iter().any(|it| first.eq_ignore_ascii_case(it)) => {
            Err(Misframed::CrossProtocol)
        }
        _ => Ok(words),
    }
}

fn plain(rest: &[u8]) -> Result<(&[u8], &[u8]), Misframed> {
    let end = rest.iter().position(|byte| is_space(*byte)).unwrap_or(rest.len());
    let (word, after) = rest.split_at(end);
    if word.iter().any(|byte| is_quote(*byte)) { Err(Misframed::Quotes) } else { Ok((word, after)) }
}

fn quoted(rest: &[u8]) -> Result<(&[u8], &[u8]), Misframed> {
    let (quote, rest) = (rest[0], &rest[1..]);
    let end = rest.iter().position(|byte| *byte == quote || *byte == b'\\');
    let end = end.ok_or(Misframed::Quotes)?;
    let (word, after) = (&rest[..end], &rest[end + 1..]);
    match after.first() {
        _ if rest[end] == b'\\' => Err(Misframed::Escape),
        Some(next) if !is_space(*next) => Err(Misframed::Quotes),
        _ => Ok((word, after)),
    }
}

const fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'')
}

const fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Result<&[&str], Misframed>) {
        let expected =
            expected.map(|words| words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        assert_eq!(words(line.as_bytes()).map(SmallVec::into_vec), expected, "{line}");
    }

    #[test]
    fn words_are_parted_by_space() {
        check("PING", Ok(&["PING"]));
        check("  echo \t hello ", Ok(&["echo", "hello"]));
        check("", Ok(&[]));
        check(" \t", Ok(&[]));
    }

    #[test]
    fn quotes_hold_a_word_together() {
        check("echo 'a b' \"c'd\" ''", Ok(&["echo", "a b", "c'd", ""]));
        for wrong in ["echo 'a", "echo \"a' b", "echo 'a'b", "echo a'b'", "'"] {
            check(wrong, Err(Misframed::Quotes));
        }
        check("echo \"a\\x00\"", Err(Misframed::Escape));
    }

    #[test]
    fn http_is_not_for_us() {
        check("POST / HTTP/1.1", Err(Misframed::CrossProtocol));
        check("Host: localhost:6380", Err(Misframed::CrossProtocol));
        check("host:port", Ok(&["host:port"]));
    }
}
