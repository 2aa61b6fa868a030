//! Finds how many requests a service can have in flight before they queue up inside it.
//!
//! The limit is a little more than what is delivered times the latency with nothing queued. That
//! latency is measured by draining: a limit a fifth lower, once in a while. As gain times depth
//! of the drain is less than one, a limit that is too high falls even if all that is known was
//! measured under load; so the baseline cannot follow the load.

use super::round::{Measured, SLOT_PARTS, span_of};
use crate::tick::{Span, Tick};

/// The limit is so much above what is delivered: enough to grow, too little to queue.
const GAIN: Ratio = Ratio(17, 16);
/// A drain goes down to this part of the limit.
const DRAIN: Ratio = Ratio(13, 16);
/// Between two drains pass so many times the time that one takes: the cost of knowing.
const DRAIN_EVERY: u64 = 16;
/// After one that found a queue, the next comes sooner.
const DRAIN_SOON: u64 = 2;
/// A latency so far above the base is trouble.
const TROUBLE: Ratio = Ratio(4, 3);
/// A latency so near to the base is none.
const CALM: Ratio = Ratio(33, 32);
/// Calm rounds before the limit is tried higher.
const PATIENCE_MIN: u8 = 3;
/// The same after many tries in vain.
const PATIENCE_MAX: u8 = 48;
/// The first step of a climb is this part of the limit; steps double up to a half.
const CLIMB_FIRST: u32 = 4;

/// What has been learned.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    min: u32,
    max: u32,
    /// What the limit should be, in parts of a slot.
    level: u64,
    /// The latency with nothing queued, in parts of a tick; zero while unknown.
    base: u64,
    /// The latency of the last round at the full limit.
    usual: u64,
    phase: Phase,
    climb: Climb,
    drain_began: Tick,
    drain_at: Tick,
}

/// What the present round is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// Follows what is delivered.
    Cruise,
    /// Measures the latency with nothing queued.
    Drain,
    /// One round was bad. Is it more than a hiccup?
    Doubt { before: u64 },
    /// It was. Does a lower limit help, or is the service just slower?
    Sense { before: u64, then: Measured },
}

/// Trying higher limits: ever longer steps while nothing queues.
#[derive(Clone, Copy, Debug)]
struct Climb {
    calm: u8,
    patience: u8,
    steps: u32,
    /// The level before the last step, until it is known what came of it.
    from: Option<u64>,
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
    pub(super) fn new(min: u32, max: u32, start: u32, now: Tick) -> Capacity {
        let climb = Climb { calm: 0, patience: PATIENCE_MIN, steps: 0, from: None };
        Capacity {
            min,
            max,
            level: u64::from(start) * SLOT_PARTS,
            base: 0,
            usual: 0,
            phase: Phase::Cruise,
            climb,
            drain_began: now,
            drain_at: now,
        }
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
        self.base
    }

    /// Learns from a round. `held` says that a brake keeps the limit below what was learned: then
    /// nothing is tried, and less is not taken for all there is.
    pub(super) fn learn(&mut self, found: Measured, now: Tick, held: bool) -> Next {
        let limit = self.limit();
        if self.base == 0 {
            self.base = found.latency;
        }
        match self.phase {
            Phase::Drain => self.learn_base(found, now),
            Phase::Cruise => self.cruise(found, now, held),
            Phase::Doubt { before } => self.doubt(found, before),
            Phase::Sense { before, then } => self.sense(found, before, then, now),
        }
        self.next(limit, found)
    }

    /// Goes back to where nothing is under way: the round told nothing.
    pub(super) fn give_up(&mut self) {
        self.phase = Phase::Cruise;
        self.climb.fail();
    }

    fn next(&self, limit: u32, found: Measured) -> Next {
        let changed = limit.abs_diff(self.limit());
        // In doubt, haste: a service that is overrun delivers all it can, whatever the limit.
        let haste = matches!(self.phase, Phase::Doubt { .. });
        let settled = haste || changed <= limit / 32;
        let settle = if settled { Span::ZERO } else { span_of(found.latency) };
        let depth = if self.phase == Phase::Drain { 4 } else { 1 };
        Next { settle, depth }
    }

    fn cruise(&mut self, found: Measured, now: Tick, held: bool) {
        if TROUBLE.of(self.base) < found.latency {
            return self.trouble(found);
        }
        if !found.bound || held {
            // Low demand says nothing about capacity, but it is as good as a drain.
            if found.slots <= DRAIN.of(self.level) {
                self.base = toward(self.base, found.latency, 16);
            }
            return self.climb.rest();
        }
        self.usual = if self.usual == 0 { found.latency } else { toward(self.usual, found.latency, 4) };
        self.level = self.bounded(toward(self.level, self.target(found), 4));
        let queued = CALM.of(self.base) < found.latency;
        let tried = self.climb.step(self.level, queued);
        self.level = self.bounded(tried);
        if self.drain_at <= now {
            self.phase = Phase::Drain;
            self.drain_began = now;
        }
    }

    /// A bad round: after a step up, the step is taken back; else a little less, and look again.
    fn trouble(&mut self, found: Measured) {
        if let Some(from) = self.climb.from {
            self.level = from;
            return self.climb.fail();
        }
        self.climb.fail();
        self.phase = Phase::Doubt { before: self.level };
        let used = if found.bound { self.level } else { self.level.min(found.slots) };
        self.level = self.bounded(used / 5 * 4);
    }

    fn doubt(&mut self, found: Measured, before: u64) {
        if found.latency <= Ratio(7, 6).of(self.base) {
            // Only a hiccup, as a pause of the service: nothing to be learned from it.
            self.level = before;
            self.phase = Phase::Cruise;
            return;
        }
        self.level = self.bounded(self.target(found).clamp(self.level / 2, self.level));
        self.phase = Phase::Sense { before, then: found };
    }

    fn sense(&mut self, found: Measured, before: u64, then: Measured, now: Tick) {
        if found.latency <= TROUBLE.of(self.base) {
            self.phase = Phase::Cruise;
            return;
        }
        if self.limit() <= self.min {
            // There is no lower limit to compare with.
            self.base = toward(self.base, found.latency, 2);
            self.phase = Phase::Cruise;
            return;
        }
        if is_insensitive(found, then) {
            self.base = found.latency;
            self.level = before;
            self.phase = Phase::Cruise;
            self.drain_at = now;
            return;
        }
        let lowest = self.level / 4 * 3;
        self.level = self.bounded(self.target(found).clamp(lowest, self.level));
        self.phase = Phase::Sense { before, then: found };
    }

    fn learn_base(&mut self, found: Measured, now: Tick) {
        let took = now.since(self.drain_began).get();
        let mut every = DRAIN_EVERY;
        if found.latency <= TROUBLE.of(self.base) {
            let queued = found.bound && found.latency <= Ratio(9, 10).of(self.usual);
            if queued {
                every = DRAIN_SOON;
            }
            if found.latency < self.base || found.bound {
                self.base = toward(self.base, found.latency, if queued { 2 } else { 4 });
            }
        }
        self.phase = Phase::Cruise;
        self.drain_at = now.after(Span::from_micros(took.saturating_mul(every)));
    }

    /// The limit at which what was delivered leaves a little room, and no queue.
    fn target(&self, found: Measured) -> u64 {
        // The level and not the limit: below it by a part of a slot, small ones would never grow.
        let slots = if found.bound { found.slots.max(self.level) } else { found.slots };
        GAIN.of(scaled(slots, self.base, found.latency))
    }

    fn bounded(&self, level: u64) -> u64 {
        level.clamp(u64::from(self.min) * SLOT_PARTS, u64::from(self.max) * SLOT_PARTS)
    }

    fn whole(&self, level: u64) -> u32 {
        let slots = u32::try_from(level / SLOT_PARTS).unwrap_or(u32::MAX);
        slots.clamp(self.min, self.max)
    }
}

impl Climb {
    /// The next level to try: `level` itself unless it has been calm for long enough.
    fn step(&mut self, level: u64, queued: bool) -> u64 {
        if queued {
            if self.from.is_some() {
                self.fail();
            }
            self.rest();
            return level;
        }
        if self.from.take().is_some() {
            self.patience = PATIENCE_MIN;
        }
        self.calm = self.calm.saturating_add(1).min(self.patience);
        if self.calm < self.patience {
            return level;
        }
        let step = (level >> (CLIMB_FIRST - self.steps.min(CLIMB_FIRST - 1))).max(SLOT_PARTS);
        self.from = Some(level);
        self.steps += 1;
        level.saturating_add(step)
    }

    /// Neither up nor down.
    fn rest(&mut self) {
        self.calm = 0;
        self.steps = 0;
        self.from = None;
    }

    fn fail(&mut self) {
        if self.from.is_some() {
            self.patience = self.patience.saturating_mul(2).min(PATIENCE_MAX);
        }
        self.rest();
    }
}

/// Whether fewer in flight did not make them quicker: then nothing was queued.
fn is_insensitive(found: Measured, then: Measured) -> bool {
    if then.slots / 8 * 7 < found.slots {
        return false;
    }
    let quicker = then.latency.saturating_sub(found.latency);
    let fewer = then.slots - found.slots;
    // A queue makes latency proportional to the slots; two fifths of that is noise.
    let proportional = scaled(found.latency, fewer, found.slots.max(1));
    quicker.saturating_mul(5) < proportional.saturating_mul(2)
}

/// A fixed factor.
#[derive(Clone, Copy, Debug)]
struct Ratio(u64, u64);

impl Ratio {
    fn of(self, amount: u64) -> u64 {
        scaled(amount, self.0, self.1)
    }
}

/// `amount × numerator ÷ denominator`, rounded down, as far as it fits.
fn scaled(amount: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(amount) * u128::from(numerator) / u128::from(denominator.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}

/// One part in `parts` of the way from `from` to `to`.
fn toward(from: u64, to: u64, parts: u64) -> u64 {
    if from <= to { from + (to - from) / parts } else { from - (from - to) / parts }
}
