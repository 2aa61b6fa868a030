//! Token bucket, GCRA and leaky bucket: three readings of one line.
//!
//! A key's debt falls by [`Grains::tick`] every tick. Drawn over time that is a straight line, and
//! all three algorithms ask the same of it: does the debt leave room for the cost? A token bucket
//! remembers how much is missing and since when, GCRA where the line meets zero, a leaky bucket how
//! full it is. Where the line meets zero says all of it, so that is the one number kept here,
//! measured in grains since the epoch so that nothing is ever divided or rounded.

use super::Algorithm;
use super::amount::{Amount, Divisor};
use crate::decision::{Decision, Receipt, Verdict};
use crate::quota::{Grains, Quota, QuotaError};
use crate::tick::{Span, Tick};

/// A debt of at most a burst that time pays off at the quota's rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LineBucket {
    grains: Grains,
    per_cell: Divisor,
    per_tick: Divisor,
    overflow: Overflow,
    /// Whether every line of this bucket fits one word, at any tick.
    narrow: bool,
}

/// What becomes of a request that finds a debt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Overflow {
    /// It passes at once as long as there is room.
    Meter,
    /// It passes when the debt before it is paid: evenly spaced, as out of a queue.
    Queue,
}

/// The latest tick that scripts keep in one word: in the year 2112.
const PAID_BY: Tick = Tick::from_micros((1 << 52) - 1);

/// Where a key's debt meets zero, in grains since the epoch. Zero for a fresh key.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Line {
    zero_at: u128,
}

impl LineBucket {
    /// A bucket for `quota`.
    pub(crate) const fn new(quota: Quota, overflow: Overflow) -> Result<LineBucket, QuotaError> {
        let grains = match Grains::of(quota) {
            Ok(grains) => grains,
            Err(error) => return Err(error),
        };
        let latest = Tick::MAX.get() as u128 * grains.tick() as u128;
        let burst = grains.burst() as u128 * grains.cell() as u128;
        let narrow = latest + burst <= u64::MAX as u128;
        let (per_cell, per_tick) = (Divisor::new(grains.cell()), Divisor::new(grains.tick()));
        Ok(LineBucket { grains, per_cell, per_tick, overflow, narrow })
    }

    /// The quota as it is counted.
    pub(crate) const fn grains(&self) -> &Grains {
        &self.grains
    }

    /// Whether every line of this bucket fits one word, at any tick: true for every quota whose
    /// reduced fraction has at most a thousand cells and whose burst is not astronomical.
    pub(crate) const fn is_narrow(&self) -> bool {
        self.narrow
    }

    /// Decides and charges a line that is kept in one word.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "whoever wants only the verdict pays only for that")]
    pub(crate) fn decide_narrow(&self, zero_at: &mut u64, now: Tick, cost: u32) -> Decision {
        let verdict = self.judged(*zero_at, now, cost);
        if verdict.passes() {
            *zero_at = self.charged(*zero_at, now, cost);
        }
        let (remaining, reset_after) = self.reported(*zero_at, now);
        Decision { verdict, limit: self.grains.burst(), remaining, reset_after }
    }

    /// The receipt of what [`LineBucket::decide_narrow`] has charged.
    pub(crate) fn receipt_narrow(&self, zero_at: u64, now: Tick, cost: u32) -> Receipt {
        self.receipt(zero_at, now, cost)
    }

    /// `line`, which lived under `old` until `now`, with the cells that it lacked: also those that
    /// are more than a burst of this quota. Forgiven, they could be had again after every cut.
    pub(crate) fn carry(&self, old: &LineBucket, line: Line, now: Tick) -> Line {
        let owed = old.debt(line.zero_at, now);
        let (old_cell, cell) = (u128::from(old.grains.cell()), u128::from(self.grains.cell()));
        // Rounded up: a change of quota gives nothing away.
        let part = (owed % old_cell * cell).div_ceil(old_cell);
        self.owing((owed / old_cell).saturating_mul(cell).saturating_add(part), now)
    }

    /// A line that lacks `cells` at `now`.
    pub(crate) fn lacking(&self, cells: u32, now: Tick) -> Line {
        self.owing(self.in_cells(cells), now)
    }

    /// A line that owes so many grains at `now`. More than a burst is paid by [`PAID_BY`] at the
    /// latest: so every line fits its words, here and in scripts.
    fn owing(&self, grains: u128, now: Tick) -> Line {
        if grains == 0 {
            return Line::default();
        }
        let now: u128 = self.grain_time(now);
        let latest =
            self.grain_time::<u128>(PAID_BY).max(now + self.in_cells::<u128>(self.limit()));
        Line { zero_at: now.saturating_add(grains).min(latest) }
    }

    /// `line`, which lived until `now` under `old`, another part of the same quota: as full as it
    /// was, so it meets zero when it always would have.
    ///
    /// Above a burst if that was rounded down further than the rate: otherwise a key would have
    /// something back whenever the part changes.
    pub(crate) fn scale(&self, old: &LineBucket, line: Line, now: Tick) -> Line {
        let owed = old.debt(line.zero_at, now);
        let (old_tick, tick) = (u128::from(old.grains.tick()), u128::from(self.grains.tick()));
        // Rounded up: a change of quota gives nothing away.
        let part = (owed % old_tick * tick).div_ceil(old_tick);
        self.owing((owed / old_tick).saturating_mul(tick).saturating_add(part), now)
    }

    /// The cells that take as long to pay as `cells` of `old` did, rounded down; never more.
    pub(crate) fn worth(&self, old: &LineBucket, cells: u32) -> u32 {
        let grains: u128 = old.in_cells(cells);
        let (old_tick, tick) = (u128::from(old.grains.tick()), u128::from(self.grains.tick()));
        let whole = (grains / old_tick).saturating_mul(tick);
        let now = whole.saturating_add(grains % old_tick * tick / old_tick);
        u32::try_from(now / u128::from(self.grains.cell())).unwrap_or(cells).min(cells)
    }

    /// Whether nothing is owed at `now`: what [`Algorithm::forget_at`] says, without dividing.
    pub(crate) fn is_fresh(&self, line: Line, now: Tick) -> bool {
        self.debt(line.zero_at, now) == 0
    }

    /// Whether `line` can be one of this bucket: no debt is above a burst as of the last tick.
    pub(crate) fn can_be(&self, line: Line) -> bool {
        let burst: u128 = self.in_cells(self.grains.burst());
        self.debt(line.zero_at, Tick::MAX) <= burst
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of the shortest way, as above")]
    fn judged<A: Amount>(&self, zero_at: A, now: Tick, cost: u32) -> Verdict {
        if cost == 0 {
            return Verdict::Allow;
        }
        if self.grains.burst() < cost {
            return Verdict::Never;
        }
        let debt = self.debt(zero_at, now);
        let room: A = self.in_cells(self.grains.burst() - cost);
        let over = debt.less(room);
        if A::ZERO < over {
            Verdict::Deny { retry_after: self.paid_in(over) }
        } else if A::ZERO < debt && self.overflow == Overflow::Queue {
            Verdict::Delay { by: self.paid_in(debt) }
        } else {
            Verdict::Allow
        }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of the shortest way, as above")]
    fn charged<A: Amount>(&self, zero_at: A, now: Tick, cost: u32) -> A {
        // A look must not even move a line that has met zero: a fresh one is zero.
        if cost == 0 { zero_at } else { zero_at.max(self.grain_time(now)) + self.in_cells(cost) }
    }

    /// Cells that remain, and how long until all do.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of the shortest way, as above")]
    fn reported<A: Amount>(&self, zero_at: A, now: Tick) -> (u32, Span) {
        let debt = self.debt(zero_at, now);
        let room = self.in_cells::<A>(self.grains.burst()).less(debt);
        // Room for at most the burst, so it fits. Without a panic to keep, whoever only wants the
        // verdict does not pay for the division.
        let cells = u32::try_from(room.over(self.per_cell)).unwrap_or(self.grains.burst());
        (cells, self.paid_in(debt))
    }

    /// What was charged to a line that has met zero at `zero_at` since. A queue's says where its
    /// slot ends, by which it is known whether anybody stands behind it.
    #[inline]
    fn receipt<A: Amount>(&self, zero_at: A, now: Tick, cost: u32) -> Receipt {
        let at = match self.overflow {
            Overflow::Queue if 0 < cost => Tick::from_micros(zero_at.over_ceil(self.per_tick)),
            _ => now,
        };
        Receipt { at, cost }
    }

    #[inline]
    fn in_cells<A: Amount>(&self, cells: u32) -> A {
        A::product(self.grains.cell(), cells.into())
    }

    /// `now`, in grains since the epoch.
    #[inline]
    fn grain_time<A: Amount>(&self, now: Tick) -> A {
        A::product(now.get(), self.grains.tick())
    }

    /// Grains owed at `now`. More than a burst where the clock has gone back, or after a cut.
    #[inline]
    fn debt<A: Amount>(&self, zero_at: A, now: Tick) -> A {
        zero_at.less(self.grain_time(now))
    }

    /// Ticks until `grains` are paid, rounded up: never promise too early.
    #[inline]
    fn paid_in<A: Amount>(&self, grains: A) -> Span {
        Span::from_micros(grains.over_ceil(self.per_tick))
    }
}

impl Algorithm for LineBucket {
    type State = Line;

    fn limit(&self) -> u32 {
        self.grains.burst()
    }

    fn settle(&self, _: &mut Line, _: Tick) {}

    fn judge(&self, line: &Line, now: Tick, cost: u32) -> Verdict {
        self.judged(line.zero_at, now, cost)
    }

    fn charge(&self, line: &mut Line, now: Tick, cost: u32) -> Receipt {
        line.zero_at = self.charged(line.zero_at, now, cost);
        self.receipt(line.zero_at, now, cost)
    }

    fn report(&self, line: &Line, now: Tick) -> (u32, Span) {
        self.reported(line.zero_at, now)
    }

    fn lacks(&self, line: &Line, now: Tick) -> u32 {
        let cells: u64 = self.debt(line.zero_at, now).over_ceil(self.per_cell);
        u32::try_from(cells).unwrap_or(u32::MAX)
    }

    fn refund(&self, line: &mut Line, now: Tick, receipt: Receipt) {
        // Whoever stands behind has been told its slot. Were an earlier one given back, the next
        // to come would be sent together with the last.
        if self.overflow == Overflow::Queue && receipt.at != self.forget_at(line) {
            return;
        }
        let back: u128 = self.in_cells(receipt.cost);
        line.zero_at -= back.min(self.debt(line.zero_at, now));
    }

    fn forget_at(&self, line: &Line) -> Tick {
        Tick::from_micros(line.zero_at.over_ceil(self.per_tick))
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
