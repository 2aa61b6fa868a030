//! What a file keeps of a key: its SHA-256.
//!
//! Keys are random, so that nobody finds one by trying: a slow hash would only cost those who have
//! a key, once for each of their requests.

use std::fmt;

use ring::digest;

/// The SHA-256 of an API key.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KeyHash([u8; BYTES]);

const BYTES: usize = 32;
/// Enough digits to tell the keys of a file apart, and to be typed.
const ID_DIGITS: usize = 12;

impl KeyHash {
    /// The hash of a key.
    pub fn of(key: &[u8]) -> KeyHash {
        let mut hash = [0; BYTES];
        hash.copy_from_slice(digest::digest(&digest::SHA256, key).as_ref());
        KeyHash(hash)
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<KeyHash> {
        let digits: Vec<char> = text.chars().collect();
        let mut hash = [0; BYTES];
        if digits.len() != 2 * BYTES {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            let (high, low) = (pair[0].to_digit(16)?, pair[1].to_digit(16)?);
            *byte = u8::try_from(high << 4 | low).ok()?;
        }
        Some(KeyHash(hash))
    }

    /// The first digits, by which people name a key.
    pub fn id(&self) -> String {
        let mut digits = self.to_string();
        digits.truncate(ID_DIGITS);
        digits
    }
}

/// In 64 hexadecimal digits.
impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_that_of_other_programs() {
        let hash = KeyHash::of(b"abc");
        let digits = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_string(), digits);
        assert_eq!(hash.id(), "ba7816bf8f01");
        assert_eq!(KeyHash::from_hex(digits), Some(hash));
        assert_eq!(KeyHash::from_hex(&digits.to_uppercase()), Some(hash));
        for wrong in ["", &digits[1..], &format!("{digits}0"), &digits.replace('b', "g")] {
            assert_eq!(KeyHash::from_hex(wrong), None, "{wrong}");
        }
    }
}
