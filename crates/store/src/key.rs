//! Keys: whom we count. Hashed once, from their parts, with a seed that nobody knows.
//!
//! A key is never kept, only its hash, under a seed drawn at random in every process. Among ten
//! million keys the chance that any two share a state is about one in 50,000, and nobody can aim at
//! it from outside.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::fast::{FoldHasher, RandomState};

/// Whom we count: the hash of a key's parts.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Key(u64);

/// Makes keys, all under one seed.
#[derive(Clone)]
pub struct Keys {
    seed: RandomState,
}

impl Key {
    /// The most bytes that the parts of a key may have together.
    pub const BYTES_MAX: usize = 4_096;

    pub(crate) const fn hash(self) -> u64 {
        self.0
    }
}

impl Keys {
    /// Keys under a seed of their own.
    pub fn new() -> Keys {
        Keys { seed: RandomState::default() }
    }

    /// The key of `parts`: a string, a number, or a tuple of anything that can be hashed.
    ///
    /// Parts are told apart by their kind and length, never by a separator, so that no two
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
        let mut hasher = PartsHasher { inner: self.seed.build_hasher(), bytes: 0 };
        parts.hash(&mut hasher);
        if Key::BYTES_MAX < hasher.bytes {
            return Err(KeyTooLong { bytes: hasher.bytes });
        }
        Ok(Key(hasher.inner.finish()))
    }
}

impl Default for Keys {
    fn default() -> Keys {
        Keys::new()
    }
}

impl fmt::Debug for Keys {
    /// Leaves the seed out: whoever knows it can aim at collisions.
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
/// Texts need no such mark: the standard library ends each with a byte of its own, which arrives
/// here as a number, and writes the length of everything else that is variable before it.
struct PartsHasher {
    inner: FoldHasher<'static>,
    bytes: usize,
}

macro_rules! numbers {
    ($($method:ident: $number:ty),+) => {$(
        #[inline]
        fn $method(&mut self, number: $number) {
            self.bytes += size_of::<$number>();
            // A width of 1 to 16 fits above the 64 bits of any but the widest number.
            self.inner.write_u128((size_of::<$number>() as u128) << 64 | u128::from(number));
        }
    )+};
}

impl Hasher for PartsHasher {
    fn finish(&self) -> u64 {
        self.inner.finish()
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len());
        self.inner.write(bytes);
    }

    numbers!(write_u8: u8, write_u16: u16, write_u32: u32, write_u64: u64);

    #[inline]
    fn write_u128(&mut self, number: u128) {
        self.bytes += size_of::<u128>();
        self.inner.write_u8(16);
        self.inner.write_u128(number);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}
