//! Sliding log and concurrency: what passed, each with the tick at which it leaves.
//!
//! A sliding log forgets an event one period after it passed; a permit is given back by its holder,
//! or is lost one lease after it was taken. Both are a list of events with an expiry, so they are
//! one algorithm, exact over every span, and the only one whose state grows.

use super::Algorithm;
use crate::debit::{Debited, Refused, refusals_to};
use crate::decision::{Receipt, Verdict};
use crate::events::Events;
use crate::quota::{Quota, QuotaError};
use crate::shape::Shape;
use crate::tick::{Span, Tick};

/// At most `limit` cells among the events of the last period.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LogLimit {
    limit: u32,
    per: Span,
    /// How far requests that are refused may bring the sum; 0 if they are not charged.
    refusals: u32,
}

/// The events that still count, oldest first.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Log {
    events: Events,
    used: u32,
}

impl LogLimit {
    /// A log for `quota`.
    pub(crate) const fn new(quota: Quota) -> Result<LogLimit, QuotaError> {
        match quota.check_without_burst() {
            Ok(()) => Ok(LogLimit { limit: quota.cells(), per: quota.per(), refusals: 0 }),
            Err(error) => Err(error),
        }
    }

    /// The log whose refusals are free or not.
    pub(crate) const fn with_refused(self, refused: Refused) -> LogLimit {
        LogLimit { refusals: refusals_to(self.limit, refused), ..self }
    }

    /// How far refusals may bring the sum; 0 if they are not charged.
    pub(crate) const fn refusals(&self) -> u32 {
        self.refusals
    }

    /// The policy in plain numbers.
    pub(crate) const fn shape(&self) -> Shape {
        Shape::Log { limit: self.limit, per: self.per }
    }

    /// Has a permit count as taken now, if it is still held: it lapses a period later.
    ///
    /// It is recorded at the latest tick that was seen, as a charge is, so a clock that has gone
    /// back shortens no lease.
    pub(crate) fn renew(&self, log: &mut Log, now: Tick, mut receipt: Receipt) -> Option<Receipt> {
        self.settle(log, now);
        // What was kept together with others that came later has lapsed by itself all the same.
        if self.per <= now.since(receipt.at) {
            return None;
        }
        receipt.cost = log.events.take_back(receipt.at, receipt.cost, self.per);
        receipt.at = log.events.record(now, receipt.cost, self.per);
        (0 < receipt.cost).then_some(receipt)
    }

    fn leaves_at(&self, passed: Tick) -> Tick {
        passed.after(self.per)
    }

    /// When `excess` cells will have left.
    fn frees_at(&self, log: &Log, excess: u64) -> Tick {
        let mut left = 0;
        for (passed, cells) in log.events.iter() {
            left += u64::from(cells);
            if excess <= left {
                return self.leaves_at(passed);
            }
        }
        unreachable!("once all have left there is room for any cost up to the limit")
    }
}

impl Algorithm for LogLimit {
    type State = Log;

    fn limit(&self) -> u32 {
        self.limit
    }

    fn settle(&self, log: &mut Log, now: Tick) {
        while let Some((passed, cells)) = log.events.oldest()
            && self.per <= now.since(passed)
        {
            log.events.forget_oldest();
            log.used -= cells;
        }
        log.events.advance(now);
    }

    fn judge(&self, log: &Log, now: Tick, cost: u32) -> Verdict {
        if self.limit.checked_sub(log.used).is_some_and(|room| cost <= room) {
            Verdict::Allow
        } else if self.limit < cost {
            Verdict::Never
        } else {
            let excess = u64::from(log.used) + u64::from(cost) - u64::from(self.limit);
            Verdict::Deny { retry_after: self.frees_at(log, excess).since(now) }
        }
    }

    fn charge(&self, log: &mut Log, now: Tick, cost: u32) -> Receipt {
        let at = log.events.record(now, cost, self.per);
        log.used += cost;
        Receipt { at, cost }
    }

    fn report(&self, log: &Log, now: Tick) -> (u32, Span) {
        (self.limit.saturating_sub(log.used), self.forget_at(log).since(now))
    }

    fn lacks(&self, log: &Log, _: Tick) -> u32 {
        log.used
    }

    fn overdrawn(&self, log: &Log, _: Tick) -> u32 {
        log.used.saturating_sub(self.limit)
    }

    fn debit(&self, log: &mut Log, now: Tick, cells: u32) -> Debited {
        let charged = cells.min(u32::MAX - log.used);
        Debited { receipt: self.charge(log, now, charged), forgiven: cells - charged }
    }

    /// The newest stay: what is forgotten instead would have left first.
    fn charge_refusal(&self, log: &mut Log, now: Tick, cells: u32) {
        let over = (u64::from(log.used) + u64::from(cells)).saturating_sub(self.refusals.into());
        let over = u32::try_from(over).unwrap_or(u32::MAX).min(log.used);
        // More than refusals may come to stays, if debits have come to it.
        let over = over.min(cells);
        self.give_back(log, now, over);
        let _ = self.charge(log, now, cells);
    }

    /// A sum that may have been clipped gives nothing back: without what was charged, more would
    /// have been counted since. Where refusals are charged that is never known: others have left.
    fn refund(&self, log: &mut Log, _: Tick, receipt: Receipt) {
        if self.refusals == 0 && log.used < u32::MAX {
            log.used -= log.events.take_back(receipt.at, receipt.cost, self.per);
        }
    }

    fn give_back(&self, log: &mut Log, _: Tick, cells: u32) {
        log.used -= log.events.take_oldest(cells);
    }

    fn forget_at(&self, log: &Log) -> Tick {
        log.events.newest().map_or(Tick::default(), |(passed, _)| self.leaves_at(passed))
    }
}

impl Log {
    /// What still counts, oldest first.
    pub(crate) fn events(&self) -> impl Iterator<Item = (Tick, u32)> {
        self.events.iter()
    }

    /// What the list has seen beside its events; see [`Events::seen`].
    pub(crate) fn seen(&self) -> (Tick, bool) {
        self.events.seen()
    }

    /// The log of `events` that has seen this; `None` if there is no such one.
    pub(crate) fn again(
        seen: (Tick, bool),
        events: impl Iterator<Item = (Tick, u32)>,
    ) -> Option<Log> {
        let mut used = Some(0_u32);
        let counted =
            events.inspect(|(_, cells)| used = used.and_then(|it| it.checked_add(*cells)));
        let events = Events::again(seen, counted)?;
        Some(Log { events, used: used? })
    }

    /// The latest tick of an event, and the sum of all.
    pub(crate) fn gist(&self) -> [u64; 2] {
        let latest = self.events.newest().map_or(0, |(tick, _)| tick.get());
        [latest, self.used.into()]
    }

    /// The log of one event that has this gist.
    pub(crate) fn of_gist([latest, used]: [u64; 2]) -> Log {
        // More than a word's half was never written; a damaged word must not pay.
        let (latest, used) = (Tick::from_micros(latest), u32::try_from(used).unwrap_or(u32::MAX));
        let event = (0 < used).then_some((latest, used));
        Log::again((latest, false), event.into_iter()).unwrap_or_default()
    }

    /// What counts in either; what is in both is the same event, and counts once. `None` if that is
    /// more than a log holds.
    pub(crate) fn either(&self, other: &Log) -> Option<Log> {
        let (mut ours, mut others) = (self.events().peekable(), other.events().peekable());
        let events = core::iter::from_fn(|| match (ours.peek(), others.peek()) {
            (Some(one), Some(two)) if one.0 == two.0 => {
                ours.next().zip(others.next()).map(|(one, two)| (one.0, one.1.max(two.1)))
            }
            (Some(one), Some(two)) if two.0 < one.0 => others.next(),
            (Some(_), _) => ours.next(),
            (None, _) => others.next(),
        });
        let ((seen, merged), (other_seen, other_merged)) = (self.seen(), other.seen());
        Log::again((seen.max(other_seen), merged || other_merged), events)
    }

    /// Bytes held on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.events.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Kind, Policy, Quota, Span, Tick};

    const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

    /// Lists know their events: those that both have are the same ones.
    #[test]
    fn of_two_lists_every_event_counts_once() {
        for kind in [Kind::SlidingLog, Kind::Concurrency] {
            let policy = Policy::new(kind, Quota::per_minute(10)).unwrap();
            let walk = |steps: &[(u32, u32)]| {
                let mut state = policy.fresh();
                for &(seconds, cells) in steps {
                    policy.decide(&mut state, NOW.after(Span::from_secs(seconds)), cells);
                }
                state
            };
            let (a, b) = (walk(&[(1, 2), (3, 1), (9, 1)]), walk(&[(1, 2), (2, 1), (3, 3)]));
            let both = walk(&[(1, 2), (2, 1), (3, 3), (9, 1)]);
            assert_eq!(policy.worse(&a, &b), Some(both.clone()));
            assert_eq!(policy.worse(&b, &a), Some(both.clone()));
            assert_eq!(policy.worse(&both, &policy.fresh()), Some(both));
        }
    }
}
