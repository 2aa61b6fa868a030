//! A request that has passed, and what can be given back of it.

use tidegate_core::{Decision, Kind, Receipt};

use super::ask::Charged;
use super::rule::lends;
use super::{By, FleetLimiter};
use crate::failure::StoreError;
use crate::key::FleetKey;
use crate::rule::FleetRule;

/// A request that has passed. It owns what it needs, so it may outlive whoever asked.
///
/// Dropped, it gives back its permits; what it was charged otherwise stands.
#[must_use = "dropping it gives back its permits at once"]
pub struct FleetPass {
    limiter: FleetLimiter,
    decision: Decision,
    by: By,
    charged: Charged,
}

impl FleetPass {
    pub(super) fn new(
        limiter: FleetLimiter,
        decision: Decision,
        by: By,
        charged: Charged,
    ) -> FleetPass {
        FleetPass { limiter, decision, by, charged }
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
    pub async fn refund(mut self) -> Result<(), StoreError> {
        self.give_back(|_| true).await
    }

    /// Gives back its permits, and waits until that is done. Dropping it does the same without
    /// waiting.
    pub async fn release(mut self) -> Result<(), StoreError> {
        self.give_back(|kind| kind == Kind::Concurrency).await
    }

    async fn give_back(&mut self, which: impl Fn(Kind) -> bool) -> Result<(), StoreError> {
        let (inner, now) = (&self.limiter.inner, self.limiter.now());
        let mut done = Ok(());
        // One by one: if this is given up half-way, dropping the pass does the rest.
        match &mut self.charged {
            Charged::Local(charged) => {
                while let Some((rule, key, receipt)) = charged.pop() {
                    if which(rule.policy().kind()) {
                        inner.local.refund(&rule, key, now, receipt);
                    }
                }
            }
            Charged::Store(charged) => {
                while let Some((rule, key, receipt)) = charged.pop() {
                    if which(rule.policy().kind()) {
                        done = done.and(inner.store.refund(&rule, &key, receipt).await);
                    }
                }
            }
        }
        done
    }
}

impl Drop for FleetPass {
    /// Gives permits back. One whose release is lost comes back when its lease ends.
    fn drop(&mut self) {
        match std::mem::replace(&mut self.charged, Charged::Local(Vec::new())) {
            Charged::Local(charged) => {
                let now = self.limiter.now();
                for (rule, key, receipt) in charged {
                    if rule.policy().kind() == Kind::Concurrency {
                        self.limiter.inner.local.refund(&rule, key, now, receipt);
                    }
                }
            }
            Charged::Store(charged) => {
                let permits: Vec<(FleetRule, FleetKey, Receipt)> =
                    charged.into_iter().filter(|(rule, ..)| lends(rule)).collect();
                // Outside of a runtime nobody could send it.
                if let (false, Ok(runtime)) =
                    (permits.is_empty(), tokio::runtime::Handle::try_current())
                {
                    let store = self.limiter.inner.store.clone();
                    runtime.spawn(async move {
                        for (rule, key, receipt) in permits {
                            let _ = store.refund(&rule, &key, receipt).await;
                        }
                    });
                }
            }
        }
    }
}

impl std::fmt::Debug for FleetPass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("FleetPass");
        debug.field("decision", &self.decision).field("by", &self.by).finish_non_exhaustive()
    }
}
