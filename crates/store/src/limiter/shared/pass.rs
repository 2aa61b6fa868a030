//! A request that passed by any store, and what can be given back of it.

use std::fmt;

use smallvec::SmallVec;
use tidegate_core::{Decision, Tick, Verdict};

use super::ask::AskedRule;
use super::{Inner, SharedLimiter};
use crate::by::By;
use crate::later::{Later, all};
use crate::store::Charged;

/// A request that passed. It owns what it needs, so it may outlive the caller.
///
/// Dropped, it gives back its permits without waiting; what it was charged otherwise stands. What
/// it has begun to give back is given back even if nobody waits for that.
#[must_use = "dropping it gives back its permits at once"]
pub struct SharedPass {
    limiter: SharedLimiter,
    decision: Decision,
    by: By,
    charged: Charges,
    /// When it is held back: its turn in a queue, by the store's clock.
    starts_at: Tick,
}

pub(super) type Charges = SmallVec<[(AskedRule, Charged); 1]>;

impl SharedPass {
    pub(super) fn new(
        limiter: &SharedLimiter,
        (decision, by): (Decision, By),
        charged: Charges,
    ) -> SharedPass {
        let now = limiter.inner.now();
        let starts_at = match decision.verdict {
            Verdict::Delay { by } => now.after(by),
            _ => now,
        };
        SharedPass { limiter: limiter.clone(), decision, by, charged, starts_at }
    }

    /// The decision by which it passed.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// By what it was decided.
    pub fn by(&self) -> By {
        self.by
    }

    /// Gives back everything that was charged, as if it had never been asked.
    ///
    /// Before its turn in a queue has come, it obeys the law of those who leave a queue: if others
    /// stand behind its slot, that stays empty, and only permits come back.
    pub async fn refund(mut self) {
        self.give_back_all().await;
    }

    /// Gives back its permits, and waits until that is done.
    pub async fn release(mut self) {
        self.give_back_permits().await;
    }

    // What was charged is dropped as soon as the store has begun, so that nobody asks what is left.
    fn give_back_all(&mut self) -> Later<()> {
        let (Inner { store, clock, .. }, now) = (&*self.limiter.inner, self.limiter.inner.now());
        let mut charged = std::mem::take(&mut self.charged);
        if now < self.starts_at {
            let mut all: SmallVec<[_; 1]> =
                charged.iter_mut().map(|(at, it)| (at.place(), it)).collect();
            return store.give_up(&mut all, clock);
        }
        let back = charged.iter_mut().map(|(at, it)| store.settle(at.place(), it, 0, clock));
        let back: Vec<_> = back.map(|settled| settled.map(drop)).collect();
        together(back)
    }

    fn give_back_permits(&mut self) -> Later<()> {
        let Inner { store, clock, .. } = &*self.limiter.inner;
        let mut charged = std::mem::take(&mut self.charged);
        let permits = charged.iter_mut().filter(|(at, _)| at.lends);
        together(permits.map(|(at, it)| store.release(at.place(), it, clock)).collect())
    }
}

impl Inner {
    fn now(&self) -> Tick {
        self.store.now(&*self.clock)
    }
}

/// All of them done. Dropped, each is finished by its store.
fn together(mut done: Vec<Later<()>>) -> Later<()> {
    done.retain(|done| !matches!(done, Later::Ready(())));
    match done.len() {
        0 => Later::Ready(()),
        _ => Later::pending(async move { drop(all(done).await) }),
    }
}

impl Drop for SharedPass {
    fn drop(&mut self) {
        if self.charged.iter().any(|(at, _)| at.lends) {
            drop(self.give_back_permits());
        }
    }
}

impl fmt::Debug for SharedPass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SharedPass");
        debug.field("decision", &self.decision).field("by", &self.by).finish_non_exhaustive()
    }
}
