//! What is done about a charge later: it is given back, or a permit is renewed.

use tidegate_core::{Receipt, Tick};

use super::rule::Rule;
use super::shard::Shard;
use super::tag::Tag;

impl Shard {
    /// Gives back what was charged, if anything is still known of it.
    pub(super) fn refund(&mut self, rule: &Rule, tag: Tag, now: Tick, receipt: Receipt) {
        if let Ok(index) = self.find(rule, tag) {
            let mut state = self.take(index, &rule.policy);
            rule.policy.refund(&mut state, now, receipt);
            self.put(index, &rule.policy, state);
        }
    }

    /// Renews a permit, if it is still held.
    pub(super) fn renew(
        &mut self,
        rule: &Rule,
        tag: Tag,
        now: Tick,
        receipt: Receipt,
    ) -> Option<Receipt> {
        let index = self.find(rule, tag).ok()?;
        let mut state = self.take(index, &rule.policy);
        let renewed = rule.policy.renew(&mut state, now, receipt);
        self.put(index, &rule.policy, state);
        renewed
    }
}
