//! Numbers as bytes, the lowest first; and back, without trusting a length.

use tidegate_core::Tick;

/// What is left to be read of a block. Nothing is ever read beyond its end.
#[derive(Clone, Debug)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A tick; none where the number is beyond the last one.
    pub(super) fn tick(&mut self) -> Option<Tick> {
        let micros = self.u64()?;
        (micros <= Tick::MAX.get()).then(|| Tick::from_micros(micros))
    }

    /// A text with its length before it.
    pub(super) fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.u32()?).ok()?;
        std::str::from_utf8(self.take(length)?).ok()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes a text with its length before it. A longer one than 32 bits can say is cut.
pub(super) fn put_text(text: &str, into: &mut Vec<u8>) {
    let length = u32::try_from(text.len()).unwrap_or(0);
    into.extend(length.to_le_bytes());
    into.extend(text.bytes().take(length as usize));
}
