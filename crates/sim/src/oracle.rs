//! Naive models of the algorithms: the specification, slowly.
//!
//! An oracle keeps the whole history and works everything out from it again for every question.
//! It can only say whether a request would pass at some tick; that is enough to check every number
//! of a decision, since each of them is a promise about what would pass when.

use tidegate_core::{Decision, Kind, Quota, Span, Tick, Verdict};

/// The history of one key under one policy.
#[derive(Clone, Debug)]
pub struct Oracle {
    kind: Kind,
    /// Cells per period, and the period, as they were asked for: nothing is reduced here.
    cells: u128,
    per: u128,
    limit: u32,
    history: Vec<Event>,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    at: u128,
    cells: u128,
    what: What,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum What {
    Charge,
    Refund,
}

impl Oracle {
    /// A key that nobody has asked about.
    pub fn new(kind: Kind, quota: Quota) -> Oracle {
        let limit = match quota.burst_asked() {
            Some(burst) if kind.has_burst() => burst,
            _ => quota.cells(),
        };
        let (cells, per) = (quota.cells().into(), quota.per().get().into());
        Oracle { kind, cells, per, limit, history: Vec::new() }
    }

    /// The most that can pass at once.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Whether `cost` cells would pass at `at`, if nothing else happened before.
    pub fn would_pass(&self, at: Tick, cost: u32) -> bool {
        let (now, cost) = (u128::from(at.get()), u128::from(cost));
        if cost == 0 {
            return true;
        }
        let limit = u128::from(self.limit);
        match self.kind {
            Kind::TokenBucket => cost * self.per <= self.tokens(now),
            Kind::Gcra => {
                let arrival = self.arrival(now).max(now * self.cells) + cost * self.per;
                arrival - now * self.cells <= limit * self.per
            }
            Kind::LeakyBucket | Kind::LeakyQueue => {
                self.level(now) + cost * self.per <= limit * self.per
            }
            Kind::FixedWindow => self.in_window(now / self.per) + cost <= limit,
            Kind::SlidingWindow => {
                let (window, into) = (now / self.per, now % self.per);
                let last = window.checked_sub(1).map_or(0, |window| self.in_window(window));
                last * (self.per - into) / self.per + self.in_window(window) + cost <= limit
            }
            Kind::SlidingLog | Kind::Concurrency => {
                let counts = |event: &&Event| now < event.at + self.per;
                self.history.iter().filter(counts).map(|event| event.cells).sum::<u128>() + cost
                    <= limit
            }
        }
    }

    /// How long a request would be held at `at`: until the queue before it has drained.
    pub fn delay(&self, at: Tick) -> Span {
        if self.kind != Kind::LeakyQueue {
            return Span::ZERO;
        }
        let ticks = self.level(at.get().into()).div_ceil(self.cells);
        Span::from_micros(u64::try_from(ticks).unwrap_or(u64::MAX))
    }

    /// Takes `cost` cells.
    pub fn charge(&mut self, at: Tick, cost: u32) {
        self.history.push(Event { at: at.get().into(), cells: cost.into(), what: What::Charge });
    }

    /// Gives back up to `cost` cells that were charged at `charged_at`; a queue's last slot, if it
    /// ends then.
    pub fn refund(&mut self, now: Tick, charged_at: Tick, cost: u32) {
        if self.kind == Kind::LeakyQueue && now.after(self.delay(now)) != charged_at {
            return;
        }
        if self.kind.has_burst() {
            let (at, cells) = (now.get().into(), cost.into());
            return self.history.push(Event { at, cells, what: What::Refund });
        }
        // Everything else is a sum over what was charged when: as if it had not been.
        let mut left = u128::from(cost);
        for event in self.history.iter_mut().filter(|it| it.at == u128::from(charged_at.get())) {
            let back = left.min(event.cells);
            event.cells -= back;
            left -= back;
        }
    }

    /// Checks every promise that `decision` makes about a request of `cost` at `now`.
    ///
    /// Call it before [`Oracle::charge`]; what passed is charged to a copy to check the rest.
    pub fn check(&self, decision: Decision, now: Tick, cost: u32) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("{what}: {decision:?} at {now:?} for {cost}"));
        if decision.limit != self.limit {
            return wrong("another limit");
        }
        match decision.verdict {
            Verdict::Allow if !self.would_pass(now, cost) => return wrong("passed too much"),
            Verdict::Allow if 0 < cost && self.delay(now) != Span::ZERO => {
                return wrong("passed too soon");
            }
            Verdict::Delay { by } if !self.would_pass(now, cost) || by != self.delay(now) => {
                return wrong("held for another time");
            }
            Verdict::Delay { by: Span::ZERO } => return wrong("held for nothing"),
            Verdict::Deny { retry_after } if !self.first_at(now, retry_after, cost) => {
                return wrong("not exactly then");
            }
            Verdict::Deny { .. } if self.would_pass(now, cost) => return wrong("refused"),
            Verdict::Never if cost <= self.limit => return wrong("could pass some day"),
            Verdict::Deny { .. } if self.limit < cost => return wrong("could never pass"),
            _ => {}
        }
        let mut after = self.clone();
        if decision.verdict.passes() {
            after.charge(now, cost);
        }
        if !after.would_pass(now, decision.remaining) {
            return wrong("fewer remain");
        }
        if decision.remaining < self.limit && after.would_pass(now, decision.remaining + 1) {
            return wrong("more remain");
        }
        if !after.first_at(now, decision.reset_after, self.limit) {
            return wrong("not reset exactly then");
        }
        Ok(())
    }

    /// Whether `cost` passes `wait` after `now`, and not one tick sooner.
    fn first_at(&self, now: Tick, wait: Span, cost: u32) -> bool {
        let Some(then) = now.get().checked_add(wait.get()) else {
            return true; // Beyond every clock: there is no such tick to ask about.
        };
        if Tick::MAX.get() < then {
            return !self.would_pass(Tick::MAX, cost);
        }
        let passes = |at| self.would_pass(Tick::from_micros(at), cost);
        passes(then) && (wait == Span::ZERO || !passes(then - 1))
    }

    /// What is in a token bucket, a period's ticks to the cell.
    fn tokens(&self, now: u128) -> u128 {
        let full = u128::from(self.limit) * self.per;
        let (mut tokens, mut last) = (full, 0);
        for event in &self.history {
            tokens = full.min(tokens + (event.at - last) * self.cells);
            last = event.at;
            tokens = match event.what {
                What::Charge => tokens - event.cells * self.per,
                What::Refund => full.min(tokens + event.cells * self.per),
            };
        }
        full.min(tokens + (now - last) * self.cells)
    }

    /// The theoretical arrival time, a period's cells to the tick.
    fn arrival(&self, now: u128) -> u128 {
        let mut arrival = 0;
        for event in &self.history {
            let here = event.at * self.cells;
            arrival = match event.what {
                What::Charge => here.max(arrival) + event.cells * self.per,
                What::Refund => here.max(arrival.saturating_sub(event.cells * self.per)),
            };
        }
        arrival.max(now * self.cells)
    }

    /// What is in a leaky bucket, a period's ticks to the cell.
    fn level(&self, now: u128) -> u128 {
        let (mut level, mut last) = (0_u128, 0);
        for event in &self.history {
            level = level.saturating_sub((event.at - last) * self.cells);
            last = event.at;
            level = match event.what {
                What::Charge => level + event.cells * self.per,
                What::Refund => level.saturating_sub(event.cells * self.per),
            };
        }
        level.saturating_sub((now - last) * self.cells)
    }

    fn in_window(&self, window: u128) -> u128 {
        let inside = |event: &&Event| event.at / self.per == window;
        self.history.iter().filter(inside).map(|event| event.cells).sum()
    }
}
