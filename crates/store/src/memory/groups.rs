//! What keys owe that there was no room for, by groups of keys.
//!
//! A new key at the cap has no state of its own: it is judged by that of its group, with all others
//! of it. So a group owes at least as much as each of its keys, no key ever gets anything back by
//! that, and a flood costs a newcomer its allowance only if it hit its group.

use tidegate_core::{Policy, Tick};

use super::limit_table::LimitTable;
use super::rule::{Rule, RuleId};
use super::slot_key::{RULE_BITS, SlotKey, hash_of, rule_of};
use super::slots::Slots;

/// The groups of one shard that owe something. Each is known by the first hash that is in it.
#[derive(Debug)]
pub(super) struct Groups {
    slots: Slots,
    /// How many hashes make a group; the same for all of them.
    width: u64,
    /// How many did at first.
    narrowest: u64,
}

/// A group that is moved elsewhere: the hashes from the first of a tag on, as many as it is wide.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) slot_key: SlotKey,
    pub(super) width: u64,
    pub(super) gist: [u64; 2],
}

impl Group {
    /// What it is under another rule of its limit.
    pub(super) fn carried(self, rule: &Rule, limit_table: &LimitTable, now: Tick) -> Group {
        let id = rule_of(self.slot_key.0);
        let Some(policy) = limit_table.policy(id) else { return self };
        let mut state = policy.of_gist(self.gist);
        limit_table.carry((id, rule.id), &mut state, now);
        Group { slot_key: self.slot_key.under(rule.id), gist: rule.policy.gist(&state), ..self }
    }
}

impl Groups {
    /// Hashes of a shard.
    const HASHES: u64 = 1 << (u64::BITS - RULE_BITS);

    /// For a shard of `keys_max` states of `words` words: a quarter as many groups. Those of lists
    /// take two words.
    pub(super) fn new(words: usize, keys_max: usize) -> Groups {
        let count = keys_max.div_ceil(4).max(1);
        let width = Groups::HASHES.div_ceil(count as u64);
        let words = if words == 0 { 2 } else { words };
        Groups { slots: Slots::new(1 + words, count), width, narrowest: width }
    }

    pub(super) fn live(&self) -> usize {
        self.slots.live()
    }

    pub(super) fn bytes(&self) -> usize {
        self.slots.bytes()
    }

    /// All groups that owe something.
    pub(super) fn each(&self) -> impl Iterator<Item = Group> {
        let taken = (0..self.slots.len()).filter(|&index| self.slots.slot_key(index) != 0);
        taken.map(|index| self.at(index))
    }

    /// The gist of what the group of `slot_key` owes, if anything.
    pub(super) fn gist(&self, slot_key: SlotKey) -> Option<[u64; 2]> {
        if self.slots.live() == 0 {
            return None;
        }
        let index = self.slots.find(self.group_of(slot_key).0).ok()?;
        Some(self.slots.state(index))
    }

    /// The groups that `slot_key` is in under other rules of the limit of `rule`, as they are under
    /// that. They stay where they are: other keys of theirs may be asked about by those rules.
    pub(super) fn of_others(
        &self,
        rule: &Rule,
        slot_key: SlotKey,
        limit_table: &LimitTable,
        now: Tick,
    ) -> Vec<Group> {
        let like = self.group_of(slot_key);
        let others = self.slots.ids_like(like.0);
        let others = others
            .filter(|&id| rule.may_share_with(id) && limit_table.are_of_one_limit(id, rule.id));
        let found = others.filter_map(|id| self.slots.find(like.under(id).0).ok());
        found.map(|index| self.at(index).carried(rule, limit_table, now)).collect()
    }

    /// Takes out all groups that are written under ids of the past.
    pub(super) fn take_past(&mut self, is_past: impl Fn(RuleId) -> bool) -> Vec<Group> {
        let past: Vec<Group> =
            self.each().filter(|group| is_past(rule_of(group.slot_key.0))).collect();
        for group in &past {
            if let Ok(index) = self.slots.find(group.slot_key.0) {
                self.slots.remove(index);
            }
        }
        past
    }

    /// Whether there is room for what this key owes; there is as long as there are not more
    /// rules than groups.
    pub(super) fn has_room(&self, slot_key: SlotKey) -> bool {
        self.slots.live() < self.slots.live_max()
            || self.width < Groups::HASHES
            || self.slots.find(self.group_of(slot_key).0).is_ok()
    }

    /// Whether groups have to be wider first, to have room for that of `slot_key`.
    pub(super) fn is_short(&self, slot_key: SlotKey) -> bool {
        self.slots.live_max() <= self.slots.live()
            && self.width < Groups::HASHES
            && self.slots.find(self.group_of(slot_key).0).is_err()
    }

    /// Makes groups as wide as it takes to have room for that of `slot_key`.
    pub(super) fn make_room(&mut self, slot_key: SlotKey, limit_table: &LimitTable) {
        while self.is_short(slot_key) {
            self.widen(2 * self.width, limit_table);
        }
    }

    /// Has the group of `slot_key` owe at least as much as `gist`.
    pub(super) fn fold(&mut self, slot_key: SlotKey, policy: &Policy, gist: [u64; 2]) {
        self.put(self.group_of(slot_key), policy, gist);
    }

    /// As `fold`, for all keys of a group that was one elsewhere.
    pub(super) fn fold_group(&mut self, group: Group, policy: &Policy, limit_table: &LimitTable) {
        if self.width < group.width {
            self.widen(group.width, limit_table);
        }
        // It is no wider than those here, so it reaches into two at most.
        let first = hash_of(group.slot_key.0);
        let last = first.saturating_add(group.width - 1).min(Groups::HASHES - 1);
        for slot_key in [first, last].map(|hash| group.slot_key.at_hash(hash)) {
            self.make_room(slot_key, limit_table);
            self.fold(slot_key, policy, group.gist);
        }
    }

    /// Forgets groups that owe nothing any more.
    pub(super) fn forget(&mut self, by: Tick, limit_table: &LimitTable) {
        let mut index = 0;
        while index < self.slots.len() && 0 < self.slots.live() {
            let id = rule_of(self.slots.slot_key(index));
            let state =
                limit_table.policy(id).map(|policy| policy.of_gist(self.slots.state(index)));
            if state.is_some_and(|state| limit_table.is_fresh(id, &state, by)) {
                self.slots.remove(index);
            } else {
                index += 1;
            }
        }
        if self.slots.live() == 0 {
            self.slots.clear();
            self.width = self.narrowest;
        }
    }

    /// Makes groups wider, until they are at least as wide as that; what falls together owes as
    /// much as the worst of it.
    fn widen(&mut self, width: u64, limit_table: &LimitTable) {
        let groups: Vec<Group> = self.each().collect();
        while self.width < width.min(Groups::HASHES) {
            self.width *= 2;
        }
        self.slots.clear();
        for group in groups {
            if let Some(policy) = limit_table.policy(rule_of(group.slot_key.0)) {
                self.put(self.group_of(group.slot_key), policy, group.gist);
            }
        }
    }

    fn put(&mut self, slot_key: SlotKey, policy: &Policy, gist: [u64; 2]) {
        match self.slots.find(slot_key.0) {
            Ok(index) => {
                let worse = policy.worse_gist(self.slots.state(index), gist);
                self.slots.set_state(index, worse);
            }
            Err(_) => self.slots.insert(slot_key.0, gist),
        }
    }

    fn at(&self, index: usize) -> Group {
        let (slot_key, gist) = (SlotKey(self.slots.slot_key(index)), self.slots.state(index));
        Group { slot_key, width: self.width, gist }
    }

    /// The group that `slot_key` is in, by its first hash.
    fn group_of(&self, slot_key: SlotKey) -> SlotKey {
        let hash = hash_of(slot_key.0);
        slot_key.at_hash(hash - hash % self.width)
    }
}
