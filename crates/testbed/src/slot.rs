//! Hash slots: which part of a cluster a key belongs to.

/// How many slots a cluster has.
pub const SLOTS: u16 = 16_384;

/// The slot of a key: by its first non-empty `{tag}` if it has one, by all of it otherwise.
///
/// ```
/// assert_eq!(tidegate_testbed::slot_of(b"foo"), 12_182);
/// assert_eq!(tidegate_testbed::slot_of(b"a{foo}b"), 12_182);
/// ```
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(tag_of(key).unwrap_or(key)) % SLOTS
}

/// A short key that belongs to `slot`.
///
/// # Panics
///
/// If there is no such slot.
pub fn key_in(slot: u16) -> String {
    assert!(slot < SLOTS, "there is no slot {slot}");
    let mut keys = (0_u32..).map(|number| format!("k{number}"));
    keys.find(|key| slot_of(key.as_bytes()) == slot).unwrap_or_default()
}

fn tag_of(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|&byte| byte == b'{')?;
    let rest = &key[open + 1..];
    let close = rest.iter().position(|&byte| byte == b'}')?;
    (0 < close).then(|| &rest[..close])
}

/// CRC-16/XMODEM, a bit at a time: nobody waits for it here.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        let mixed = crc ^ (u16::from(byte) << 8);
        (0..8).fold(mixed, |crc, _| (crc << 1) ^ if crc >> 15 == 1 { 0x1021 } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_vector_holds() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"123456789"), 0x31C3 % SLOTS);
    }

    #[test]
    fn only_the_first_tag_that_is_not_empty_counts() {
        for (key, same) in [
            ("{user}.a", "user"),
            ("x{user}{other}", "user"),
            ("{a{b}c}", "a{b"),
            ("{open", "{open"),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot_of(same.as_bytes()), "{key}");
        }
        assert_eq!(slot_of(b"a{}{b}"), crc16(b"a{}{b}") % SLOTS);
        assert_eq!(slot_of(b""), 0);
    }

    #[test]
    fn every_slot_has_a_key() {
        for slot in [0, 1, 8_191, SLOTS - 1] {
            assert_eq!(slot_of(key_in(slot).as_bytes()), slot);
        }
    }
}
