//! Pseudo-random numbers for tests: a failure is reproduced by its seed.

/// A generator (xorshift) that starts from a seed.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn of(seed: u64) -> Chance {
        let mixed = (seed ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        Chance((mixed ^ (mixed >> 32)) | 1)
    }

    /// A number below `n`; zero if there is none.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D).checked_rem(n).unwrap_or(0)
    }

    /// One of `items`.
    pub(crate) fn pick<'i, T>(&mut self, items: &'i [T]) -> &'i T {
        let at = usize::try_from(self.below(items.len() as u64)).unwrap();
        &items[at]
    }
}
