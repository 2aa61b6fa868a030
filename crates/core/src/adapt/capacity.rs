//! Finds how many requests a service can have in flight before they queue up inside it.
//!
//! The limit is a little more than what is delivered times the latency with nothing queued. That
//! latency is measured by draining: a limit a quarter lower, once in a while. As gain times depth
//! of the drain is less than one, a limit that is too high falls even if all that is known was
//! measured under load; so the baseline cannot follow the load.

use super::climb::Climb;
use super::estimate::{DEVIATION_WHOLE, Estimate};
use super::ratio::{Ratio, scaled};
use super::round::{ENDED_MIN, LENGTH_MIN, Measured, SLOT_PARTS, span_of};
use crate::tick::{Span, Tick};

/// The limit is so much above what is delivered: enough to see a queue, too little to feel it.
const GAIN: Ratio = Ratio(33, 32);
/// A drain goes down to this part of the limit.
const DRAIN: Ratio = Ratio(3, 4);
/// Between two drains pass so many times the time that one takes: the cost of knowing.
const DRAIN_EVERY: u64 = 24;
/// Answers of a drain, in usual rounds, if they differ much; else half of it.
const DRAIN_DEPTH: u32 = 4;
/// Answers of a round on which much depends, in usual rounds, if they differ much.
const NOISY_DEPTH: u32 = 2;
/// A round so far above the base is trouble.
const TROUBLE: Ratio = Ratio(1, 3);
/// It does not wait for more than so many latencies to see what came of a change.
const SETTLE_MAX: u64 = 32;
/// The latency may change by 0.7 percent from drain to drain, and by half of that in a round.
const DRIFT_OF_DRAIN: u64 = 49;
const DRIFT_OF_ROUND: u64 = 9;
/// If it was measured with a queue, it was wrong by who knows how much; but a drain is noisy, too.
const DRIFT_OF_QUEUE: u64 = 2_500;

/// What has been learned.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    min: u32,
    max: u32,
    begun: bool,
    /// No step up has failed yet: then the steps are long, and draining can wait.
    rising: bool,
    /// What the limit should be, in parts of a slot.
    level: u64,
    /// The latency with nothing queued.
    base: Option<Estimate>,
    /// The latency at the full limit, since it was last changed by a step.
    usual: Option<Estimate>,
    climb: Climb,
    phase: Phase,
    /// When the last drain ended; `None` if another is due.
    drained_at: Option<Tick>,
    /// The level at the last drain or step: it does not fall far below without another.
    anchor: u64,
}

/// What the present round is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// Follows what is delivered.
    Cruise,
    /// Measures the latency with nothing queued.
    Drain,
    /// Looks what a higher limit does.
    Climb { from: u64 },
    /// One round was bad. Is it more than a hiccup?
    /// A pace below `hiccup` says no.
    Doubt { before: u64, hiccup: u64 },
    /// It was. Does a lower limit help, or is the service just slower?
    Sense { before: u64, then: Measured },
}

/// What to do next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Next {
    /// How long to wait until a change has shown.
    pub(super) settle: Span,
    /// How many times as many answers as usual the next round needs.
    pub(super) depth: u32,
}

impl Capacity {
    pub(super) fn new(min: u32, max: u32, start: u32) -> Capacity {
        Capacity {
            min,
            max,
            begun: false,
            rising: true,
            level: u64::from(start) * SLOT_PARTS,
            base: None,
            usual: None,
            climb: Climb::new(),
            phase: Phase::Cruise,
            drained_at: None,
            anchor: 0,
        }
    }

    pub(super) fn set_bounds(&mut self, min: u32, max: u32) {
        (self.min, self.max) = (min, max);
        self.level = self.bounded(self.level);
        self.anchor = self.bounded(self.anchor);
        // What was being tried was tried within other bounds.
        self.phase = Phase::Cruise;
    }

    /// The limit for the present round.
    pub(super) fn limit(&self) -> u32 {
        let cruise = self.whole(self.level);
        match self.phase {
            Phase::Drain => self.whole(DRAIN.of(self.level)).min(cruise - 1).max(self.min),
            _ => cruise,
        }
    }

    /// The latency with nothing queued, in parts of a tick; zero while unknown.
    pub(super) fn base(&self) -> u64 {
        self.base.map_or(0, |base| base.latency)
    }

    /// Learns from a round. `held` says that a brake keeps the limit below what was learned: then
    /// nothing is tried, and less is not taken for all there is.
    pub(super) fn learn(&mut self, found: Measured, now: Tick, held: bool) -> Next {
        let limit = self.limit();
        if !self.begun {
            // The first requests found an empty service, and say nothing about a full one.
            self.begun = true;
            return Next { settle: span_of(found.mean.latency), depth: NOISY_DEPTH };
        }
        let base = *self.base.get_or_insert(found.mean);
        match self.phase {
            Phase::Drain => self.drained(found, base, now),
            Phase::Cruise => self.cruise(found, base, now, held),
            Phase::Climb { from } => self.climbed(found, base, from),
            Phase::Doubt { before, hiccup } => self.doubt(found, base, (before, hiccup)),
            Phase::Sense { before, then } => self.sense(found, base, (before, then)),
        }
        self.next(limit, found)
    }

    /// Goes back to where nothing is under way: the round told nothing.
    pub(super) fn give_up(&mut self) {
        if let Phase::Climb { from } = self.phase {
            self.level = from;
        }
        self.phase = Phase::Cruise;
    }

    fn next(&mut self, limit: u32, found: Measured) -> Next {
        let changed = limit.abs_diff(self.limit());
        // In doubt, haste: a service that is overrun delivers all it can, whatever the limit.
        let haste = matches!(self.phase, Phase::Doubt { .. });
        let settled = haste || changed <= limit / 32;
        // A pause of the service is in the latency, but need not be waited for again; a queue does
        // have to drain before a lower limit shows.
        let latency = match self.phase {
            Phase::Sense { .. } => found.pace.min(self.base().saturating_mul(SETTLE_MAX)),
            _ => found.mean.latency.min(self.base().saturating_mul(3)),
        };
        let settle = if settled { Span::ZERO } else { span_of(latency) };
        let noise = 100 * found.mean.variance.isqrt() / DEVIATION_WHOLE;
        let depth = match self.phase {
            Phase::Drain if 4 <= noise => DRAIN_DEPTH,
            Phase::Drain => DRAIN_DEPTH / 2,
            Phase::Doubt { .. } | Phase::Climb { .. } if 7 <= noise => NOISY_DEPTH,
            _ => 1,
        };
        Next { settle, depth }
    }

    fn cruise(&mut self, found: Measured, base: Estimate, now: Tick, held: bool) {
        if base.is_below(found.least(), 4, TROUBLE) {
            return self.trouble(found);
        }
        if !found.bound || held {
            // Low demand says nothing about capacity, but it is as good as a drain.
            if found.slots <= DRAIN.of(self.level) {
                self.learn_base(found.mean, DRIFT_OF_ROUND);
            }
            return;
        }
        match &mut self.usual {
            Some(usual) => usual.hear(found.mean, DRIFT_OF_ROUND),
            None => self.usual = Some(found.mean),
        }
        self.follow(base);
        if !self.rising && self.is_drain_due(base, now) {
            self.phase = Phase::Drain;
        } else if self.rising || (self.climb.is_due() && !self.is_above_meant(base)) {
            self.step_up(found);
        }
    }

    /// Whether so much time has passed since the last drain that another costs little.
    fn is_drain_due(&self, base: Estimate, now: Tick) -> bool {
        let generations = DRAIN_DEPTH.max((DRAIN_DEPTH * ENDED_MIN).div_ceil(self.limit()));
        let latency = span_of(base.latency).get();
        let takes = latency.saturating_mul(generations.into()).max(LENGTH_MIN) + latency;
        let every = Span::from_micros(takes.saturating_mul(DRAIN_EVERY));
        self.drained_at.is_none_or(|at| every < now.since(at))
    }

    fn is_above_meant(&self, base: Estimate) -> bool {
        let meant = Estimate { latency: GAIN.of(base.latency), ..base };
        self.usual.is_some_and(|usual| meant.is_below(usual, 1, Ratio(0, 1)))
    }

    /// Lowers the level to a little above what is delivered without a queue, if it is sure that
    /// there is one. Never raises it: a base a little too low would be a slow way to nothing.
    fn follow(&mut self, base: Estimate) {
        if !self.is_above_meant(base) {
            return;
        }
        let lowest = Ratio(7, 8).of(self.anchor).max(u64::from(self.min) * SLOT_PARTS);
        if self.level <= lowest {
            // Before it goes further: was it a queue, or is the base wrong?
            self.drained_at = None;
            return;
        }
        let Some(usual) = &mut self.usual else { return };
        let level = scaled(self.level, GAIN.of(base.latency), usual.latency);
        let level = level.clamp(lowest, self.level);
        // What the latency will be at the lower limit, should it have been a queue; if so.
        let fell = scaled(DEVIATION_WHOLE, self.level - level, self.level);
        usual.latency = scaled(usual.latency, level, self.level).max(base.latency);
        usual.variance += fell * fell;
        self.level = level;
    }

    /// A step that can be told from noise: three times as large, but at most a half.
    fn step_up(&mut self, found: Measured) {
        let noise = found.mean.variance.isqrt();
        let step = scaled(self.level, noise * 3, DEVIATION_WHOLE);
        let step = if self.rising { u64::MAX } else { step.max(self.climb.stride(self.level)) };
        let step = step.min(self.level / 2).max(SLOT_PARTS);
        self.phase = Phase::Climb { from: self.level };
        self.level = self.bounded(self.level + step);
    }

    /// After a step up: kept if the latency did not follow at least half of it.
    fn climbed(&mut self, found: Measured, base: Estimate, from: u64) {
        self.phase = Phase::Cruise;
        let half = (self.level - from) / 2;
        let queued = base.is_below(found.mean, 2, Ratio(half, from));
        self.rising &= found.bound && !queued && self.level < self.top();
        if !found.bound {
            self.level = from;
            self.climb.failed();
        } else if queued {
            // What it delivers now is all it can, so this is a measurement, too; if a rough one.
            let target = self.target(found, found.mean.latency).clamp(from, self.level);
            self.level = from + (target - from) / 4;
            self.climb.failed();
        } else {
            // What was usual before cannot have been a queue.
            if let Some(usual) = self.usual.replace(found.mean) {
                self.learn_base(usual, 0);
            }
            self.anchor = self.level;
            self.climb.succeeded();
            if self.level < self.top() {
                self.step_up(found);
            }
        }
    }

    /// A bad round: a little less, and look again.
    fn trouble(&mut self, found: Measured) {
        self.rising = false;
        // Four fifths would be explained by the lower limit.
        let hiccup = Ratio(2, 3).of(found.pace);
        self.phase = Phase::Doubt { before: self.level, hiccup };
        let used = if found.bound { self.level } else { self.level.min(found.slots) };
        self.level = self.bounded(used / 5 * 4);
    }

    fn doubt(&mut self, found: Measured, base: Estimate, then: (u64, u64)) {
        let (before, hiccup) = then;
        let pace = Estimate { latency: found.pace, ..found.mean };
        if !base.is_below(pace, 2, Ratio(1, 6)) {
            // Quicker by far more than the lower limit explains: a hiccup, as a pause of the
            // service, from which there is nothing to be learned. Else going back will tell.
            self.phase = Phase::Cruise;
            if hiccup <= found.pace {
                self.phase = Phase::Climb { from: self.level };
                self.climb.renew();
            }
            self.usual = None;
            self.level = before;
            return;
        }
        self.level = self.target(found, found.pace).clamp(self.level / 2, self.level);
        self.level = self.bounded(self.level);
        // Requests that have ended by now started before: the pace tells what they will find.
        self.phase = Phase::Sense { before, then: Measured { mean: pace, ..found } };
    }

    fn sense(&mut self, found: Measured, base: Estimate, then: (u64, Measured)) {
        let (before, then) = then;
        let least = found.least();
        let slower = found.is_no_quicker(then) && base.is_below(least, 1, Ratio(1, 8));
        // Noise may hide that it is not, so this comes second.
        let over = !slower && !base.is_below(found.mean, 4, TROUBLE);
        if over || slower || self.limit() <= self.min {
            self.phase = Phase::Cruise;
            self.usual = Some(found.mean);
            self.climb.renew();
            self.anchor = self.level;
            if !over {
                // Fewer in flight are no quicker, or cannot be had: this is how long it takes now.
                self.base = Some(found.mean);
                self.level = if slower { before } else { self.level };
                self.drained_at = None;
            }
            return;
        }
        let lowest = self.level / 4 * 3;
        self.level = self.target(found, found.mean.latency).clamp(lowest, self.level);
        self.level = self.bounded(self.level);
        self.phase = Phase::Sense { before, then: found };
    }

    fn drained(&mut self, found: Measured, base: Estimate, now: Tick) {
        self.drained_at = Some(now);
        // A queue is what is gone when fewer are in flight, and what no noise explains.
        let queued = self.usual.is_some_and(|usual| found.mean.is_below(usual, 1, Ratio(1, 8)));
        if queued {
            // As long as there is a queue, draining it costs nothing.
            self.drained_at = None;
            if found.mean.latency < base.latency {
                self.learn_base(found.mean, DRIFT_OF_QUEUE);
            }
        } else if self.is_stale(found, base) {
            self.base = Some(found.mean);
            self.climb.renew();
        } else if base.is_below(found.mean, 2, Ratio(1, 6)) {
            // With fewer in flight it should not take longer.
            self.phase = Phase::Doubt { before: self.level, hiccup: u64::MAX };
            self.anchor = self.level;
            self.level = self.bounded(DRAIN.of(self.level));
            return;
        } else {
            self.learn_base(found.mean, DRIFT_OF_DRAIN);
            // With fewer in flight it cannot take longer: the usual is an upper bound of the base.
            let lower = self.usual.filter(|usual| usual.latency < self.base());
            if let Some(usual) = lower {
                self.learn_base(usual, 0);
            }
        }
        // A level that fell because the base was too low comes back with it.
        let risen = scaled(self.level, self.base(), base.latency).min(self.anchor);
        self.level = self.level.max(risen);
        self.anchor = self.level;
        self.phase = Phase::Cruise;
    }

    /// Whether it takes longer than it once did, and a drain does not change that.
    fn is_stale(&self, found: Measured, base: Estimate) -> bool {
        self.usual.is_some_and(|usual| {
            let longer = Ratio(13, 12).of(base.latency) < usual.latency;
            longer && Ratio(15, 16).of(usual.latency) < found.mean.latency
        })
    }

    fn learn_base(&mut self, found: Estimate, drift: u64) {
        if let Some(base) = &mut self.base {
            base.hear(found, drift);
        }
    }

    /// The limit at which what was delivered at `latency` leaves a little room, and no queue.
    fn target(&self, found: Measured, latency: u64) -> u64 {
        let slots = if found.bound { found.slots.max(self.level) } else { found.slots };
        GAIN.of(scaled(slots, self.base(), latency))
    }

    fn top(&self) -> u64 {
        u64::from(self.max) * SLOT_PARTS
    }

    fn bounded(&self, level: u64) -> u64 {
        level.clamp(u64::from(self.min) * SLOT_PARTS, self.top())
    }

    fn whole(&self, level: u64) -> u32 {
        let slots = u32::try_from(level / SLOT_PARTS).unwrap_or(u32::MAX);
        slots.clamp(self.min, self.max)
    }
}
