//! What every subject is asked about: sixteen bytes, or the number that is in them.
//!
//! It wraps a `String`, not a `Box<str>`, because governor wants a reference to the very type
//! that it stores.

use std::fmt::Write;

/// A key such as `client-000000042`, and its number.
#[derive(Debug, Clone)]
pub(crate) struct Key(pub(crate) String, pub(crate) u64);

impl Key {
    pub(crate) fn numbered(number: u64) -> Self {
        let mut key = Self(String::with_capacity(LENGTH), number);
        key.renumber(number);
        key
    }

    /// Makes this the key of that number, in place, so that a loop over ten million keys
    /// keeps none of them.
    pub(crate) fn renumber(&mut self, number: u64) {
        self.1 = number;
        self.0.clear();
        write!(self.0, "client-{number:09}").expect("a String takes all that is written to it");
    }
}

const LENGTH: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_sixteen_bytes_and_is_renumbered_in_place() {
        let mut key = Key::numbered(42);
        assert_eq!((&*key.0, key.1), ("client-000000042", 42));
        assert_eq!(key.0.len(), LENGTH);
        key.renumber(999_999_999);
        assert_eq!(key.0, "client-999999999");
    }
}
