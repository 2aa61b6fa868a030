//! What is charged without asking, and what is owed beyond a limit.

use tidegate_core::{Debited, NothingToDebit, Tick};

use super::MemoryStore;
use super::limit_table::LimitTable;
use super::rule::Rule;
use super::shard::Shard;
use super::slot_key::SlotKey;
use crate::key::Key;
use crate::sync::RwLock;

impl MemoryStore {
    /// Charges what has happened in full, also beyond the limit: see
    /// [`Policy::debit`](tidegate_core::Policy::debit). It is never lost: where the store is full,
    /// the key's group owes it.
    ///
    /// ```
    /// use tidegate_core::{Policy, Quota, Span, Tick, Verdict};
    /// use tidegate_store::MemoryStore;
    ///
    /// let store = MemoryStore::new();
    /// let rule = store.rule(Policy::token_bucket(Quota::per_second(10))?)?;
    /// let (key, now) = (store.key("ada")?, Tick::from_micros(0));
    ///
    /// assert_eq!(store.decide(&rule, key, now, 0).verdict, Verdict::Allow);
    /// assert_eq!(store.debit(&rule, key, now, 15)?.forgiven, 0);
    /// assert_eq!(store.overdrawn(&rule, key, now), 5);
    /// // Half a second later nothing is overdrawn any more.
    /// let refused = Verdict::Deny { retry_after: Span::from_millis(500) };
    /// assert_eq!(store.decide(&rule, key, now, 0).verdict, refused);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn debit(
        &self,
        rule: &Rule,
        key: Key,
        now: Tick,
        cells: u32,
    ) -> Result<Debited, NothingToDebit> {
        self.with_shard(rule, key, now, |shard, rule, slot_key| {
            let debited = shard.debit(rule, slot_key, now, cells, &self.limit_table);
            (debited, shard.counts_call().map(|index| (index, now)))
        })
    }

    /// Gives back up to `cells` without a receipt, if anything is known of the key: see
    /// [`Policy::give_back`](tidegate_core::Policy::give_back).
    pub fn give_back(&self, rule: &Rule, key: Key, now: Tick, cells: u32) {
        self.with_shard(rule, key, now, |shard, rule, slot_key| {
            (shard.give_cells_back(rule, slot_key, (now, cells), &self.limit_table), None)
        });
    }

    /// By how many cells a key is overdrawn, rounded up; 0 if a look passes.
    pub fn overdrawn(&self, rule: &Rule, key: Key, now: Tick) -> u32 {
        self.with_shard(rule, key, now, |shard, rule, slot_key| {
            (shard.look(rule, slot_key, |state| rule.policy.overdrawn(state, now)), None)
        })
    }
}

impl Shard {
    fn debit(
        &mut self,
        rule: &Rule,
        slot_key: SlotKey,
        now: Tick,
        cells: u32,
        limit_table: &RwLock<LimitTable>,
    ) -> Result<Debited, NothingToDebit> {
        if let Ok(index) = self.slots().find(slot_key.0) {
            let mut state = self.take(index, &rule.policy);
            let debited = rule.policy.debit(&mut state, now, cells);
            self.put(index, &rule.policy, state);
            return debited;
        }
        let now = now.max(self.swept_at());
        let mut state = self.newcomer(rule, slot_key);
        let debited = rule.policy.debit(&mut state, now, cells);
        if debited.is_ok() && 0 < cells {
            self.add_owing(rule, slot_key, state, now, limit_table);
        }
        debited
    }

    fn give_cells_back(
        &mut self,
        rule: &Rule,
        slot_key: SlotKey,
        (now, cells): (Tick, u32),
        limit_table: &RwLock<LimitTable>,
    ) {
        let Ok(index) = self.slots().find(slot_key.0) else { return };
        let mut state = self.take(index, &rule.policy);
        rule.policy.give_back(&mut state, now, cells);
        self.put(index, &rule.policy, state);
        self.forget_paid(index, now, limit_table);
    }
}
