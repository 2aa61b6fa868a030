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
    fn over(self, by: Divisor) -> u64;

    /// `⌈self / by⌉`, or the largest word: past 2^64 ticks nobody is waiting any more.
    fn over_ceil(self, by: Divisor) -> u64;
}

/// A number to divide by, and its inverse: two multiplications are faster than one division.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Divisor {
    by: u64,
    /// `⌊2^64 / by⌋`; not used for 1, whose inverse does not fit.
    inverse: u64,
}

impl Divisor {
    /// To divide by `by`, which is not zero.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "fits for all but 1, which does not use it"
    )]
    pub(crate) const fn new(by: u64) -> Divisor {
        Divisor { by, inverse: ((1_u128 << 64) / by as u128) as u64 }
    }

    /// `amount` divided, and what is left over.
    #[inline]
    fn split(self, amount: u64) -> (u64, u64) {
        if self.by == 1 {
            return (amount, 0);
        }
        // amount / by is at most 1 more than amount × inverse / 2^64, since the inverse is less
        // than 1 too small and amount is less than 2^64. So nothing here can wrap, and saying so
        // leaves no panic: a caller that does not read the quotient does not pay for it.
        let guess = u64::try_from((u128::from(amount) * u128::from(self.inverse)) >> 64);
        let guess = guess.unwrap_or(u64::MAX);
        let left = amount.wrapping_sub(guess.wrapping_mul(self.by));
        if left < self.by {
            (guess, left)
        } else {
            (guess.wrapping_add(1), left.wrapping_sub(self.by))
        }
    }
}

impl Amount for u64 {
    const ZERO: u64 = 0;

    #[inline]
    fn product(a: u64, b: u64) -> u64 {
        // Checked where the bucket was made: only one whose largest products fit is narrow.
        debug_assert!(a.checked_mul(b).is_some(), "{a} × {b} is not narrow");
        a.wrapping_mul(b)
    }

    #[inline]
    fn less(self, other: u64) -> u64 {
        self.saturating_sub(other)
    }

    #[inline]
    fn over(self, by: Divisor) -> u64 {
        by.split(self).0
    }

    #[inline]
    fn over_ceil(self, by: Divisor) -> u64 {
        let (whole, left) = by.split(self);
        // A quotient by 1 has nothing left over, and any other is far from the largest word.
        whole.wrapping_add(u64::from(0 < left))
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

    fn over(self, by: Divisor) -> u64 {
        u64::try_from(self / u128::from(by.by)).unwrap_or(u64::MAX)
    }

    fn over_ceil(self, by: Divisor) -> u64 {
        u64::try_from(self.div_ceil(by.by.into())).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_multiplications_divide_like_one_division() {
        let mut numbers = alloc::vec![1, 2, 3, 5, 7, 10, 1_000, 600_000_000, u64::MAX, 1 << 63];
        for shift in 0..64 {
            numbers.extend([1 << shift, (1 << shift) + 1, u64::MAX >> shift]);
            numbers.push((1_u64 << shift).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        }
        for &by in &numbers {
            let divisor = Divisor::new(by);
            for amount in numbers.iter().flat_map(|&it| [it - 1, it, it.wrapping_add(1)]) {
                assert_eq!(amount.over(divisor), amount / by, "{amount} / {by}");
                assert_eq!(amount.over_ceil(divisor), amount.div_ceil(by), "{amount} / {by}");
                let wide = u128::from(amount);
                assert_eq!(wide.over(divisor), amount / by);
                assert_eq!(wide.over_ceil(divisor), amount.div_ceil(by));
            }
        }
        assert_eq!(u128::MAX.over(Divisor::new(3)), u64::MAX);
        assert_eq!(u128::MAX.over_ceil(Divisor::new(3)), u64::MAX);
    }
}
