//! Fixed window: a count that starts again at every boundary.
//!
//! The cheapest and the easiest to explain, and the right one for billing. Up to twice the limit
//! can pass around a boundary. Boundaries are multiples of the period, or those of a calendar,
//! which the caller works out: a core without a clock has no time zones either.

use core::cmp::Ordering;

use super::Algorithm;
use crate::debit::{Debited, Refused, refusals_to};
use crate::decision::{Receipt, Verdict};
use crate::quota::{Quota, QuotaError};
use crate::shape::Shape;
use crate::tick::{Span, Tick};

/// At most `limit` cells in each window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct FixedWindow {
    limit: u32,
    windows: Windows,
    /// How far requests that are refused may bring a count; 0 if they are not charged.
    refusals: u32,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Windows {
    /// Every multiple of the period starts a window.
    Aligned { per: Span },
    /// Two windows side by side: from the first boundary to the second, and on to the third.
    Calendar { boundaries: [Tick; 3] },
}

/// What was used in the window that starts at `start`. All zero for a fresh key.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct WindowCount {
    start: Tick,
    used: u32,
}

impl FixedWindow {
    /// Windows that start at the multiples of the quota's period.
    pub(crate) const fn new(quota: Quota) -> Result<FixedWindow, QuotaError> {
        match quota.check_without_burst() {
            Ok(()) => Ok(FixedWindow {
                limit: quota.cells(),
                windows: Windows::Aligned { per: quota.per() },
                refusals: 0,
            }),
            Err(error) => Err(error),
        }
    }

    /// Windows of a calendar: this one, and the one after it.
    ///
    /// The caller gives new boundaries before the third is reached. Until it does, the second
    /// window goes on: a late caller lets nobody pass twice.
    pub(crate) const fn calendar(
        limit: u32,
        boundaries: [Tick; 3],
    ) -> Result<FixedWindow, QuotaError> {
        let [start, middle, end] = boundaries;
        if limit == 0 {
            return Err(QuotaError::ZeroCells);
        }
        if middle.get() <= start.get() || end.get() <= middle.get() {
            return Err(QuotaError::Boundaries);
        }
        Ok(FixedWindow { limit, windows: Windows::Calendar { boundaries }, refusals: 0 })
    }

    /// The window whose refusals are free or not.
    pub(crate) const fn with_refused(self, refused: Refused) -> FixedWindow {
        FixedWindow { refusals: refusals_to(self.limit, refused), ..self }
    }

    /// How far refusals may bring a count; 0 if they are not charged.
    pub(crate) const fn refusals(&self) -> u32 {
        self.refusals
    }

    /// The policy in plain numbers.
    pub(crate) const fn shape(&self) -> Shape {
        match self.windows {
            Windows::Aligned { per } => Shape::FixedWindow { limit: self.limit, per },
            Windows::Calendar { boundaries } => Shape::Calendar { limit: self.limit, boundaries },
        }
    }

    /// Whether `old` has its windows in the same places, so that its counts mean the same: a
    /// calendar may have gone on by one window.
    pub(crate) fn is_aligned_with(&self, old: &FixedWindow) -> bool {
        match (self.windows, old.windows) {
            (Windows::Calendar { boundaries: new }, Windows::Calendar { boundaries: old }) => {
                new == old || new[..2] == old[1..]
            }
            (a, b) => a == b,
        }
    }

    /// The start of the window that holds `now`.
    fn start_of(&self, now: Tick) -> Tick {
        match self.windows {
            Windows::Aligned { per } => Tick::from_micros(now.get() - now.get() % per.get()),
            Windows::Calendar { boundaries: [start, middle, _] } => {
                if now < middle {
                    start
                } else {
                    middle
                }
            }
        }
    }

    /// The end of the window that starts at `start`.
    fn end_of(&self, start: Tick) -> Tick {
        match self.windows {
            Windows::Aligned { per } => start.after(per),
            Windows::Calendar { boundaries: [_, middle, end] } => {
                if start < middle {
                    middle
                } else {
                    end
                }
            }
        }
    }

    /// Whether `now` is past all windows that the caller gave: where the last one ends is unknown.
    fn is_overdue(&self, now: Tick) -> bool {
        matches!(self.windows, Windows::Calendar { boundaries: [_, _, end] } if end <= now)
    }

    /// How long after `now` the window that starts at `start` ends.
    fn ends_in(&self, start: Tick, now: Tick) -> Span {
        if self.is_overdue(now) { Span::MAX } else { self.end_of(start).since(now) }
    }
}

impl Algorithm for FixedWindow {
    type State = WindowCount;

    fn limit(&self) -> u32 {
        self.limit
    }

    fn settle(&self, count: &mut WindowCount, now: Tick) {
        let start = self.start_of(now);
        // A window that lies ahead stays: the clock has gone back, and that must not pay.
        if count.start < start {
            *count = WindowCount { start, used: 0 };
        }
    }

    fn judge(&self, count: &WindowCount, now: Tick, cost: u32) -> Verdict {
        if self.limit.checked_sub(count.used).is_some_and(|room| cost <= room) {
            Verdict::Allow
        } else if self.limit < cost {
            Verdict::Never
        } else {
            Verdict::Deny { retry_after: self.ends_in(count.start, now) }
        }
    }

    fn charge(&self, count: &mut WindowCount, now: Tick, cost: u32) -> Receipt {
        count.used += cost;
        Receipt { at: now.max(count.start), cost }
    }

    fn report(&self, count: &WindowCount, now: Tick) -> (u32, Span) {
        let reset_after = if count.used == 0 { Span::ZERO } else { self.ends_in(count.start, now) };
        (self.limit.saturating_sub(count.used), reset_after)
    }

    fn lacks(&self, count: &WindowCount, _: Tick) -> u32 {
        count.used
    }

    fn overdrawn(&self, count: &WindowCount, _: Tick) -> u32 {
        count.used.saturating_sub(self.limit)
    }

    fn debit(&self, count: &mut WindowCount, now: Tick, cells: u32) -> Debited {
        let charged = cells.min(u32::MAX - count.used);
        Debited { receipt: self.charge(count, now, charged), forgiven: cells - charged }
    }

    fn charge_refusal(&self, count: &mut WindowCount, now: Tick, cells: u32) {
        let _ = self.charge(count, now, cells.min(self.refusals.saturating_sub(count.used)));
    }

    /// A count that may have been clipped gives nothing back: without what was charged, more would
    /// have been counted since.
    fn refund(&self, count: &mut WindowCount, _: Tick, receipt: Receipt) {
        let inside = receipt.at < self.end_of(count.start) || self.is_overdue(receipt.at);
        let clipped_at = if self.refusals == 0 { u32::MAX } else { self.refusals };
        if count.start <= receipt.at && inside && count.used < clipped_at {
            count.used = count.used.saturating_sub(receipt.cost);
        }
    }

    fn give_back(&self, count: &mut WindowCount, _: Tick, cells: u32) {
        count.used = count.used.saturating_sub(cells);
    }

    fn forget_at(&self, count: &WindowCount) -> Tick {
        if count.used == 0 {
            return Tick::default();
        }
        let end = self.end_of(count.start);
        // The last window that the caller gave may go on for as long as it gives no other.
        if self.is_overdue(end) { Tick::MAX } else { end }
    }
}

impl WindowCount {
    /// A count of at least as much as both: that of the later window, or the larger.
    pub(crate) fn worse(self, other: WindowCount) -> WindowCount {
        match self.start.cmp(&other.start) {
            Ordering::Less => other,
            Ordering::Equal => WindowCount { used: self.used.max(other.used), ..self },
            Ordering::Greater => self,
        }
    }

    /// The count as two words.
    pub(crate) fn to_words(self) -> [u64; 2] {
        [self.start.get(), self.used.into()]
    }

    /// The count that [`WindowCount::to_words`] wrote.
    pub(crate) fn from_words([start, used]: [u64; 2]) -> WindowCount {
        // More than a word's half was never written; a damaged word must not pay.
        let used = u32::try_from(used).unwrap_or(u32::MAX);
        WindowCount { start: Tick::from_micros(start), used }
    }
}
