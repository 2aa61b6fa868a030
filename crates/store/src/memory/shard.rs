//! One lock's worth of states: found, made, and decided upon. `forget.rs` is how they leave.

use tidegate_core::{Decision, Policy, Receipt, Refused, State, Tick, Verdict};

use super::groups::Groups;
use super::limit_table::LimitTable;
use super::lists::{Lists, place};
use super::rule::Rule;
use super::slot_key::SlotKey;
use super::slots::Slots;
use crate::sync::RwLock;

/// The states of the keys whose hashes begin alike.
///
/// With its lock it fits a line of the cache, and what is seldom needed has lines of its own: no
/// decision writes a line that a decision on another shard writes, but when a sweep is due.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) slots: Slots,
    pub(super) rest: Box<Rest>,
    /// Decisions since the last sweep that this shard asked for.
    calls: u32,
    /// Whether states do not fit words, and are kept in lists.
    pub(super) keeps_lists: bool,
}

/// What a decision on a key that is known does not need.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Rest {
    /// States that do not fit words; a slot then holds the place here.
    lists: Lists,
    /// Which shard is swept next when this one has been asked often enough.
    sweeps_next: usize,
    /// Where the sweep of this one goes on.
    pub(super) cursor: usize,
    /// The latest tick by which anything may have been forgotten.
    swept_at: Tick,
    /// When all that was idle was last forgotten.
    pub(super) purged_at: Tick,
    /// What keys owe that there was no room for.
    pub(super) groups: Groups,
    /// What groups of the key that is asked about owe under other rules of its limit: their gist.
    pub(super) others_owe: Option<[u64; 2]>,
    /// Until when it is known that nothing is fresh, once the shard is full.
    pub(super) room_at: Tick,
    /// Requests of keys that there was no room for, and states that were forgotten as fresh.
    pub(super) crowded: u64,
    pub(super) forgotten: u64,
}

impl Shard {
    /// Decisions between two sweeps.
    const CALLS_PER_SWEEP: u32 = 256;

    /// The shard of this index, of at most `live_max` states of `words` words each, or of lists if
    /// that is zero.
    pub(super) fn new(index: usize, words: usize, live_max: usize) -> Shard {
        let rest = Rest {
            lists: Lists::default(),
            sweeps_next: index,
            cursor: 0,
            swept_at: Tick::default(),
            purged_at: Tick::default(),
            groups: Groups::new(words, live_max),
            others_owe: None,
            room_at: Tick::default(),
            crowded: 0,
            forgotten: 0,
        };
        let slots = Slots::new(1 + words.max(1), live_max);
        Shard { slots, rest: Box::new(rest), calls: 0, keeps_lists: words == 0 }
    }

    #[inline]
    pub(super) fn slots(&self) -> &Slots {
        &self.slots
    }

    #[inline]
    pub(super) fn slots_mut(&mut self) -> &mut Slots {
        &mut self.slots
    }

    /// The list at `index`.
    pub(super) fn list(&self, index: usize) -> Option<&State> {
        self.rest.lists.get(place(self.slots.state(index)))
    }

    /// Whether it is time for somebody to sweep, and which shard: each goes round by itself.
    #[inline]
    pub(super) fn counts_call(&mut self) -> Option<usize> {
        self.calls += 1;
        if self.calls < Shard::CALLS_PER_SWEEP {
            return None;
        }
        self.calls = 0;
        self.rest.sweeps_next = self.rest.sweeps_next.wrapping_add(1);
        Some(self.rest.sweeps_next)
    }

    /// No key that is not known is judged by an earlier tick: it may have been forgotten by then.
    pub(super) fn swept_at(&self) -> Tick {
        self.rest.swept_at
    }

    /// Notes that something may be forgotten by `now`, before it is.
    pub(super) fn forgets_by(&mut self, now: Tick) {
        self.rest.swept_at = self.rest.swept_at.max(now);
    }

    /// Decides one request, and charges it if it passes.
    pub(super) fn decide(
        &mut self,
        rule: &Rule,
        slot_key: SlotKey,
        now: Tick,
        cost: u32,
        limit_table: &RwLock<LimitTable>,
    ) -> (Decision, Option<Receipt>) {
        let Ok(index) = self.slots.find(slot_key.0) else {
            return self.decide_new(rule, slot_key, now.max(self.swept_at()), cost, limit_table);
        };
        let mut state = self.take(index, &rule.policy);
        let answer = rule.policy.decide_with_receipt(&mut state, now, cost);
        self.put(index, &rule.policy, state);
        answer
    }

    /// Decides for a key that is not here: only what is charged is remembered.
    fn decide_new(
        &mut self,
        rule: &Rule,
        slot_key: SlotKey,
        now: Tick,
        cost: u32,
        limit_table: &RwLock<LimitTable>,
    ) -> (Decision, Option<Receipt>) {
        let mut state = self.newcomer(rule, slot_key);
        let answer = rule.policy.decide_with_receipt(&mut state, now, cost);
        if cost == 0 {
            return answer;
        }
        let has_room = self.make_room(now, 1, limit_table);
        self.rest.crowded += u64::from(!has_room);
        if answer.1.is_none() {
            // One of a group may be refused at once; where that is charged, the group owes it.
            if rule.policy.refused() == Refused::Charge {
                self.add_owing(rule, slot_key, state, now, limit_table);
            }
            return answer;
        }
        if !has_room && !self.can_fold(rule, slot_key) {
            let verdict = Verdict::Deny { retry_after: self.room_in(now) };
            let fresh = rule.policy.peek(&mut rule.policy.fresh(), now, 0);
            return (Decision { verdict, remaining: 0, ..fresh }, None);
        }
        self.add(slot_key, &rule.policy, state, now, limit_table);
        answer
    }

    /// What a decision would be, without charging.
    pub(super) fn peek(
        &mut self,
        rule: &Rule,
        slot_key: SlotKey,
        now: Tick,
        cost: u32,
    ) -> Decision {
        self.look(rule, slot_key, |state| rule.policy.peek(state, now, cost))
    }

    /// What is to be seen in the state of a key, which at most time has changed afterwards.
    pub(super) fn look<T>(
        &mut self,
        rule: &Rule,
        slot_key: SlotKey,
        look: impl FnOnce(&mut State) -> T,
    ) -> T {
        let known = self.slots.find(slot_key.0);
        let mut state = match known {
            Ok(index) => self.take(index, &rule.policy),
            Err(_) => self.newcomer(rule, slot_key),
        };
        let seen = look(&mut state);
        if let Ok(index) = known {
            self.put(index, &rule.policy, state);
        }
        seen
    }

    /// Takes out what is known of a key, to be given back by [`Shard::give_back`] before the lock
    /// is; and whether anything is.
    pub(super) fn take_out(&mut self, rule: &Rule, slot_key: SlotKey) -> (State, bool) {
        let Ok(index) = self.slots.find(slot_key.0) else {
            self.rest.crowded += u64::from(self.is_full());
            return (self.newcomer(rule, slot_key), false);
        };
        (self.take(index, &rule.policy), true)
    }

    /// Gives back what was taken out of a key that is known.
    pub(super) fn give_back(&mut self, rule: &Rule, slot_key: SlotKey, state: State) {
        if let Ok(index) = self.slots.find(slot_key.0) {
            self.put(index, &rule.policy, state);
        }
    }

    /// Remembers a key that is not here yet: by itself if there is room, or else with its group.
    pub(super) fn add(
        &mut self,
        slot_key: SlotKey,
        policy: &Policy,
        state: State,
        now: Tick,
        limit_table: &RwLock<LimitTable>,
    ) {
        if self.is_full() {
            return self.fold(slot_key, policy, &state, limit_table);
        }
        if self.slots.is_crowded() {
            self.forget_idle(now, limit_table);
        }
        self.adopt(slot_key, policy, state);
    }

    /// As `add`, for what is owed already: by itself, even above the cap, if there is no group.
    pub(super) fn add_owing(
        &mut self,
        rule: &Rule,
        slot_key: SlotKey,
        state: State,
        now: Tick,
        limit_table: &RwLock<LimitTable>,
    ) {
        if self.make_room(now, 1, limit_table) || self.can_fold(rule, slot_key) {
            self.add(slot_key, &rule.policy, state, now, limit_table);
        } else {
            self.adopt(slot_key, &rule.policy, state);
        }
    }

    /// Forgets a key.
    pub(super) fn forget(&mut self, slot_key: SlotKey) {
        if let Ok(index) = self.slots.find(slot_key.0) {
            self.remove(index);
        }
    }

    /// Bytes in use: slots as far as they were ever touched, lists with their events.
    pub(super) fn bytes(&self) -> usize {
        let Rest { lists, groups, .. } = &*self.rest;
        size_of::<Rest>() + self.slots.bytes() + lists.bytes() + groups.bytes()
    }

    /// Writes `state` down; where something is written already, the worse of the two. It may
    /// be above the cap: a key that is owed something is never dropped.
    pub(super) fn adopt(&mut self, slot_key: SlotKey, policy: &Policy, state: State) {
        let Ok(index) = self.slots.find(slot_key.0) else {
            return self.insert(slot_key, policy, state);
        };
        let here = self.take(index, policy);
        let worse = policy.worse(&here, &state);
        // Of lists that are too long for one, the one that lasts longer stays.
        let longer =
            || if policy.forget_at(&here) < policy.forget_at(&state) { state } else { here };
        self.put(index, policy, worse.unwrap_or_else(longer));
    }

    /// The state that a key starts from: fresh, or what its group owes, since it may be one of
    /// those that had no room.
    pub(super) fn newcomer(&mut self, rule: &Rule, slot_key: SlotKey) -> State {
        let gists = self.rest.groups.gist(slot_key).into_iter().chain(self.rest.others_owe.take());
        let worst = gists.reduce(|a, b| rule.policy.worse_gist(a, b));
        worst.map_or_else(|| rule.policy.fresh(), |gist| rule.policy.of_gist(gist))
    }

    /// The state at `index`. A list is moved out: [`Shard::put`] moves it back.
    #[inline]
    pub(super) fn take(&mut self, index: usize, policy: &Policy) -> State {
        if self.keeps_lists {
            self.rest.lists.take(place(self.slots.state(index)), policy)
        } else {
            policy.unpack(self.slots.state(index))
        }
    }

    #[inline]
    pub(super) fn put(&mut self, index: usize, policy: &Policy, state: State) {
        if self.keeps_lists {
            self.rest.lists.put(place(self.slots.state(index)), state);
        } else {
            self.slots.set_state(index, policy.pack(&state));
        }
    }

    fn insert(&mut self, slot_key: SlotKey, policy: &Policy, state: State) {
        let words = if self.keeps_lists {
            [self.rest.lists.add(state) as u64, 0]
        } else {
            policy.pack(&state)
        };
        self.slots.insert(slot_key.0, words);
    }

    pub(super) fn remove(&mut self, index: usize) {
        if self.keeps_lists {
            self.rest.lists.free(place(self.slots.state(index)));
        }
        self.slots.remove(index);
    }
}
