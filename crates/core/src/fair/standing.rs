//! What is done about a flow that stands: shed its oldest, serve its newest.

use crate::tick::{Span, Tick};

use super::settings::{Settings, Shed};

/// How long one flow has stood.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    /// When its waits have been above the target for an interval, if they go on.
    above_until: Option<Tick>,
    /// When the next one is shed, and how many were, while it stands.
    shed_next: Option<Tick>,
    shed_count: u32,
    /// Since when its oldest has waited for too long to be served first.
    slow_since: Option<Tick>,
}

impl Standing {
    /// Whether the oldest, which came at `came`, is to be shed now. `is_only` is never.
    pub(super) fn sheds(&mut self, shed: Shed, now: Tick, came: Tick, is_only: bool) -> bool {
        if is_only || now.since(came) < shed.target {
            self.above_until = None;
            self.shed_next = None;
            return false;
        }
        let until = *self.above_until.get_or_insert(now.after(shed.interval));
        if now < until {
            return false;
        }
        match self.shed_next {
            Some(next) if now < next => return false,
            Some(_) => self.shed_count = self.shed_count.saturating_add(1),
            // Soon after the last time, it goes on about where it was.
            None => self.shed_count = (self.shed_count / 2).max(1),
        }
        self.shed_next = Some(now.after(pause(shed.interval, self.shed_count)));
        true
    }

    /// Whether the newest goes first.
    pub(super) fn is_newest_first(&mut self, after: Span, now: Tick, oldest: Tick) -> bool {
        if now.since(oldest) <= after {
            self.slow_since = None;
            return false;
        }
        let since = *self.slow_since.get_or_insert(now);
        after <= now.since(since)
    }

    /// As `is_newest_first`, without looking further.
    pub(super) fn was_newest_first(&self, after: Span, now: Tick, oldest: Tick) -> bool {
        let since = self.slow_since.filter(|_| after < now.since(oldest));
        since.is_some_and(|since| after <= now.since(since))
    }
}

/// `interval / sqrt(count)`.
fn pause(interval: Span, count: u32) -> Span {
    let interval = u128::from(interval.get());
    let pause = (interval * interval / u128::from(count.max(1))).isqrt();
    Span::from_micros(u64::try_from(pause).unwrap_or(u64::MAX))
}

impl Settings {
    /// Whether flows are watched at all.
    pub(super) fn watches(&self) -> bool {
        self.shed.is_some() || self.newest_first_after.is_some()
    }
}
