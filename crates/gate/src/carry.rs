//! Keys that get a quota of their own, or lose it: what they had consumed counts under the next.
//!
//! The store looks it up when such a key is first asked about, in the limits that the key may have
//! had; see `kept.rs`. All keys that can be told from the policy are asked about here, so that none
//! depends on when its first request comes. Where there were too many limits to look them all up,
//! what was consumed is charged, as far as there is room.

use std::collections::{HashMap, HashSet};

use tidegate_config::{Part, Rule, Timed};
use tidegate_core::{Kind, Tick};
use tidegate_store::{Key, MemoryStore, Store};

use crate::generation::{Generation, memory_rule};

/// Two policies, one after the other, and where both count.
pub(crate) struct Carry<'a> {
    pub(crate) before: &'a Generation,
    pub(crate) after: &'a Generation,
    pub(crate) store: &'a dyn Store,
    pub(crate) now: Tick,
}

/// A rule in both of them, by its places.
#[derive(Clone, Copy)]
struct Both {
    before: usize,
    after: usize,
}

impl Carry<'_> {
    /// Charges what was consumed. In Redis nothing is charged: every node would do it.
    pub(crate) fn over(&self) {
        let Some(store) = self.store.memory() else { return };
        let names = self.before.rules.rules().iter().map(Rule::name);
        let places: HashMap<&str, usize> = names.zip(0..).collect();
        for (after, rule) in self.after.rules.rules().iter().enumerate() {
            if let Some(&before) = places.get(rule.name()) {
                self.rule_over(store, Both { before, after });
            }
        }
    }

    fn rule_over(&self, store: &MemoryStore, rule: Both) {
        let (had, has) = (self.before.rule(rule.before), self.after.rule(rule.after));
        let keys = self.before.rules.overridden(rule.before);
        let keys = keys.into_iter().chain(self.after.rules.overridden(rule.after));
        let mut done = HashSet::new();
        for parts in keys {
            let ids = |rule: &Rule| -> Vec<Box<str>> {
                let variants = rule.variants_of(&parts).into_iter();
                variants.map(|variant| rule.variants()[variant].id().into()).collect()
            };
            if ids(had) == ids(has) {
                continue;
            }
            if let Ok(key) = store.key(&parts[..])
                && done.insert(key)
            {
                self.key_over(store, rule, key, &parts);
            }
        }
    }

    fn key_over(&self, store: &MemoryStore, rule: Both, key: Key, parts: &[Part<'_>]) {
        for variant in self.after.rule(rule.after).variants_of(parts) {
            let policies = self.after.rule(rule.after).variants()[variant].policies();
            for (limit, timed) in self.after.limits(rule.after, variant).iter().zip(policies) {
                let present = limit.present(timed, self.store, self.now);
                let Some(present) = memory_rule(&present) else { continue };
                let now = store.peek(present, key, self.now, 0);
                // It may remember the key from earlier; that is not charged again.
                let known = now.limit.saturating_sub(now.remaining);
                let consumed = self.consumed(store, rule.before, key, parts, timed);
                let more = consumed.saturating_sub(known).min(now.remaining);
                if 0 < more {
                    let _ = store.decide(present, key, self.now, more);
                }
            }
        }
    }

    /// What a key had consumed under the limits that it may have had before: the most of it.
    fn consumed(
        &self,
        store: &MemoryStore,
        rule: usize,
        key: Key,
        parts: &[Part<'_>],
        like: &Timed,
    ) -> u32 {
        let mut most = 0;
        for variant in self.before.rule(rule).variants_of(parts) {
            let policies = self.before.rule(rule).variants()[variant].policies();
            for (limit, timed) in self.before.limits(rule, variant).iter().zip(policies) {
                let is_held = [timed, like].iter().any(|it| it.kind() == Kind::Concurrency);
                if is_held || timed.part() != like.part() {
                    continue;
                }
                let present = limit.present(timed, self.store, self.now);
                if let Some(present) = memory_rule(&present) {
                    let said = store.peek(present, key, self.now, 0);
                    most = most.max(said.limit.saturating_sub(said.remaining));
                }
            }
        }
        most
    }
}
