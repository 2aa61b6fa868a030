//! A tiny deterministic generator: a failure is reproduced by the seed that it names.

use tidegate_core::{Quota, Span};

/// Pseudo-random numbers from a seed (xorshift, after a scrambling of the seed).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of `seed`. Neighboring seeds are unrelated.
    pub fn new(seed: u64) -> Rng {
        let mixed = (seed ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        Rng((mixed ^ (mixed >> 32)) | 1)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `n`; zero if there is none.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next_u64().checked_rem(n).unwrap_or(0)
    }

    /// A number of at most `bits` bits; small numbers as often as large ones.
    pub fn of_bits(&mut self, bits: u32) -> u64 {
        let bits = 1 + self.below(u64::from(bits.min(63)));
        self.below(1 << bits)
    }

    /// A number below `n`, as 32 bits.
    pub fn below_u32(&mut self, n: u32) -> u32 {
        u32::try_from(self.below(n.into())).unwrap_or(0)
    }

    /// Whether one of `n` equal chances came up.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A quota small enough that its edges are met often, with a burst of its own.
    pub fn small_quota(&mut self) -> Quota {
        let per = match self.below(4) {
            0 => 1 + self.below(60),
            1 => 1 + self.below(5_000),
            2 => 1_000_000,
            _ => 60_000_000,
        };
        Quota::new(1 + self.below_u32(40), Span::from_micros(per)).burst(1 + self.below_u32(40))
    }

    /// Any quota of the range that every store accepts, with a burst of its own.
    pub fn any_quota(&mut self) -> Quota {
        let cells = 1 + self.of_bits(32).min(u64::from(u32::MAX) - 1);
        let burst = 1 + self.of_bits(32).min(u64::from(u32::MAX) - 1);
        let per = 1 + self.of_bits(45).min(Quota::PER_MAX.get() - 1);
        let (cells, burst) = (u32::try_from(cells), u32::try_from(burst));
        let (cells, burst) = (cells.unwrap_or(u32::MAX), burst.unwrap_or(u32::MAX));
        Quota::new(cells, Span::from_micros(per)).burst(burst)
    }
}
