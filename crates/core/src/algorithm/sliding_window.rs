//! Sliding window: this window's count, plus the last one's weighted by how much of it still shows.
//!
//! Almost as exact as a log in two words. It is an estimate: a key that spends a whole window at
//! its very end is forgotten a little too early in the next.

use super::Algorithm;
use crate::debit::{Debited, Refused, refusals_to};
use crate::decision::{Receipt, Verdict};
use crate::quota::{Quota, QuotaError};
use crate::shape::Shape;
use crate::tick::{Span, Tick};

/// About `limit` cells in any span of one period.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SlidingWindow {
    limit: u32,
    per: Span,
    /// How far requests that are refused may bring a count; 0 if they are not charged.
    refusals: u32,
}

/// What was used in the window that starts at `start`, and in the one before it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct WindowPair {
    start: Tick,
    last: u32,
    this: u32,
}

impl SlidingWindow {
    /// Windows for `quota`.
    pub(crate) const fn new(quota: Quota) -> Result<SlidingWindow, QuotaError> {
        match quota.check_without_burst() {
            Ok(()) => Ok(SlidingWindow { limit: quota.cells(), per: quota.per(), refusals: 0 }),
            Err(error) => Err(error),
        }
    }

    /// The window whose refusals are free or not.
    pub(crate) const fn with_refused(self, refused: Refused) -> SlidingWindow {
        SlidingWindow { refusals: refusals_to(self.limit, refused), ..self }
    }

    /// How far refusals may bring a count; 0 if they are not charged.
    pub(crate) const fn refusals(&self) -> u32 {
        self.refusals
    }

    /// The policy in plain numbers.
    pub(crate) const fn shape(&self) -> Shape {
        Shape::SlidingWindow { limit: self.limit, per: self.per }
    }

    /// The period.
    pub(crate) const fn per(&self) -> Span {
        self.per
    }

    /// This window's cells, and what still shows of the last one's.
    fn used(&self, pair: &WindowPair, now: Tick) -> u64 {
        let shows = self.per.get() - now.since(pair.start).get();
        let (last, _) = mul_div(pair.last.into(), shows, self.per.get());
        last + u64::from(pair.this)
    }

    /// What the limit leaves beside them.
    fn room(&self, pair: &WindowPair, now: Tick) -> u32 {
        let room = u64::from(self.limit).saturating_sub(self.used(pair, now));
        room.try_into().expect("at most the limit")
    }

    /// How far into a window the `weight` cells of the one before have faded to at most `spare`.
    ///
    /// The smallest `e` with `⌊weight × (per − e) / per⌋ ≤ spare`, or the whole period if that is
    /// only so once the window is over.
    fn fades_in(&self, weight: u32, spare: u32) -> u64 {
        if weight <= spare {
            return 0;
        }
        // weight × (per − e) < (spare + 1) × per, and spare + 1 is at most the weight.
        let (whole, left) = mul_div(u64::from(spare) + 1, self.per.get(), weight.into());
        // The most that may show is less than that quotient: one less where it is whole.
        self.per.get() - if left == 0 { whole - 1 } else { whole }
    }

    /// When `cost` passes: in this window, in the next, or in the one after that.
    fn passes_at(&self, pair: &WindowPair, cost: u32) -> Tick {
        if let Some(spare) = pair.this.checked_add(cost).and_then(|it| self.limit.checked_sub(it)) {
            let into = self.fades_in(pair.last, spare);
            return pair.start.after(Span::from_micros(into));
        }
        let into = self.fades_in(pair.this, self.limit - cost);
        pair.start.after(self.per).after(Span::from_micros(into))
    }

    /// A state under which at least as much is consumed as under `a` and under `b`.
    pub(crate) fn worse(&self, a: &WindowPair, b: &WindowPair) -> WindowPair {
        let (mut a, mut b) = (*a, *b);
        let start = a.start.max(b.start);
        self.settle(&mut a, start);
        self.settle(&mut b, start);
        WindowPair { start, last: a.last.max(b.last), this: a.this.max(b.this) }
    }
}

impl Algorithm for SlidingWindow {
    type State = WindowPair;

    fn limit(&self) -> u32 {
        self.limit
    }

    fn settle(&self, pair: &mut WindowPair, now: Tick) {
        let elapsed = now.since(pair.start).get();
        let per = self.per.get();
        if elapsed < per {
            return;
        }
        let last = if elapsed - per < per { pair.this } else { 0 };
        *pair = WindowPair { start: Tick::from_micros(now.get() - now.get() % per), last, this: 0 };
    }

    fn judge(&self, pair: &WindowPair, now: Tick, cost: u32) -> Verdict {
        if self.used(pair, now) + u64::from(cost) <= self.limit.into() {
            Verdict::Allow
        } else if self.limit < cost {
            Verdict::Never
        } else {
            Verdict::Deny { retry_after: self.passes_at(pair, cost).since(now) }
        }
    }

    fn charge(&self, pair: &mut WindowPair, now: Tick, cost: u32) -> Receipt {
        pair.this += cost;
        Receipt { at: now.max(pair.start), cost }
    }

    fn report(&self, pair: &WindowPair, now: Tick) -> (u32, Span) {
        (self.room(pair, now), self.forget_at(pair).since(now))
    }

    fn lacks(&self, pair: &WindowPair, now: Tick) -> u32 {
        u32::try_from(self.used(pair, now)).unwrap_or(u32::MAX)
    }

    fn overdrawn(&self, pair: &WindowPair, now: Tick) -> u32 {
        let over = self.used(pair, now).saturating_sub(self.limit.into());
        u32::try_from(over).unwrap_or(u32::MAX)
    }

    fn debit(&self, pair: &mut WindowPair, now: Tick, cells: u32) -> Debited {
        let charged = cells.min(u32::MAX - pair.this);
        Debited { receipt: self.charge(pair, now, charged), forgiven: cells - charged }
    }

    fn charge_refusal(&self, pair: &mut WindowPair, now: Tick, cells: u32) {
        let _ = self.charge(pair, now, cells.min(self.refusals.saturating_sub(pair.this)));
    }

    /// A count that may have been clipped gives nothing back: without what was charged, more would
    /// have been counted since.
    fn refund(&self, pair: &mut WindowPair, _: Tick, receipt: Receipt) {
        if pair.start.after(self.per) <= receipt.at {
            return;
        }
        let count = if pair.start <= receipt.at {
            &mut pair.this
        } else if pair.start.since(receipt.at) <= self.per {
            &mut pair.last
        } else {
            return;
        };
        let clipped_at = if self.refusals == 0 { u32::MAX } else { self.refusals };
        if *count < clipped_at {
            *count = count.saturating_sub(receipt.cost);
        }
    }

    fn give_back(&self, pair: &mut WindowPair, _: Tick, cells: u32) {
        pair.this = pair.this.saturating_sub(cells);
    }

    fn forget_at(&self, pair: &WindowPair) -> Tick {
        match (pair.last, pair.this) {
            (0, 0) => Tick::default(),
            (last, 0) => pair.start.after(Span::from_micros(self.fades_in(last, 0))),
            (_, this) => {
                pair.start.after(self.per).after(Span::from_micros(self.fades_in(this, 0)))
            }
        }
    }
}

impl WindowPair {
    /// The pair as two words.
    pub(crate) fn to_words(self) -> [u64; 2] {
        [self.start.get(), u64::from(self.last) << 32 | u64::from(self.this)]
    }

    /// The pair that [`WindowPair::to_words`] wrote.
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of a word")]
    pub(crate) fn from_words([start, counts]: [u64; 2]) -> WindowPair {
        let (last, this) = ((counts >> 32) as u32, counts as u32);
        WindowPair { start: Tick::from_micros(start), last, this }
    }
}

/// `a × b / by` and the remainder, for quotients that fit a word.
fn mul_div(a: u64, b: u64, by: u64) -> (u64, u64) {
    let product = u128::from(a) * u128::from(b);
    // Most products fit a word, and one word divides several times faster than two.
    if let Ok(product) = u64::try_from(product) {
        return (product / by, product % by);
    }
    let (whole, left) = (product / u128::from(by), product % u128::from(by));
    let word = |part| u64::try_from(part).expect("a quotient below the greater factor");
    (word(whole), word(left))
}

#[cfg(test)]
mod tests {
    use super::mul_div;

    #[test]
    fn products_wider_than_a_word_divide_alike() {
        assert_eq!(mul_div(7, 10, 4), (17, 2));
        let (a, b) = (u64::from(u32::MAX), 366 * 86_400_000_000);
        for by in [a, a - 1, a / 2, b, b - 1, 1 << 32] {
            let product = u128::from(a) * u128::from(b);
            let (whole, left) = mul_div(a, b, by);
            assert_eq!(u128::from(whole) * u128::from(by) + u128::from(left), product);
            assert!(left < by);
        }
    }
}
