//! A number for a key that is the same on every node and after every restart.
//!
//! It decides who is among the first tenth that a rule is enforced for, so it must never change. It
//! protects nothing: a client that knows it can only find out in which tenth somebody is.

use crate::facts::{Part, Value};

/// The place of a key under a rule, from 0 to 9,999.
pub(crate) fn place(rule: &str, parts: &[Part<'_>]) -> u16 {
    let mut hash = add(START, rule.as_bytes());
    for part in parts {
        hash = match &part.value {
            Value::Address(group) => add(hash, group.to_string().as_bytes()),
            Value::Bytes(bytes) => add(hash, bytes),
            Value::Missing => add(hash, &[]),
        };
    }
    // FNV leaves the upper bits of short texts alike; two rounds of mixing spread them.
    for _ in 0..2 {
        hash = (hash ^ (hash >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    }
    u16::try_from((hash >> 16) % 10_000).unwrap_or_default()
}

const START: u64 = 0xCBF2_9CE4_8422_2325;

/// FNV-1a, with the length first so that parts do not run together.
fn add(hash: u64, bytes: &[u8]) -> u64 {
    let length = (bytes.len() as u64).to_le_bytes();
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    bytes.iter().fold(length.iter().fold(hash, step), step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::Attribute;

    fn place_of(rule: &str, value: &str) -> u16 {
        let part = Part { source: &Attribute::Path, value: Value::Bytes(value.as_bytes().into()) };
        place(rule, &[part])
    }

    /// Written down once: a change would move everybody to another tenth.
    #[test]
    fn places_never_change() {
        let places = ["ada", "bob", ""].map(|value| place_of("per-client", value));
        assert_eq!(places, PLACES);
    }

    #[test]
    fn a_tenth_is_a_tenth() {
        let keys = (0..20_000).map(|id| place_of("per-client", &format!("client-{id}")));
        let tenth = keys.filter(|place| *place < 1_000).count();
        assert!((1_850..=2_150).contains(&tenth), "{tenth} of 20,000");
    }

    #[test]
    fn rules_choose_apart() {
        let both = (0..20_000).filter(|id| {
            let key = format!("client-{id}");
            place_of("a", &key) < 1_000 && place_of("b", &key) < 1_000
        });
        let both = both.count();
        assert!((120..=290).contains(&both), "{both} of 20,000, where a hundredth was expected");
    }

    const PLACES: [u16; 3] = [3_276, 925, 9_099];
}
