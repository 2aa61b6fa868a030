//! What was let through without Redis, until Redis is told: each debt with the key that owes it.
//!
//! It is a store of its own, which is never full: a store at its cap remembers what it drops in
//! sum, and a debt that belongs to nobody would be charged to each key that asks. Where more keys
//! owe something than may be remembered, what the next ones owe is written off, and counted.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Receipt, Tick};
use tidegate_store::{Key, MemoryStore, Rule, TooManyRules, Wanted};

use super::judge::Part;

/// What keys owe to Redis.
#[derive(Debug)]
pub(super) struct Owed {
    store: MemoryStore,
    keys_max: usize,
    /// Cells that Redis will not be told of.
    written_off: AtomicU64,
}

impl Owed {
    /// Remembers what that many keys owe.
    pub(super) fn new(keys_max: usize) -> Owed {
        // Keys do not fall into its parts evenly, and none of these may be full.
        let store = MemoryStore::with_keys_max(keys_max.saturating_mul(2));
        Owed { store, keys_max, written_off: AtomicU64::new(0) }
    }

    pub(super) fn rule(&self, policy: tidegate_core::Policy) -> Result<Rule, TooManyRules> {
        self.store.rule(policy)
    }

    pub(super) fn put(&self, wanted: &[Wanted<'_>], now: Tick) -> Result<Vec<Rule>, TooManyRules> {
        self.store.put(wanted, now)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// Cells that Redis will not be told of.
    pub(super) fn written_off(&self) -> u64 {
        self.written_off.load(Ordering::Relaxed)
    }

    /// The key of a part here, and how many cells it owes.
    pub(super) fn look(&self, part: &Part<'_>, now: Tick) -> Option<(Key, u32)> {
        let key = part.local_key(&self.store)?;
        Some((key, self.owes(&part.present.owed, key, now)))
    }

    fn owes(&self, rule: &Rule, key: Key, now: Tick) -> u32 {
        let look = self.store.peek(rule, key, now, 0);
        look.limit.saturating_sub(look.remaining)
    }

    /// Remembers that a key owes so many cells more.
    pub(super) fn add(&self, part: &Part<'_>, cost: u32, now: Tick) -> Option<(Key, Receipt)> {
        let (key, owes) = self.look(part, now)?;
        if owes == 0 && self.keys_max <= self.store.len() {
            self.written_off.fetch_add(cost.into(), Ordering::Relaxed);
            return None;
        }
        let (_, receipt) = self.store.decide_with_receipt(&part.present.owed, key, now, cost);
        Some((key, receipt?))
    }

    /// Takes some of it back.
    pub(super) fn refund(&self, rule: &Rule, key: Key, now: Tick, receipt: Receipt) {
        self.store.refund(rule, key, now, receipt);
    }

    /// Redis has been told of so many cells. What was let through while that was on its way is
    /// still owed.
    pub(super) fn repaid(&self, rule: &Rule, key: Key, cost: u32, now: Tick) {
        let left = self.owes(rule, key, now).saturating_sub(cost);
        self.clear(rule, key);
        if 0 < left {
            self.store.decide(rule, key, now, left);
        }
    }

    /// A key owes nothing any more.
    pub(super) fn clear(&self, rule: &Rule, key: Key) {
        self.store.reset(rule, key);
    }
}
