//! Many short byte strings in one buffer: the arguments of a call without an allocation for each.

/// A list of byte strings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flat {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// What takes byte strings, one after another.
pub(crate) trait Sink {
    fn push(&mut self, bytes: &[u8]);

    /// Adds a number in decimal.
    fn number(&mut self, number: u64) {
        self.push(decimal(number, &mut itoa::Buffer::new()));
    }
}

impl Sink for Flat {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }
}

impl Flat {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }
}

/// A number in decimal.
pub(crate) fn decimal(number: u64, digits: &mut itoa::Buffer) -> &[u8] {
    digits.format(number).as_bytes()
}

#[cfg(test)]
mod tests {
    use super::{Flat, Sink as _, decimal};

    #[test]
    fn numbers_are_as_the_standard_writes_them() {
        let powers = (0..20).map(|power| 10_u64.pow(power));
        for number in powers.flat_map(|it| [it - 1, it, it + 1, it / 2 * 3]).chain([u64::MAX]) {
            assert_eq!(decimal(number, &mut itoa::Buffer::new()), number.to_string().as_bytes());
        }
    }

    #[test]
    fn what_goes_in_comes_out() {
        let mut flat = Flat::default();
        flat.push(b"one");
        flat.push(b"");
        for number in [0, 7, 10, 1_700_000_000_000_000, u64::MAX] {
            flat.number(number);
        }
        let texts: Vec<&[u8]> = flat.iter().collect();
        let expected: [&[u8]; 7] =
            [b"one", b"", b"0", b"7", b"10", b"1700000000000000", b"18446744073709551615"];
        assert_eq!(texts, expected);
    }
}
