//! A part of a whole, in millionths. May be more than the whole: a service can be asked for twice
//! what it can do.

use core::fmt;

/// Millionths of a whole.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Fraction(u32);

impl Fraction {
    /// Nothing.
    pub const NONE: Fraction = Fraction(0);

    /// All of it.
    pub const WHOLE: Fraction = Fraction(1_000_000);

    /// `millionths` of the whole.
    pub const fn from_millionths(millionths: u32) -> Fraction {
        Fraction(millionths)
    }

    /// `percent` hundredths of the whole.
    pub const fn from_percent(percent: u8) -> Fraction {
        Fraction(percent as u32 * 10_000)
    }

    /// What `part` is of `whole`, rounded down; nothing of nothing.
    pub fn of(part: u64, whole: u64) -> Fraction {
        let millionths = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
        Fraction(u32::try_from(millionths).unwrap_or(u32::MAX))
    }

    /// Millionths.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// This share of `amount`, rounded down.
    pub fn of_amount(self, amount: u64) -> u64 {
        let part = u128::from(amount) * u128::from(self.0) / 1_000_000;
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    /// This share of `other`, rounded down.
    #[must_use]
    pub fn times(self, other: Fraction) -> Fraction {
        Fraction(u32::try_from(self.of_amount(other.0.into())).unwrap_or(u32::MAX))
    }
}

impl fmt::Display for Fraction {
    /// Writes percent with one decimal, rounded down: `12.5%`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}%", self.0 / 10_000, self.0 / 1_000 % 10)
    }
}
