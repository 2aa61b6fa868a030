//! One round: what came of as many requests as were in flight when it opened.
//!
//! Rounds are whole generations and not spans of time, because requests that started together
//! end together: a span that holds now one of their crowds and now two would measure itself.

use super::estimate::Estimate;
use super::ratio::{Ratio, scaled};
use crate::tick::{Span, Tick};

/// Fractions of a tick in which latencies are measured.
pub(super) const TICK_PARTS: u64 = 256;
/// Fractions of a slot in which limits are learned.
pub(super) const SLOT_PARTS: u64 = 1_024;

/// Fewer answers than this say little about a mean.
pub(super) const ENDED_MIN: u32 = 128;
/// Fewer than this say nothing, even if they take too long.
const OVERDUE_MIN: u32 = 48;
/// A round is at least this long: shorter ones measure the scheduler.
pub(super) const LENGTH_MIN: u64 = 20_000;
/// A round that has not come to an end by then measures a trickle, and is thrown away.
const LENGTH_MAX: u64 = 60_000_000;

/// What has been seen since a round opened.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// Nothing counts before; a change needs one latency to show.
    opens: Tick,
    /// Where the account of time has come to; `None` until something happens after `opens`.
    seen: Option<Tick>,
    /// Slots in flight times ticks.
    area: u64,
    /// Ticks during which the limit was reached.
    full: u64,
    ended: u32,
    served: u32,
    /// The latencies of those served, in ticks.
    latency_sum: u64,
    latency_squares: u128,
    /// How many answers make this round, and how long they take if nothing is queued.
    needed: u32,
    expected: u64,
    base: u64,
}

/// What a round found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Measured {
    /// Slots in use, on average, in parts.
    pub(super) slots: u64,
    /// The mean latency of those served.
    pub(super) mean: Estimate,
    /// Time in flight for each request served, in parts of a tick. Little's law says that this is
    /// the latency, as long as nothing changes; if something does, it shows here before the first
    /// slow request has ended.
    pub(super) pace: u64,
    /// Whether it was the limit that kept the number in flight down, and not the demand.
    pub(super) bound: bool,
}

impl Measured {
    /// The latency for which there are two witnesses: those that ended took so long, and no more
    /// of them ended.
    pub(super) fn least(&self) -> Estimate {
        Estimate { latency: self.mean.latency.min(self.pace), ..self.mean }
    }

    /// Whether fewer in flight than `then` did not make them quicker: then nothing was queued.
    pub(super) fn is_no_quicker(&self, then: Measured) -> bool {
        let latency = self.least().latency;
        let rising = Ratio(3, 2).of(then.mean.latency) < latency;
        if rising || then.slots / 8 * 7 < self.slots {
            // Nothing to compare, or something that is still changing.
            return false;
        }
        let quicker = then.mean.latency.saturating_sub(latency);
        let fewer = then.slots - self.slots;
        // A queue makes latency proportional to the slots; two fifths of that is noise.
        let proportional = scaled(latency, fewer, self.slots.max(1));
        quicker.saturating_mul(5) < proportional.saturating_mul(2)
    }
}

/// How a round is laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The latency with nothing queued, in parts of a tick; zero if unknown.
    pub(super) base: u64,
    /// How many times as many answers as usual.
    pub(super) depth: u32,
}

impl Round {
    /// A round that opens at `opens`.
    pub(super) fn new(opens: Tick) -> Round {
        Round {
            opens,
            seen: None,
            area: 0,
            full: 0,
            ended: 0,
            served: 0,
            latency_sum: 0,
            latency_squares: 0,
            needed: 0,
            expected: 0,
            base: 0,
        }
    }

    /// Accounts for the time up to `now`, in which `in_flight` were under way.
    pub(super) fn pass(&mut self, now: Tick, in_flight: u32, limit: u32, plan: Plan) {
        if now < self.opens {
            return;
        }
        let Some(seen) = self.seen else {
            // A round of nothing would end at once; it waits for the first request.
            if 0 < in_flight {
                self.open(now, in_flight, plan);
            }
            return;
        };
        let passed = now.since(seen).get();
        self.area = self.area.saturating_add(passed.saturating_mul(in_flight.into()));
        if limit <= in_flight {
            self.full = self.full.saturating_add(passed);
        }
        self.seen = Some(seen.max(now));
    }

    fn open(&mut self, now: Tick, in_flight: u32, plan: Plan) {
        let base = (plan.base / TICK_PARTS).max(1);
        let for_length = if plan.base == 0 { 1 } else { LENGTH_MIN.div_ceil(base) };
        let for_count = u64::from((ENDED_MIN * plan.depth).div_ceil(in_flight));
        let generations = for_length.max(for_count).max(plan.depth.into());
        let needed = generations.saturating_mul(in_flight.into());
        self.opens = now;
        self.seen = Some(now);
        self.needed = u32::try_from(needed).unwrap_or(u32::MAX);
        self.expected = generations.saturating_mul(base);
        self.base = base;
    }

    /// Counts one that has ended; `served` says after how long, if it was served.
    pub(super) fn end(&mut self, served: Option<Span>) {
        if self.seen.is_none() {
            return;
        }
        self.ended = self.ended.saturating_add(1);
        if let Some(latency) = served {
            self.served = self.served.saturating_add(1);
            self.latency_sum = self.latency_sum.saturating_add(latency.get());
            let square = u128::from(latency.get()) * u128::from(latency.get());
            self.latency_squares = self.latency_squares.saturating_add(square);
        }
    }

    fn length(&self) -> u64 {
        self.seen.map_or(0, |seen| seen.since(self.opens).get())
    }

    /// Whether it lasts so long that it never ends.
    pub(super) fn is_stale(&self) -> bool {
        LENGTH_MAX.max(self.expected.saturating_mul(8)) < self.length()
    }

    /// What was found, once that is clear.
    pub(super) fn measured(&self, limit: u32, base_known: bool) -> Option<Measured> {
        if self.seen.is_none() || self.served == 0 {
            return None;
        }
        let pace = (self.area.saturating_mul(TICK_PARTS) / u64::from(self.served)).max(1);
        // Requests that started together end together: after two latencies and a half, two crowds
        // of them have ended, and each seems to have taken half as long again. Late is more.
        let crowds = self.length() / self.base.max(1);
        let explained = scaled(self.base * TICK_PARTS, crowds + 1, crowds);
        let late = 2 <= crowds && Ratio(7, 6).of(explained) < pace;
        let overdue = base_known && late && OVERDUE_MIN <= self.ended;
        if self.ended < self.needed && !overdue {
            return None;
        }
        let length = self.length().max(1);
        let slots = self.area.saturating_mul(SLOT_PARTS) / length;
        let latency = self.latency_sum.saturating_mul(TICK_PARTS) / u64::from(self.served);
        // Those of a round that is overdue are the quick ones.
        let latency = if self.ended < self.needed { latency.max(pace) } else { latency };
        let nearly = u64::from(limit) * SLOT_PARTS / 10 * 9;
        let bound = nearly <= slots || length <= self.full.saturating_mul(2);
        let (sum, squares) = (self.latency_sum, self.latency_squares);
        let mean = Estimate::of_samples(latency.max(1), self.served, sum, squares);
        Some(Measured { slots, mean, pace, bound })
    }
}

/// A latency in parts as a span.
pub(super) const fn span_of(latency: u64) -> Span {
    Span::from_micros(latency / TICK_PARTS)
}
