//! Amounts of grains in one word or in two.
//!
//! Nearly every quota fits a word, and a word is several times faster; the widest need two. The
//! arithmetic of the line is written once over both.

use core::ops::{Add, Sub};

/// An unsigned number of grains.
pub(super) trait Amount: Copy + Ord + Add<Output = Self> + Sub<Output = Self> {
    const ZERO: Self;

    /// `a × b`, which the caller knows to fit.
    fn product(a: u64, b: u64) -> Self;

    /// What is left of it, or nothing.
    fn less(self, other: Self) -> Self;

    /// `⌊self / by⌋`, or the largest word.
    fn over(self, by: u64) -> u64;

    /// `⌈self / by⌉`, or the largest word: past 2^64 ticks nobody is waiting any more.
    fn over_ceil(self, by: u64) -> u64;
}

impl Amount for u64 {
    const ZERO: u64 = 0;

    #[inline]
    fn product(a: u64, b: u64) -> u64 {
        a * b
    }

    #[inline]
    fn less(self, other: u64) -> u64 {
        self.saturating_sub(other)
    }

    #[inline]
    fn over(self, by: u64) -> u64 {
        // A branch that is always or never taken is cheaper than a division.
        if by == 1 { self } else { self / by }
    }

    #[inline]
    fn over_ceil(self, by: u64) -> u64 {
        if by == 1 { self } else { self.div_ceil(by) }
    }
}

impl Amount for u128 {
    const ZERO: u128 = 0;

    fn product(a: u64, b: u64) -> u128 {
        u128::from(a) * u128::from(b)
    }

    fn less(self, other: u128) -> u128 {
        self.saturating_sub(other)
    }

    fn over(self, by: u64) -> u64 {
        u64::try_from(self / u128::from(by)).unwrap_or(u64::MAX)
    }

    fn over_ceil(self, by: u64) -> u64 {
        u64::try_from(self.div_ceil(by.into())).unwrap_or(u64::MAX)
    }
}
