//! A new key: 256 random bits of the system, behind a prefix that scanners for secrets can look
//! for.

use std::fs::File;
use std::io::{self, Read as _};

const PREFIX: &str = "tg_";
/// Letters that can be told apart, and need no care in a header or a shell.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// Of five bits each: 260 of them.
const LENGTH: usize = 52;

/// A key that nobody had before.
pub(super) fn key() -> io::Result<String> {
    let mut random = [0; LENGTH];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(spelled(&random))
}

/// Each byte is one letter: there are 32, so that all are as likely.
fn spelled(random: &[u8]) -> String {
    let letter = |byte: &u8| char::from(LETTERS[usize::from(byte % 32)]);
    PREFIX.chars().chain(random.iter().map(letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_long_and_no_two_are_alike() {
        let (one, other) = (key().unwrap(), key().unwrap());
        assert_ne!(one, other);
        for key in [one, other] {
            assert!(key.starts_with("tg_") && key.len() == 55, "{key}");
        }
    }

    #[test]
    fn every_letter_is_as_likely() {
        let all: Vec<u8> = (0..=255).collect();
        let text = spelled(&all);
        for letter in LETTERS {
            assert_eq!(text[PREFIX.len()..].matches(char::from(*letter)).count(), 8);
        }
    }
}
