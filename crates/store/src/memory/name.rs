//! Names rules, and makes room for more names by carrying over what is written under old ones.
//!
//! A rule that was changed leaves states behind under the id that it had. Each is carried over when
//! its key is next asked about. When ids run short all of them are, shard by shard; then those ids
//! are free.

use std::ops::DerefMut;

use tidegate_core::{Applied, Policy, State, Tick};

use super::MemoryStore;
use super::limit_table::{Fate, LimitTable, Limits, Turn, Wanted, needed, read};
use super::rule::{Rule, TooManyRules};
use super::shard::Shard;
use super::slot_key::{SlotKey, rule_of};
use crate::sync::{Arc, MutexGuard, PoisonError, lock};

impl MemoryStore {
    /// Keeps states for `policy` from now on, until the rule is dropped.
    pub fn rule(&self, policy: Policy) -> Result<Rule, TooManyRules> {
        self.rule_of(Applied::whole(policy))
    }

    /// As [`MemoryStore::rule`], for what may be a part of a quota.
    pub fn rule_of(&self, applied: Applied) -> Result<Rule, TooManyRules> {
        self.named(|limit_table| limit_table.begin(applied, &Arc::default()))
    }

    /// The rule that `rule` becomes under another policy: what was consumed until `now` is kept.
    ///
    /// Nothing stops: a key is carried over when it is next asked about, and all keys are, a shard
    /// at a time, when ids run short. A caller that still asks by the old rule is answered by the
    /// new one.
    pub fn change(&self, rule: &Rule, policy: Policy, now: Tick) -> Result<Rule, TooManyRules> {
        self.named(|limit_table| limit_table.change(rule, Applied::whole(policy), now))
    }

    /// All rules that are wanted, in their order. If there is no room for all of them, nothing has
    /// happened.
    ///
    /// Rules that were of several limits, and are wanted as quotas of one, have one state for each
    /// key from then on: that which gives least. They stay together.
    ///
    /// As long as all rules that there will be, and one more, have a name each, there is room.
    pub fn put(&self, wanted: &[Wanted<'_>], now: Tick) -> Result<Vec<Rule>, TooManyRules> {
        self.prepare(wanted, now).map(PreparedRules::commit)
    }

    /// Prepares what [`MemoryStore::put`] does. Rules that were something before go on as that
    /// until it is committed: then all of them turn within microseconds.
    ///
    /// Until then, no other rule can be made or changed.
    #[expect(clippy::missing_panics_doc, reason = "what it expects is made sure of before")]
    pub fn prepare(
        &self,
        wanted: &[Wanted<'_>],
        now: Tick,
    ) -> Result<PreparedRules<'_>, TooManyRules> {
        let naming = lock(&self.naming);
        let limits = read(&self.limit_table).limits(wanted);
        if !self.has_room(wanted, &limits) {
            return Err(TooManyRules);
        }
        let mut limit_table = self.write();
        let limits = limit_table.merged(wanted, &limits);
        let (mut rules, mut turns) = (Vec::with_capacity(wanted.len()), Vec::new());
        for wanted in wanted {
            let limit = &limits[&wanted.limit];
            let mut rule = limit_table.put(wanted, limit, (now, &mut turns));
            if rule.is_none() {
                // Ids are so short that some rules have to turn before others.
                limit_table.turn(std::mem::take(&mut turns));
                drop(limit_table);
                self.collect();
                limit_table = self.write();
                rule = limit_table.put(wanted, limit, (now, &mut turns));
            }
            rules.push(rule.expect("each change gives up an id for the one that it gets"));
        }
        drop(limit_table);
        Ok(PreparedRules { store: self, _naming: naming, rules, turns })
    }

    fn named(&self, name: impl Fn(&mut LimitTable) -> Option<Rule>) -> Result<Rule, TooManyRules> {
        let _one_by_one = lock(&self.naming);
        let named = name(&mut self.write());
        if let Some(rule) = named {
            return Ok(rule);
        }
        self.collect();
        name(&mut self.write()).ok_or(TooManyRules)
    }

    /// Whether there are ids for all that are wanted; those that can be given up are, if need be.
    fn has_room(&self, wanted: &[Wanted<'_>], limits: &Limits) -> bool {
        let needed = needed(wanted, limits);
        if needed <= read(&self.limit_table).room() {
            return true;
        }
        self.collect();
        // However many change: the first of them needs an id, and the others get what it gives up.
        let new = wanted.iter().filter(|it| it.before.is_none()).count();
        needed.min(new + 1) <= read(&self.limit_table).room()
    }

    /// Carries over every state of a rule that was changed, and gives up the ids that it had.
    /// States of limits that nobody holds any more are dropped: nobody can ask about them.
    fn collect(&self) {
        let (fates, changed_at) = {
            let limit_table = read(&self.limit_table);
            (limit_table.fates(), limit_table.changed_at())
        };
        for shard in 0..self.tables[0].shards() {
            self.carry_all(shard, &fates, changed_at);
        }
        self.write().give_up(&fates);
    }

    /// The shards of the three sizes are held together: a change of quota can move a key from one
    /// to another, and nobody is to find it in neither.
    ///
    /// States are carried as of the latest change: nobody has charged them since.
    fn carry_all(&self, shard: usize, fates: &[Fate], changed_at: Tick) {
        let mut shards = [0, 1, 2].map(|table: usize| self.tables[table].lock(shard));
        let limit_table = read(&self.limit_table);
        for from in 0..shards.len() {
            let now = changed_at.max(shards[from].swept_at());
            for (slot_key, state) in shards[from].take_past(fates, &limit_table) {
                let Some(Fate::GoTo(rule)) = fates.get(usize::from(rule_of(slot_key.0))) else {
                    continue;
                };
                let mut state = state;
                limit_table.carry((rule_of(slot_key.0), rule.id), &mut state, now);
                shards[rule.table].adopt(slot_key.under(rule.id), &rule.policy, state);
            }
            let is_past = |id| !matches!(fates.get(usize::from(id)), Some(Fate::Stays));
            for group in shards[from].rest.groups.take_past(is_past) {
                let id = rule_of(group.slot_key.0);
                if let Some(Fate::GoTo(rule)) = fates.get(usize::from(id)) {
                    let group = group.carried(rule, &limit_table, now);
                    let groups = &mut shards[rule.table].rest.groups;
                    groups.fold_group(group, &rule.policy, &limit_table);
                }
            }
        }
        for (table, held) in self.tables.iter().zip(&shards) {
            table.note(shard, held);
        }
    }

    fn write(&self) -> impl DerefMut<Target = LimitTable> {
        self.limit_table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rules that a store has room for, and that are about to be what is wanted.
#[derive(Debug)]
pub struct PreparedRules<'s> {
    store: &'s MemoryStore,
    _naming: MutexGuard<'s, ()>,
    rules: Vec<Rule>,
    turns: Vec<Turn>,
}

impl PreparedRules<'_> {
    /// The rules. They are to be asked by once this is committed.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Has all rules turn into what is wanted.
    pub fn commit(self) -> Vec<Rule> {
        self.store.write().turn(self.turns);
        self.rules
    }
}

impl Shard {
    /// Takes out all that is written under ids that are to be given up.
    fn take_past(&mut self, fates: &[Fate], limit_table: &LimitTable) -> Vec<(SlotKey, State)> {
        let mut taken = Vec::new();
        let mut index = 0;
        while index < self.slots().len() {
            let slot_key = SlotKey(self.slots().slot_key(index));
            let id = rule_of(slot_key.0);
            let policy = limit_table.policy(id);
            let is_past = !matches!(fates.get(usize::from(id)), Some(Fate::Stays));
            let Some(policy) = policy.filter(|_| is_past) else {
                index += 1;
                continue;
            };
            let state = self.take(index, policy);
            // The next one may have moved here.
            self.remove(index);
            taken.push((slot_key, state));
        }
        taken
    }
}
