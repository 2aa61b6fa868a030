//! A secret of the operator's, by which those who are counted are named where states are kept.
//!
//! A plain hash hides an API key of many random bytes, and nothing else: addresses, names and
//! numbers of users are so few that a reader of the hashes tries them all. With a secret, only
//! somebody who has the secret can do that.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use ring::{digest, hmac};

/// A secret by which keys are hashed where they are kept: in Redis, and in snapshots.
#[derive(Clone)]
pub struct KeySecret(hmac::Key);

impl KeySecret {
    /// The fewest bytes that nobody tries out.
    pub const BYTES_MIN: usize = 32;

    /// The most bytes; more add nothing.
    pub const BYTES_MAX: usize = 4_096;

    /// A secret of these bytes; line breaks and spaces at its end are none of it.
    pub fn new(bytes: &[u8]) -> io::Result<KeySecret> {
        let bytes = bytes.trim_ascii_end();
        if !(KeySecret::BYTES_MIN..=KeySecret::BYTES_MAX).contains(&bytes.len()) {
            let message = format!(
                "a secret for keys has {} to {} bytes, not {}: make one with `openssl rand -base64 \
                 32`",
                KeySecret::BYTES_MIN,
                KeySecret::BYTES_MAX,
                bytes.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(KeySecret(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// The secret in a file.
    pub fn from_file(path: impl AsRef<Path>) -> io::Result<KeySecret> {
        let path = path.as_ref();
        let told = |error: io::Error| {
            io::Error::new(error.kind(), format!("the secret `{}`: {error}", path.display()))
        };
        let mut bytes = Vec::new();
        let most = KeySecret::BYTES_MAX as u64 + 16;
        File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes)).map_err(told)?;
        KeySecret::new(&bytes).map_err(told)
    }

    /// The name of a value of this kind, as hexadecimal digits: those of 128 bits.
    pub(crate) fn name_of(&self, kind: &str, value: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        // The length keeps a kind and a value apart.
        context.update(&(kind.len() as u64).to_be_bytes());
        context.update(kind.as_bytes());
        context.update(value);
        hex(&context.sign().as_ref()[..16])
    }
}

/// The name of a limit as it stands in a snapshot. What comes after the rule may be the key that
/// an override is for: then it is hashed, by the secret if there is one.
pub(crate) fn hidden(name: &str, secret: Option<&KeySecret>) -> String {
    match name.split_once('/') {
        // A plain limit begins with the mark: its name is no key.
        Some((rule, id)) if !rule.is_empty() && !is_hidden(id) => {
            let id = match secret {
                Some(KeySecret(key)) => hex(hmac::sign(key, name.as_bytes()).as_ref()),
                None => hex(digest::digest(&digest::SHA256, name.as_bytes()).as_ref()),
            };
            format!("{rule}/{HIDDEN}{id}")
        }
        _ => name.to_owned(),
    }
}

/// What a hashed id begins with.
const HIDDEN: char = '~';

fn is_hidden(id: &str) -> bool {
    let digits = id.strip_prefix(HIDDEN);
    digits.is_some_and(|it| it.len() == 64 && it.bytes().all(|it| it.is_ascii_hexdigit()))
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble & 15), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

impl fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(byte: u8) -> KeySecret {
        KeySecret::new(&[byte; 32]).unwrap()
    }

    #[test]
    fn a_secret_is_long_enough_and_no_book() {
        assert!(KeySecret::new(&[b'a'; 31]).is_err());
        assert!(KeySecret::new(format!("{}\n \n", "a".repeat(31)).as_bytes()).is_err());
        assert!(KeySecret::new(&[b'a'; 4_097]).is_err());
        assert!(!format!("{:?}", secret(b'a')).contains('a'), "it is not shown");
    }

    #[test]
    fn a_hidden_name_says_the_rule_and_no_key() {
        let (one, other) = (secret(b'a'), secret(b'b'));
        let of = |secret| hidden("per-client#peak/acme-key", secret);
        let all = [of(None), of(Some(&one)), of(Some(&other))];
        for name in &all {
            assert!(name.starts_with("per-client#peak/~") && !name.contains("acme"), "{name}");
            assert_eq!(&hidden(name, Some(&one)), name, "once");
        }
        assert!(all[0] != all[1] && all[1] != all[2]);
        for clear in ["per-client", "per-client#peak", "/plain/a/b", "r=usual#"] {
            assert_eq!(hidden(clear, Some(&one)), clear);
        }
        assert_ne!(hidden("a/k", None)[3..], hidden("b/k", None)[3..], "rules are not linked");
    }
}
