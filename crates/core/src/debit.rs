//! What is charged without asking: work that is done, and requests that are refused.

use core::fmt;

use crate::decision::Receipt;

/// What came of a debit.
#[derive(Debug, Eq, PartialEq)]
#[must_use = "what was forgiven should be counted, and what was charged can be given back"]
pub struct Debited {
    /// What was charged: to be refunded by, if it turns out to have been less.
    pub receipt: Receipt,
    /// How many cells were more than the state remembers, rounded up: they are not owed.
    pub forgiven: u32,
}

/// How far debits may overdraw a bucket. A window remembers all, since it ends.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Overdraft {
    /// As much again as the burst: one wrong debit does not shut a key out for weeks.
    #[default]
    Again,
    /// So many cells beyond the burst, and at least one tick's worth.
    Cells(u32),
    /// All that a state can hold: what is paid off by the year 2112.
    Unlimited,
}

/// Whether a request that is refused is charged.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Refused {
    /// A refusal changes nothing.
    #[default]
    Free,
    /// It is charged like a debit, until the limit is overdrawn by a burst: so hammering does not
    /// pay. What could never pass is not charged.
    Charge,
}

/// Why there was no debit: permits are held and given back, so there is nothing to debit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NothingToDebit;

impl fmt::Display for NothingToDebit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("concurrency has nothing to debit: charge a bucket or a window instead")
    }
}

impl core::error::Error for NothingToDebit {}

/// How far refusals may bring a count: to a limit beyond the limit.
pub(crate) const fn refusals_to(limit: u32, refused: Refused) -> u32 {
    match refused {
        Refused::Charge => limit.saturating_mul(2),
        Refused::Free => 0,
    }
}
