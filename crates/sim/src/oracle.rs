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
    /// By how many ticks' worth debits may overdraw a bucket.
    overdraft: u128,
    /// The most that the count of a window or a log holds.
    count_max: u128,
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
    /// Charged in full, as far as a state remembers.
    Debit,
    /// As far as anything is owed.
    GiveBack,
    /// As far as time has not paid since what was charged then.
    Refund {
        charged_at: u128,
    },
}

/// The latest tick that a state may be overdrawn until, but for a tick's worth.
const PAID_BY: u128 = (1 << 52) - 1;

impl Oracle {
    /// A key that nobody has asked about.
    pub fn new(kind: Kind, quota: Quota) -> Oracle {
        let limit = match quota.burst_asked() {
            Some(burst) if kind.has_burst() => burst,
            _ => quota.cells(),
        };
        let (cells, per) = (quota.cells().into(), quota.per().get().into());
        let (overdraft, count_max, history) = (0, u32::MAX.into(), Vec::new());
        let oracle = Oracle { kind, cells, per, limit, overdraft, count_max, history };
        oracle.overdraft(Some(limit))
    }

    /// The oracle, but debited with what it refuses: until it is overdrawn by a limit.
    #[must_use]
    pub fn refusals(self) -> Oracle {
        Oracle { count_max: 2 * u128::from(self.limit), ..self }
    }

    /// The oracle, but its debits may overdraw it by `cells`, or by all that a state can hold.
    #[must_use]
    pub fn overdraft(self, cells: Option<u32>) -> Oracle {
        let ticks = |cells: u32| (u128::from(cells) * self.per).div_ceil(self.cells);
        let overdraft = cells.map_or(PAID_BY, ticks).clamp(1, PAID_BY);
        Oracle { overdraft, ..self }
    }

    /// The most that can pass at once.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Whether `cost` cells would pass at `at`, if nothing else happened before.
    pub fn would_pass(&self, at: Tick, cost: u32) -> bool {
        let (now, cost) = (u128::from(at.get()), u128::from(cost));
        let limit = u128::from(self.limit);
        match self.kind {
            Kind::TokenBucket => signed(cost * self.per) <= self.tokens(now),
            Kind::Gcra => {
                let arrival = self.arrival(now).max(now * self.cells) + cost * self.per;
                arrival - now * self.cells <= limit * self.per
            }
            Kind::LeakyBucket | Kind::LeakyQueue => {
                self.level(now) + cost * self.per <= limit * self.per
            }
            _ => self.counted(now) + cost <= limit,
        }
    }

    /// By how many cells the limit is overdrawn at `at`, rounded up.
    pub fn overdrawn(&self, at: Tick) -> u128 {
        let (now, limit) = (u128::from(at.get()), u128::from(self.limit));
        if self.kind.has_burst() {
            return self.level(now).saturating_sub(limit * self.per).div_ceil(self.per);
        }
        self.counted(now).saturating_sub(limit)
    }

    /// What a window or a log counts at `now`.
    fn counted(&self, now: u128) -> u128 {
        match self.kind {
            Kind::FixedWindow => self.in_window(now / self.per),
            Kind::SlidingWindow => {
                let (window, into) = (now / self.per, now % self.per);
                let last = window.checked_sub(1).map_or(0, |window| self.in_window(window));
                last * (self.per - into) / self.per + self.in_window(window)
            }
            _ => {
                let counts = |event: &&Event| now < event.at + self.per;
                let sum: u128 = self.history.iter().filter(counts).map(|event| event.cells).sum();
                sum.min(self.count_max)
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
        self.add(at, cost, What::Charge);
    }

    /// Takes `cells` for work that is done, whatever the limit says.
    pub fn debit(&mut self, at: Tick, cells: u32) {
        let counted = if self.kind.has_burst() { 0 } else { self.count(at) };
        let room = self.count_max.saturating_sub(counted);
        self.add(at, u32::try_from(room).unwrap_or(u32::MAX).min(cells), What::Debit);
    }

    /// Takes `cells` for what was refused, as an oracle of [`Oracle::refusals`]. A log keeps the
    /// newest, which is as if it had kept all and counted up to the end.
    pub fn refuse(&mut self, at: Tick, cells: u32) {
        if self.kind == Kind::SlidingLog {
            self.add(at, cells, What::Debit);
        } else {
            self.debit(at, cells);
        }
    }

    /// How much has happened to it: the place of what happens next, for [`Oracle::as_if`].
    pub fn moment(&self) -> usize {
        self.history.len()
    }

    /// As if so many cells had been charged at an earlier moment: what it would be by now.
    pub fn as_if(&mut self, moment: usize, cells: u32) {
        self.history[moment].cells = cells.into();
    }

    /// Gives back up to `cost` cells that were charged at `charged_at`; a queue's last slot, if it
    /// ends then.
    pub fn refund(&mut self, now: Tick, charged_at: Tick, cost: u32) {
        if self.kind == Kind::LeakyQueue {
            if now.after(self.delay(now)) == charged_at {
                self.add(now, cost, What::GiveBack);
            }
        } else if self.kind.has_burst() {
            let charged_at = charged_at.get().into();
            self.add(now, cost, What::Refund { charged_at });
        } else if self.count(if self.kind == Kind::SlidingLog { now } else { charged_at })
            < self.count_max
        {
            // Everything else is a sum over what was charged when: as if it had not been. One that
            // has come to its end may have been more.
            self.take(cost, |event, _| event.at == u128::from(charged_at.get()));
        }
    }

    /// Gives back up to `cells`, no matter which request was charged for them.
    pub fn give_back(&mut self, now: Tick, cells: u32) {
        let at = u128::from(now.get());
        match self.kind {
            Kind::LeakyQueue | Kind::Concurrency => {}
            Kind::SlidingLog => self.take(cells, |event, per| at < event.at + per),
            Kind::FixedWindow | Kind::SlidingWindow => {
                self.take(cells, |event, per| event.at / per == at / per);
            }
            _ => self.add(now, cells, What::GiveBack),
        }
    }

    /// What the one number holds that a debit at `at` adds to.
    fn count(&self, at: Tick) -> u128 {
        let now = u128::from(at.get());
        match self.kind {
            Kind::FixedWindow | Kind::SlidingWindow => self.in_window(now / self.per),
            _ => self.counted(now),
        }
    }

    fn add(&mut self, at: Tick, cells: u32, what: What) {
        self.history.push(Event { at: at.get().into(), cells: cells.into(), what });
    }

    /// Takes up to `cells` out of events, the oldest first.
    fn take(&mut self, cells: u32, is_it: impl Fn(&Event, u128) -> bool) {
        let (mut left, per) = (u128::from(cells), self.per);
        for event in self.history.iter_mut().filter(|event| is_it(event, per)) {
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
        if 0 < after.overdrawn(now) {
            if 0 < decision.remaining {
                return wrong("some remain of what is overdrawn");
            }
        } else if !after.would_pass(now, decision.remaining) {
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

    /// The most that a debit at `at` leaves owed, a period's ticks to the cell.
    fn most(&self, at: u128) -> u128 {
        let full = u128::from(self.limit) * self.per;
        let latest = (PAID_BY.saturating_sub(at) * self.cells).max(full + self.cells);
        (full + self.overdraft * self.cells).min(latest)
    }

    /// What `event` takes from a level, and what it may leave at most; or what it gives back.
    fn step(&self, level: u128, event: &Event) -> u128 {
        let cells = event.cells * self.per;
        match event.what {
            What::Charge => level + cells,
            What::Debit => (level + cells).min(self.most(event.at).max(level)),
            What::GiveBack => level.saturating_sub(cells),
            What::Refund { charged_at } => {
                // Where a debit may have been clipped since, nothing is known to be left of it.
                let clipped = charged_at * self.cells + self.most(charged_at);
                let paid = event.at.saturating_sub(charged_at) * self.cells;
                let is_clipped = clipped <= event.at * self.cells + level;
                let back = if is_clipped { 0 } else { cells.saturating_sub(paid) };
                level.saturating_sub(back)
            }
        }
    }

    /// What is in a token bucket, a period's ticks to the cell; below nothing if it is overdrawn.
    fn tokens(&self, now: u128) -> i128 {
        let full = u128::from(self.limit) * self.per;
        let (mut tokens, mut last) = (signed(full), 0);
        for event in &self.history {
            tokens = signed(full).min(tokens + signed((event.at - last) * self.cells));
            last = event.at;
            let missing = (signed(full) - tokens).unsigned_abs();
            tokens = signed(full) - signed(self.step(missing, event));
        }
        signed(full).min(tokens + signed((now - last) * self.cells))
    }

    /// The theoretical arrival time, a period's cells to the tick.
    fn arrival(&self, now: u128) -> u128 {
        let mut arrival = 0;
        for event in &self.history {
            let here = event.at * self.cells;
            arrival = here + self.step(here.max(arrival) - here, event);
        }
        arrival.max(now * self.cells)
    }

    /// What is in a leaky bucket, a period's ticks to the cell.
    fn level(&self, now: u128) -> u128 {
        let (mut level, mut last) = (0_u128, 0);
        for event in &self.history {
            level = level.saturating_sub((event.at - last) * self.cells);
            last = event.at;
            level = self.step(level, event);
        }
        level.saturating_sub((now - last) * self.cells)
    }

    fn in_window(&self, window: u128) -> u128 {
        let inside = |event: &&Event| event.at / self.per == window;
        self.history.iter().filter(inside).map(|event| event.cells).sum()
    }
}

fn signed(amount: u128) -> i128 {
    i128::try_from(amount).expect("cells and ticks have less than 127 bits together")
}
