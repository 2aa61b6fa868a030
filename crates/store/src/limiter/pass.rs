//! What passed, and can be given back.

use arrayvec::ArrayVec;
use tidegate_core::{Decision, Kind, Receipt, Tick, Verdict};

use super::{Limiter, MemoryStore};
use crate::key::Key;

/// Which rule was charged for which key, and the receipt.
pub(super) type RuleReceipts = ArrayVec<(usize, Key, Receipt), { MemoryStore::LIMITS_MAX }>;

/// A request that passed.
///
/// Dropping it releases the permits of concurrency rules. What other rules charged stays charged,
/// unless it is [refunded](Pass::refund).
#[derive(Debug)]
pub struct Pass<'a> {
    limiter: &'a Limiter,
    decision: Decision,
    charged: RuleReceipts,
    /// The key whose line may be waiting for what this gives back.
    line: Option<Key>,
    /// When it is held back: its turn in a queue.
    starts_at: Tick,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        limiter: &'a Limiter,
        decision: Decision,
        charged: RuleReceipts,
        (now, line): (Tick, Option<Key>),
    ) -> Pass<'a> {
        let starts_at = match decision.verdict {
            Verdict::Delay { by } => now.after(by),
            _ => now,
        };
        Pass { limiter, decision, charged, line, starts_at }
    }

    /// The decision that let it pass.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Gives everything back, as if it had not been asked for: never above full, never into
    /// another window, and only once.
    ///
    /// Before its turn in a queue has come, it obeys the law of those who leave a queue: if others
    /// stand behind its slot, that stays empty until they have left too, and only permits come back
    /// under the other rules.
    pub fn refund(mut self) {
        if self.limiter.now() < self.starts_at {
            self.give_up();
        } else {
            self.give_back(|_| true);
        }
    }

    /// Gives back what may come back of a start that never came.
    pub(super) fn give_up(mut self) {
        self.give_up_quietly();
        self.limiter.waiting.wake_lines();
    }

    /// As `give_up`, without waking anybody: for a caller that holds the lock of the lines.
    pub(super) fn give_up_quietly(&mut self) {
        let Limiter { rules, store, .. } = self.limiter;
        let charged = self.charged.drain(..);
        store.give_up(
            self.limiter.now(),
            charged.map(|(index, key, receipt)| (rules.each[index].present(), key, receipt)),
        );
    }

    fn give_back(&mut self, which: impl Fn(Kind) -> bool) {
        let now = self.limiter.now();
        let (mut own, mut others) = (false, false);
        for (index, key, receipt) in self.charged.drain(..) {
            let rule = self.limiter.rules.each[index].present();
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
