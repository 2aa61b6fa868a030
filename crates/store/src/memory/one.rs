//! One state for each key and limit, whichever rule of the limit it was written under.
//!
//! A quota was changed, or a key has one of its own: then its state is under another id than that
//! of the rule that asks. It is carried to that rule, as of now, and written under its id. All
//! shards in which it may be are locked meanwhile, so nobody ever makes a second one.

use arrayvec::ArrayVec;
use tidegate_core::{State, Tick};

use super::MemoryStore;
use super::limit_table::{LimitTable, read};
use super::lock::Guard;
use super::rule::Rule;
use super::shard::Shard;
use super::slot_key::{SlotKey, rule_of};
use super::table::Place;
use crate::key::Key;
use crate::sync::RwLock;

/// Which shard of which table.
pub(super) type Where = (usize, usize);

/// Shards that are locked together, in ascending order.
pub(super) struct Held<'a, const N: usize>(ArrayVec<(Where, Guard<'a, Shard>), N>);

impl MemoryStore {
    /// Locks every shard in which one of `keys` may have a state under the limit of its rule, in
    /// one order for everybody: nobody waits in a circle.
    pub(super) fn hold<'r, const N: usize>(
        &self,
        keys: impl Iterator<Item = (&'r Rule, Key)>,
    ) -> Held<'_, N> {
        let mut wanted: ArrayVec<Where, N> = ArrayVec::new();
        for (rule, key) in keys {
            let Place { shard, .. } = self.tables[rule.table].place(key);
            for at in rule.tables().map(|table| (table, shard)) {
                if !wanted.contains(&at) {
                    wanted.push(at);
                }
            }
        }
        wanted.sort_unstable();
        Held(wanted.into_iter().map(|at| (at, self.tables[at.0].lock(at.1))).collect())
    }

    /// Unlocks shards whose slots may have moved.
    pub(super) fn let_go<const N: usize>(&self, held: Held<'_, N>) {
        for ((table, index), shard) in held.0 {
            self.tables[table].note(index, &shard);
        }
    }
}

impl<const N: usize> Held<'_, N> {
    /// Whether a rule is what it was, and its limit has no states elsewhere: asked once the shards
    /// are locked.
    pub(super) fn is_enough(&self, rule: &Rule, shard: usize) -> bool {
        let is_held = |table| self.0.iter().any(|(at, _)| *at == (table, shard));
        !rule.is_changed() && rule.tables().all(is_held)
    }

    pub(super) fn shard(&mut self, at: Where) -> &mut Shard {
        let held = self.0.iter_mut().find(|(held, _)| *held == at);
        &mut held.expect("locked at the start").1
    }

    pub(super) fn each(&mut self) -> impl Iterator<Item = &mut Shard> {
        self.0.iter_mut().map(|(_, shard)| &mut **shard)
    }

    /// Brings the state of a key to where `rule` looks for it, and notes what its groups owe under
    /// other rules.
    pub(super) fn bring(
        &mut self,
        rule: &Rule,
        place: Place,
        now: Tick,
        limit_table: &RwLock<LimitTable>,
    ) {
        if !rule.shares_states() {
            return;
        }
        let (own, slot_key) = ((rule.table, place.shard), place.slot_key(rule.id));
        let mut owes: Option<[u64; 2]> = None;
        // Those that are locked: a limit may spread to another table meanwhile, but nobody writes
        // there without a lock that is held here.
        let held = self.0.iter().map(|(at, _)| *at).filter(|at| at.1 == place.shard);
        for at in held.collect::<ArrayVec<Where, N>>() {
            while let Some(state) = self.shard(at).take_other(rule, slot_key, now, limit_table) {
                self.shard(own).adopt(slot_key, &rule.policy, state);
            }
            let groups = &self.shard(at).rest.groups;
            if 0 < groups.live() {
                let others = groups.of_others(rule, slot_key, &read(limit_table), now);
                let gists = others.into_iter().map(|group| group.gist);
                owes = gists.chain(owes).reduce(|a, b| rule.policy.worse_gist(a, b));
            }
        }
        self.shard(own).rest.others_owe = owes;
    }
}

impl Shard {
    /// Takes out a state of a key that is written under another rule of the limit of `rule`,
    /// carried to that.
    fn take_other(
        &mut self,
        rule: &Rule,
        slot_key: SlotKey,
        now: Tick,
        limit_table: &RwLock<LimitTable>,
    ) -> Option<State> {
        // Most keys have none: then the book, which all shards share, is not looked into.
        self.slots().find_like(slot_key.0, |here| rule.may_share_with(rule_of(here)))?;
        let limit_table = read(limit_table);
        let is_other = |here: u64| {
            let id = rule_of(here);
            rule.may_share_with(id) && limit_table.are_of_one_limit(id, rule.id)
        };
        let index = self.slots().find_like(slot_key.0, is_other)?;
        let id = rule_of(self.slots().slot_key(index));
        let mut state = self.take(index, limit_table.policy(id)?);
        self.remove(index);
        limit_table.carry((id, rule.id), &mut state, now);
        Some(state)
    }
}
