//! What passed, and can be given back.

use arrayvec::ArrayVec;
use tidegate_core::{Decision, Kind, Receipt};

use super::{Limiter, MemoryStore};
use crate::key::Key;

/// Which rule was charged for which key, and the receipt.
pub(super) type Charged = ArrayVec<(usize, Key, Receipt), { MemoryStore::LIMITS_MAX }>;

/// A request that passed.
///
/// Dropping it releases the permits of concurrency rules. What other rules charged stays charged,
/// unless it is [refunded](Pass::refund).
#[derive(Debug)]
pub struct Pass<'a> {
    limiter: &'a Limiter,
    decision: Decision,
    charged: Charged,
    /// The key whose line may be waiting for what this gives back.
    line: Option<Key>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        limiter: &'a Limiter,
        decision: Decision,
        charged: Charged,
        line: Option<Key>,
    ) -> Pass<'a> {
        Pass { limiter, decision, charged, line }
    }

    /// The decision that let it pass.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Gives everything back, as if it had not been asked for: never above full, never into
    /// another window, and only once.
    pub fn refund(mut self) {
        self.give_back(|_| true);
    }

    /// The same without waking anybody: for whoever holds the lock of the lines.
    pub(super) fn refund_quietly(mut self) {
        let now = self.limiter.now();
        for (index, key, receipt) in self.charged.drain(..) {
            self.limiter.store.refund(&self.limiter.rules[index].present(), key, now, receipt);
        }
    }

    fn give_back(&mut self, which: impl Fn(Kind) -> bool) {
        let now = self.limiter.now();
        let (mut own, mut others) = (false, false);
        for (index, key, receipt) in self.charged.drain(..) {
            let rule = self.limiter.rules[index].present();
            if which(rule.policy().kind()) {
                self.limiter.store.refund(&rule, key, now, receipt);
                own |= self.line == Some(key);
                others |= self.line != Some(key);
            }
        }
        if others {
            self.limiter.waiting.wake_lines();
        } else if own {
            self.limiter.waiting.wake_line(self.line);
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if !self.charged.is_empty() {
            self.give_back(|kind| kind == Kind::Concurrency);
        }
    }
}
