//! Why a command was not carried out, in Redis' words where it has some.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The line of an error reply; its first word is its kind.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Refused(pub(super) Cow<'static, str>);

/// Bytes of a client's own words that a message repeats.
const ECHO_BYTES_MAX: usize = 128;

impl Refused {
    pub(super) fn new(message: impl Into<Cow<'static, str>>) -> Refused {
        Refused(message.into())
    }

    pub(super) fn arity(name: &str) -> Refused {
        Refused::new(format!("ERR wrong number of arguments for '{name}' command"))
    }

    pub(super) fn unknown(arguments: &[&[u8]]) -> Refused {
        let (name, rest) = arguments.split_first().map_or((&b""[..], &[][..]), |it| (*it.0, it.1));
        let mut begin = String::new();
        for argument in rest {
            if ECHO_BYTES_MAX <= begin.len() {
                break;
            }
            let _ = write!(begin, "'{}' ", shown(argument));
        }
        let name = shown(name);
        Refused::new(format!("ERR unknown command '{name}', with args beginning with: {begin}"))
    }

    pub(super) fn subcommand(command: &str, name: &[u8]) -> Refused {
        Refused::new(format!("ERR unknown subcommand '{}'. Try {command} HELP.", shown(name)))
    }

    /// A value that is not what it should be.
    pub(super) fn value(name: &str, wanted: &str, got: &[u8]) -> Refused {
        Refused::new(format!("ERR {name} must be {wanted}: `{}`", shown(got)))
    }
}

/// A client's own words, fit to stand in a line.
pub(super) fn shown(bytes: &[u8]) -> String {
    let short = &bytes[..bytes.len().min(ECHO_BYTES_MAX)];
    match str::from_utf8(short) {
        Ok(text) if !text.contains(char::is_control) => text.to_owned(),
        _ => short.escape_ascii().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_commands_are_told_as_redis_tells_them() {
        let refused = Refused::unknown(&[b"get", b"a", b"b\r\nc"]);
        let expected = "ERR unknown command 'get', with args beginning with: 'a' 'b\\r\\nc' ";
        assert_eq!(refused.0, expected);
    }

    #[test]
    fn long_words_are_cut() {
        assert_eq!(shown(&b"a".repeat(1_000)).len(), ECHO_BYTES_MAX);
        let many = vec![&b"argument"[..]; 500];
        assert!(Refused::unknown(&many).0.len() < 300);
    }
}
