//! The W3C's `traceparent`: which trace a request is a part of, and whether that is sampled.
//!
//! What is not exactly in that form is taken for nothing said.

/// What a caller says of its span.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Parent {
    pub(super) trace: [u8; 16],
    pub(super) span: [u8; 8],
    pub(super) is_sampled: bool,
}

/// Bytes of `00-<trace>-<span>-<flags>`. Versions to come may add to it.
const LEN: usize = 55;

impl Parent {
    /// Whether it is worth reading. The cheapest look there is: most are not.
    #[inline]
    pub(super) fn may_be_sampled(text: &[u8]) -> bool {
        text.get(LEN - 1).and_then(|digit| value(*digit)).is_some_and(|digit| digit & 1 == 1)
    }

    /// Reads it.
    pub(super) fn read(text: &[u8]) -> Option<Parent> {
        let (own, more) = text.split_at_checked(LEN)?;
        let dashes = [2, 35, 52].into_iter().all(|at| own[at] == b'-');
        let [version] = bytes(&own[..2])?;
        let trace = bytes(&own[3..35])?;
        let span = bytes(&own[36..52])?;
        let [flags] = bytes(&own[53..])?;
        let fits = match version {
            0 => more.is_empty(),
            0xff => false,
            _ => more.first().is_none_or(|byte| *byte == b'-'),
        };
        let is_named = trace != [0; 16] && span != [0; 8];
        (dashes && fits && is_named).then_some(Parent { trace, span, is_sampled: flags & 1 == 1 })
    }
}

/// Bytes from digits.
fn bytes<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    (digits.len() == 2 * N).then_some(bytes)
}

/// A digit's value. Capital letters are none, by the W3C.
const fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0102030405060708090a0b0c0d0e0f10-a1a2a3a4a5a6a7a8-01";

    fn read(text: &str) -> Option<Parent> {
        Parent::read(text.as_bytes())
    }

    #[test]
    fn a_parent_is_read() {
        let parent = read(GOOD).unwrap();
        assert_eq!(parent.trace, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        assert_eq!(parent.span, [0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8]);
        assert!(parent.is_sampled);
    }

    #[test]
    fn only_the_last_bit_of_the_flags_means_sampled() {
        for (flags, is_sampled) in [("00", false), ("01", true), ("02", false), ("ff", true)] {
            let text = format!("{}{flags}", &GOOD[..53]);
            assert_eq!(read(&text).map(|it| it.is_sampled), Some(is_sampled), "{flags}");
            assert_eq!(Parent::may_be_sampled(text.as_bytes()), is_sampled, "{flags}");
        }
    }

    #[test]
    fn versions_to_come_may_add_to_it() {
        let later = GOOD.replacen("00", "01", 1);
        assert!(read(&later).is_some());
        assert!(read(&format!("{later}-more")).is_some());
        assert!(read(&format!("{later}more")).is_none());
        assert!(read(&format!("{GOOD}-more")).is_none(), "this version ends here");
        assert!(read(&GOOD.replacen("00", "ff", 1)).is_none(), "there is no such version");
    }

    #[test]
    fn what_is_malformed_is_nothing() {
        let upper = GOOD.to_ascii_uppercase();
        let no_trace = GOOD.replace("0102030405060708090a0b0c0d0e0f10", &"0".repeat(32));
        let no_span = GOOD.replace("a1a2a3a4a5a6a7a8", &"0".repeat(16));
        for wrong in ["", "00", &GOOD[1..], &GOOD[..54], &upper, &no_trace, &no_span] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        for at in 0..GOOD.len() {
            let mut broken = GOOD.as_bytes().to_vec();
            broken[at] = b'x';
            assert_eq!(Parent::read(&broken), None, "an x at {at}");
        }
    }
}
