//! What a store holds and has let go of, in numbers.
//!
//! Nothing is counted for a decision: what is held is looked up when somebody asks, and what goes
//! is counted where it goes.

/// What a [`MemoryStore`](super::MemoryStore) holds, and what it has let go of since it was made.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// States that are kept, one for each key under each rule.
    pub keys: usize,
    /// Groups of keys that owe something, because there was no room for each of them.
    pub groups: usize,
    /// Bytes that its tables have in use: slots as far as they were ever touched, locks, and logs
    /// with their events. What is only reserved is not counted, nor are rules.
    pub bytes: usize,
    /// Requests of keys that there was no room for at the cap: they were judged with the others of
    /// their group, or refused.
    pub crowded: u64,
    /// States that were forgotten because they could no longer be told from fresh ones.
    pub forgotten: u64,
}

impl MemoryStats {
    /// Both together.
    pub(super) fn and(self, other: MemoryStats) -> MemoryStats {
        MemoryStats {
            keys: self.keys + other.keys,
            groups: self.groups + other.groups,
            bytes: self.bytes + other.bytes,
            crowded: self.crowded + other.crowded,
            forgotten: self.forgotten + other.forgotten,
        }
    }
}
