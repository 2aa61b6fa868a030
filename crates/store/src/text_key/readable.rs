//! A text as it stands in a name. In place: a key allocates nothing.

use std::fmt;
use std::hash::{Hash, Hasher};

/// Texts longer than this are named by their hash.
const READABLE_MAX: usize = 48;

/// A short text of plain characters.
#[derive(Clone, Copy)]
pub(super) struct Readable {
    bytes: [u8; READABLE_MAX],
    length: usize,
}

impl Readable {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Adds to the text; says whether there is room for it.
    #[inline]
    pub(super) fn push(&mut self, more: &[u8]) -> bool {
        let end = self.length + more.len();
        let Some(room) = self.bytes.get_mut(self.length..end) else { return false };
        // They are few: a call to copy them would take longer.
        for (room, byte) in room.iter_mut().zip(more) {
            *room = *byte;
        }
        self.length = end;
        true
    }
}

impl Default for Readable {
    fn default() -> Readable {
        Readable { bytes: [0; READABLE_MAX], length: 0 }
    }
}

impl PartialEq for Readable {
    fn eq(&self, other: &Readable) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Readable {}

impl Hash for Readable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

impl fmt::Debug for Readable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(self.bytes()), f)
    }
}
