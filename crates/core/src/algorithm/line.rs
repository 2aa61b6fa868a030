//! Token bucket, GCRA and leaky bucket: three readings of one line.
//!
//! A key's debt falls by [`Grains::tick`] every tick. Drawn over time that is a straight line, and
//! all three algorithms ask the same of it: does the debt leave room for the cost? A token bucket
//! remembers how much is missing and since when, GCRA where the line meets zero, a leaky bucket how
//! full it is. Where the line meets zero says all of it, so that is the one number kept here,
//! measured in grains since the epoch so that nothing is ever divided or rounded.

use super::{Algorithm, div_ceil, div_floor, narrow};
use crate::decision::{Receipt, Verdict};
use crate::quota::{Grains, Quota, QuotaError};
use crate::tick::{Span, Tick};

/// A debt of at most a burst that time pays off at the quota's rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LineBucket {
    grains: Grains,
    overflow: Overflow,
}

/// What becomes of a request that finds a debt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Overflow {
    /// It passes at once as long as there is room.
    Meter,
    /// It passes when the debt before it is paid: evenly spaced, as out of a queue.
    Queue,
}

/// Where a key's debt meets zero, in grains since the epoch. Zero for a fresh key.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Line {
    zero_at: u128,
}

impl LineBucket {
    /// A bucket for `quota`.
    pub(crate) const fn new(quota: Quota, overflow: Overflow) -> Result<LineBucket, QuotaError> {
        match Grains::of(quota) {
            Ok(grains) => Ok(LineBucket { grains, overflow }),
            Err(error) => Err(error),
        }
    }

    /// The quota as it is counted.
    pub(crate) const fn grains(&self) -> &Grains {
        &self.grains
    }

    /// Whether every line of this bucket fits one word, at any tick.
    ///
    /// True for every quota whose reduced fraction has at most 1,024 cells and whose burst is not
    /// astronomical: all but a few in practice.
    pub(crate) const fn is_narrow(&self) -> bool {
        let latest = Tick::MAX.get() as u128 * self.grains.tick() as u128;
        latest + self.burst() <= u64::MAX as u128
    }

    /// `line`, which lived under `old` until `now`, with the same cells consumed under this quota.
    pub(crate) fn carry(&self, old: &LineBucket, line: Line, now: Tick) -> Line {
        let owed = old.debt(line, now).min(old.burst());
        let cells = div_floor(owed, old.grains.cell());
        let part = owed - cells * u128::from(old.grains.cell());
        // Rounded up: a change of quota gives nothing away.
        let part = (part * u128::from(self.grains.cell())).div_ceil(u128::from(old.grains.cell()));
        let owed = (cells * u128::from(self.grains.cell()) + part).min(self.burst());
        if owed == 0 { Line::default() } else { Line { zero_at: self.grain_time(now) + owed } }
    }

    /// Whether nothing is owed at `now`: what [`Algorithm::forget_at`] says, without dividing.
    pub(crate) fn is_fresh(&self, line: Line, now: Tick) -> bool {
        self.debt(line, now) == 0
    }

    const fn burst(&self) -> u128 {
        self.grains.in_cells(self.grains.burst())
    }

    /// `now`, in grains since the epoch.
    fn grain_time(&self, now: Tick) -> u128 {
        u128::from(now.get()) * u128::from(self.grains.tick())
    }

    /// Grains owed at `now`. More than a burst only where the clock has gone back.
    fn debt(&self, line: Line, now: Tick) -> u128 {
        line.zero_at.saturating_sub(self.grain_time(now))
    }

    /// Ticks until `grains` are paid, rounded up: never promise too early.
    fn paid_in(&self, grains: u128) -> Span {
        Span::from_micros(narrow(div_ceil(grains, self.grains.tick())))
    }
}

impl Algorithm for LineBucket {
    type State = Line;

    fn limit(&self) -> u32 {
        self.grains.burst()
    }

    fn settle(&self, _: &mut Line, _: Tick) {}

    fn judge(&self, line: &Line, now: Tick, cost: u32) -> Verdict {
        if cost == 0 {
            return Verdict::Allow;
        }
        if self.grains.burst() < cost {
            return Verdict::Never;
        }
        let debt = self.debt(*line, now);
        let over = (debt + self.grains.in_cells(cost)).saturating_sub(self.burst());
        if 0 < over {
            Verdict::Deny { retry_after: self.paid_in(over) }
        } else if 0 < debt && self.overflow == Overflow::Queue {
            Verdict::Delay { by: self.paid_in(debt) }
        } else {
            Verdict::Allow
        }
    }

    fn charge(&self, line: &mut Line, now: Tick, cost: u32) -> Receipt {
        if 0 < cost {
            line.zero_at = line.zero_at.max(self.grain_time(now)) + self.grains.in_cells(cost);
        }
        Receipt { at: now, cost }
    }

    fn remaining(&self, line: &Line, now: Tick) -> u32 {
        let room = self.burst().saturating_sub(self.debt(*line, now));
        let cells = div_floor(room, self.grains.cell());
        u32::try_from(cells).expect("room for at most the burst")
    }

    fn reset_after(&self, line: &Line, now: Tick) -> Span {
        self.paid_in(self.debt(*line, now))
    }

    fn refund(&self, line: &mut Line, now: Tick, receipt: Receipt) {
        let back = self.grains.in_cells(receipt.cost).min(self.debt(*line, now));
        line.zero_at -= back;
    }

    fn forget_at(&self, line: &Line) -> Tick {
        Tick::from_micros(narrow(div_ceil(line.zero_at, self.grains.tick())))
    }

    fn worse(&self, a: &Line, b: &Line) -> Option<Line> {
        Some(*a.max(b))
    }
}

impl Line {
    /// The line as two words, the lower first. The upper is zero for a narrow bucket.
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a double word")]
    pub(crate) const fn to_words(self) -> [u64; 2] {
        [self.zero_at as u64, (self.zero_at >> 64) as u64]
    }

    /// The line that [`Line::to_words`] wrote.
    pub(crate) fn from_words([lower, upper]: [u64; 2]) -> Line {
        Line { zero_at: u128::from(upper) << 64 | u128::from(lower) }
    }
}
