//! Keys: they identify who is counted. Hashed once, from their parts, with a seed that nobody
//! knows.
//!
//! A key is never kept, only its hash, under a seed drawn at random in every process. Among ten
//! million keys the chance that any two share a state is about one in 50,000, and who does not know
//! the seed cannot choose which.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;

/// Identifies who is counted: the hash of a key's parts.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Key(u64);

/// Makes keys, all under one seed.
#[derive(Clone)]
pub struct Keys {
    seed: Seed,
    /// What the seed's second half spreads to.
    shared: SharedSeed,
    /// Which bits of a hash are used: all, unless states were restored that are known by fewer.
    mask: u64,
}

/// The seed of keys. Who knows it can aim at collisions.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) struct Seed(pub(crate) [u64; 2]);

impl Key {
    /// The most bytes that the parts of a key may have together.
    pub const BYTES_MAX: usize = 4_096;

    pub(crate) const fn hash(self) -> u64 {
        self.0
    }

    /// The key that has this hash.
    pub(crate) const fn of_hash(hash: u64) -> Key {
        Key(hash)
    }
}

impl Keys {
    /// Keys under a seed of their own.
    pub fn new() -> Keys {
        // The system's chance: foldhash's own would do, but cannot be written down.
        let chance = RandomState::new();
        Keys::seeded(Seed([chance.hash_one(0_u8), chance.hash_one(1_u8)]), u64::BITS)
    }

    /// Keys under a known seed, of which the first `bits` bits count.
    pub(crate) fn seeded(seed: Seed, bits: u32) -> Keys {
        let mask = u64::MAX.checked_shl(u64::BITS.saturating_sub(bits)).unwrap_or(0);
        Keys { seed, shared: SharedSeed::from_u64(seed.0[1]), mask }
    }

    /// The seed.
    pub(crate) fn seed(&self) -> Seed {
        self.seed
    }

    /// How many bits of a hash count.
    pub(crate) fn bits(&self) -> u32 {
        self.mask.count_ones()
    }

    /// What a key of every kind of part hashes to: another way of hashing shows in it.
    pub(crate) fn sample(&self) -> u64 {
        let parts = ("tidegate", 0x0102_0304_0506_0708_u64, &[9_u32, 10][..], 11_u8, 12_u128);
        self.key(parts).map_or(0, Key::hash)
    }

    /// The key of `parts`: a string, a number, or a tuple of anything that can be hashed.
    ///
    /// Parts are distinguished by their kind and length, never by a separator, so that no two
    /// different keys of a rule are the same by accident.
    ///
    /// ```
    /// let keys = tidegate_store::Keys::new();
    /// assert_ne!(keys.key(("ab", "c"))?, keys.key(("a", "bc"))?);
    /// assert_ne!(keys.key((1_u32, 2_u32))?, keys.key(0x2_0000_0001_u64)?);
    /// # Ok::<(), tidegate_store::KeyTooLong>(())
    /// ```
    #[inline]
    pub fn key(&self, parts: impl Hash) -> Result<Key, KeyTooLong> {
        let inner = FoldHasher::with_seed(self.seed.0[0], &self.shared);
        let mut hasher = PartsHasher { inner, bytes: 0, after_bytes: false };
        parts.hash(&mut hasher);
        KeyTooLong::check(hasher.bytes)?;
        Ok(Key(hasher.inner.finish() & self.mask))
    }
}

impl Default for Keys {
    fn default() -> Keys {
        Keys::new()
    }
}

impl fmt::Debug for Keys {
    /// Leaves the seed out: anybody who knows it can aim at collisions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:016x})", self.0)
    }
}

/// A key of more than [`Key::BYTES_MAX`] bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeyTooLong {
    bytes: usize,
}

impl KeyTooLong {
    /// Refuses a key of more than [`Key::BYTES_MAX`] bytes.
    #[inline]
    pub const fn check(bytes: usize) -> Result<(), KeyTooLong> {
        if Key::BYTES_MAX < bytes { Err(KeyTooLong { bytes }) } else { Ok(()) }
    }
}

impl fmt::Display for KeyTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the key has {} bytes: at most {} are accepted; hash it, or key by something shorter",
            self.bytes,
            Key::BYTES_MAX
        )
    }
}

impl std::error::Error for KeyTooLong {}

/// Writes the width of every number beside it, so that parts of different kinds never run together.
///
/// Bytes need no mark: each run of them is mixed in by itself, with its length. The byte that the
/// standard library puts after every text is therefore left out, which saves a step for each.
struct PartsHasher<'k> {
    inner: FoldHasher<'k>,
    bytes: usize,
    after_bytes: bool,
}

impl PartsHasher<'_> {
    #[inline]
    fn number(&mut self, number: u64, width: usize) {
        self.bytes += width;
        self.after_bytes = false;
        self.inner.write_u128((width as u128) << 64 | u128::from(number));
    }
}

impl Hasher for PartsHasher<'_> {
    fn finish(&self) -> u64 {
        self.inner.finish()
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len());
        self.after_bytes = true;
        self.inner.write(bytes);
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        const END_OF_TEXT: u8 = 0xFF;
        if self.after_bytes && number == END_OF_TEXT {
            self.after_bytes = false;
        } else {
            self.number(number.into(), 1);
        }
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.number(number.into(), 2);
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.number(number.into(), 4);
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.number(number, 8);
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a double word")]
    fn write_u128(&mut self, number: u128) {
        self.number((number >> 64) as u64, 16);
        self.number(number as u64, 16);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.number(number as u64, 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neighboring numbers and texts must spread over shards whatever the seed: the first bits of
    /// a hash choose the shard, and a hash that is only fast leaves them alike under some seeds.
    #[test]
    fn neighbors_spread_over_the_first_bits_under_every_seed() {
        for _ in 0..3_000 {
            let keys = Keys::new();
            let numbers = (0..64_u32).map(|id| keys.key(id));
            let texts = (0..64).map(|id| keys.key(("client", format!("{id:02}"))));
            for hashes in [numbers.collect::<Vec<_>>(), texts.collect()] {
                let upper = hashes.iter().flatten().filter(|key| key.0 >> 63 == 1).count();
                assert!((8..=56).contains(&upper), "{upper} of 64 in one half");
            }
        }
    }
}
