//! Token bucket, GCRA and leaky bucket: three readings of one line.
//!
//! A key's debt falls by [`Grains::tick`] every tick. Drawn over time that is a straight line, and
//! all three algorithms ask one question: does the debt leave room for the cost? A token bucket
//! remembers how much is missing and since when, GCRA where the line meets zero, a leaky bucket how
//! full it is. Where the line meets zero says all of it, so that is the one number kept here,
//! measured in grains since the epoch so that nothing is ever divided or rounded.

use super::Algorithm;
use super::amount::{Amount, Divisor};
use crate::debit::{Debited, Overdraft, Refused};
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
    /// Whether such a line is decided without unpacking it: only if its refusals are free.
    quick: bool,
    /// By how many ticks' worth debits may overdraw it; at least one, so that a line that has
    /// forgiven something can be told from one that is only full.
    overdraft: u64,
    /// By how many ticks' worth refusals may overdraw it; 0 if they are not charged.
    refusals: u64,
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
        // The one tick more is that by which every line may be overdrawn.
        let latest = (Tick::MAX.get() as u128 + 1) * grains.tick() as u128;
        let burst = grains.burst() as u128 * grains.cell() as u128;
        let narrow = latest + burst <= u64::MAX as u128;
        let (per_cell, per_tick) = (Divisor::new(grains.cell()), Divisor::new(grains.tick()));
        let overdraft = ticks_of(&grains, grains.burst());
        let (quick, refusals) = (narrow, 0);
        Ok(LineBucket { grains, per_cell, per_tick, overflow, narrow, quick, overdraft, refusals })
    }

    /// The bucket whose debits and refusals may overdraw it so far.
    pub(crate) const fn with_debts(self, overdraft: Overdraft, refused: Refused) -> LineBucket {
        let again = ticks_of(&self.grains, self.grains.burst());
        let overdraft = match overdraft {
            Overdraft::Again => again,
            Overdraft::Cells(cells) => ticks_of(&self.grains, cells),
            Overdraft::Unlimited => PAID_BY.get(),
        };
        let refusals = match refused {
            Refused::Free => 0,
            Refused::Charge if again < overdraft => again,
            Refused::Charge => overdraft,
        };
        LineBucket { quick: self.narrow && refusals == 0, overdraft, refusals, ..self }
    }

    /// By how many ticks' worth debits may overdraw it, and refusals.
    pub(crate) const fn debts(&self) -> [u64; 2] {
        [self.overdraft, self.refusals]
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

    /// Whether such a line may be decided by [`LineBucket::decide_narrow`].
    pub(crate) const fn is_quick(&self) -> bool {
        self.quick
    }

    /// Decides and charges a line that is kept in one word, and whose refusals are free.
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
        let zero_at = self.grain_time::<u128>(now).saturating_add(grains);
        Line { zero_at: zero_at.min(self.latest(now)) }
    }

    /// The latest zero of any line at `now`: at least one tick more than a burst is owed.
    fn latest(&self, now: Tick) -> u128 {
        let full: u128 = self.grain_time::<u128>(now) + self.in_cells::<u128>(self.grains.burst());
        self.grain_time::<u128>(PAID_BY).max(full + u128::from(self.grains.tick()))
    }

    /// The latest zero of a line that is overdrawn at `now` by at most so many ticks' worth.
    fn overdrawn_by(&self, ticks: u64, now: Tick) -> u128 {
        let full: u128 = self.grain_time::<u128>(now) + self.in_cells::<u128>(self.grains.burst());
        (full + u128::from(ticks) * u128::from(self.grains.tick())).min(self.latest(now))
    }

    /// The zero of a line from which on something may have been forgiven since `at`; see
    /// [`Algorithm::refund`].
    pub(crate) fn forgives_from(&self, at: Tick) -> u128 {
        let least = if self.refusals == 0 { self.overdraft } else { self.refusals };
        self.overdrawn_by(least, at)
    }

    /// Charges `cells` in full, but lets the line meet zero no later than at `most`; how many were
    /// forgiven, rounded up.
    fn overdraw(&self, line: &mut Line, now: Tick, cells: u32, most: u128) -> u32 {
        let charged = self.charged(line.zero_at, now, cells);
        // One that is later already stays: after a cut, or where the clock has gone back.
        line.zero_at = charged.min(most.max(line.zero_at));
        let forgiven = (charged - line.zero_at).over_ceil(self.per_cell);
        u32::try_from(forgiven).unwrap_or(cells).min(cells)
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

    /// Whether `line` can be one of this bucket: none is later than the latest of the last tick.
    pub(crate) fn can_be(&self, line: Line) -> bool {
        line.zero_at <= self.latest(Tick::MAX)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of the shortest way, as above")]
    fn judged<A: Amount>(&self, zero_at: A, now: Tick, cost: u32) -> Verdict {
        if self.grains.burst() < cost {
            return Verdict::Never;
        }
        let debt = self.debt(zero_at, now);
        let room: A = self.in_cells(self.grains.burst() - cost);
        let over = debt.less(room);
        if A::ZERO < over {
            Verdict::Deny { retry_after: self.paid_in(over) }
        } else if A::ZERO < debt && self.overflow == Overflow::Queue && 0 < cost {
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
        // Room for at most the burst, so it fits. Without a panic to keep, a caller that wants only
        // the verdict does not pay for the division.
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

    fn overdrawn(&self, line: &Line, now: Tick) -> u32 {
        let burst: u128 = self.in_cells(self.grains.burst());
        let cells = self.debt(line.zero_at, now).less(burst).over_ceil(self.per_cell);
        u32::try_from(cells).unwrap_or(u32::MAX)
    }

    fn debit(&self, line: &mut Line, now: Tick, cells: u32) -> Debited {
        let forgiven = self.overdraw(line, now, cells, self.overdrawn_by(self.overdraft, now));
        Debited { receipt: self.receipt(line.zero_at, now, cells - forgiven), forgiven }
    }

    fn charge_refusal(&self, line: &mut Line, now: Tick, cells: u32) {
        self.overdraw(line, now, cells, self.overdrawn_by(self.refusals, now));
    }

    /// At most what time has not paid since the receipt's tick.
    ///
    /// Without the charge, the line would have stood lower by its cells at that tick. From there
    /// on the difference falls only while the lower line stands at zero, so by at most what a tick
    /// pays each tick: what is left is at least what is given back here, whatever was charged or
    /// given back in between. A debit that was clipped makes the difference smaller too, and leaves
    /// the line at the bound of its tick or beyond: then nothing is given back.
    fn refund(&self, line: &mut Line, now: Tick, receipt: Receipt) {
        let mut back: u128 = self.in_cells(receipt.cost);
        if self.overflow == Overflow::Queue {
            // The requests behind already know their slots. Were an earlier one given back, the
            // next to come would be sent together with the last. Nobody has come since the last.
            if receipt.at != self.forget_at(line) {
                return;
            }
        } else {
            if self.forgives_from(receipt.at) <= line.zero_at {
                return;
            }
            back = back.less(u128::product(now.since(receipt.at).get(), self.grains.tick()));
        }
        line.zero_at -= back.min(self.debt(line.zero_at, now));
    }

    fn give_back(&self, line: &mut Line, now: Tick, cells: u32) {
        // Whose slot of a queue would it be?
        if self.overflow == Overflow::Meter {
            line.zero_at -= self.in_cells::<u128>(cells).min(self.debt(line.zero_at, now));
        }
    }

    fn forget_at(&self, line: &Line) -> Tick {
        Tick::from_micros(line.zero_at.over_ceil(self.per_tick))
    }
}

/// How many ticks it takes to pay for `cells`, rounded up: at least one, and none after
/// [`PAID_BY`].
#[expect(clippy::cast_possible_truncation, reason = "the smaller of it and a tick")]
const fn ticks_of(grains: &Grains, cells: u32) -> u64 {
    let ticks = (cells as u128 * grains.cell() as u128).div_ceil(grains.tick() as u128);
    match ticks {
        0 => 1,
        ticks if (PAID_BY.get() as u128) < ticks => PAID_BY.get(),
        ticks => ticks as u64,
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
