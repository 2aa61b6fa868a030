//! A request with a gap for the client's number.

/// Bytes that differ only by seven digits.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    bytes: Vec<u8>,
    digits_at: usize,
}

impl Pattern {
    /// Of bytes that hold [`GAP`] once.
    pub(super) fn new(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let digits_at = bytes.windows(GAP.len()).position(|part| part == GAP.as_bytes());
        Self { digits_at: digits_at.expect("the pattern is ours and has a gap"), bytes }
    }

    #[inline]
    pub(super) fn write(&self, client: u32, out: &mut Vec<u8>) {
        let start = out.len() + self.digits_at;
        out.extend_from_slice(&self.bytes);
        let mut rest = client;
        for digit in out[start..start + GAP.len()].iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).expect("below ten");
            rest /= 10;
        }
    }
}

/// Stands where the digits go.
pub(crate) const GAP: &str = "#######";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_fills_the_gap() {
        let mut out = b"before ".to_vec();
        Pattern::new("key-####### x").write(1_234, &mut out);
        assert_eq!(out, b"before key-0001234 x");
    }
}
