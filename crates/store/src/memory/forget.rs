//! What a shard forgets: states that are idle, and at the cap all that are fresh.

use tidegate_core::{Kind, Policy, Span, State, Tick};

use super::limit_table::{LimitTable, read};
use super::rule::{Rule, RuleId};
use super::shard::Shard;
use super::slot_key::{SlotKey, rule_of};
use crate::sync::RwLock;

impl Shard {
    /// Slots that are looked at in a sweep: a quarter of a slot a decision.
    const SLOTS_PER_SWEEP: usize = 64;

    /// How long a state is kept after it has become fresh. A key that comes back meanwhile is found
    /// where it was; to forget it and to make it anew takes three times as long.
    const IDLE: Span = Span::from_secs(30);

    /// A full shard is gone through for fresh states at most once in so long for each slot that it
    /// has: with all shards of a million keys full, that is a sixth of one processor.
    const LOOK: Span = Span::from_micros(32);

    /// Whether there is room for `count` more; what is fresh makes room, if need be.
    pub(super) fn make_room(
        &mut self,
        now: Tick,
        count: usize,
        limit_table: &RwLock<LimitTable>,
    ) -> bool {
        let most = self.slots.live_max();
        if most < self.slots.live() + count && self.rest.room_at <= now {
            let limit_table = read(limit_table);
            let soonest = self.purge(now, &limit_table);
            self.rest.groups.forget(now, &limit_table);
            let rest = Shard::LOOK.get().saturating_mul(self.slots.len() as u64);
            self.rest.room_at = soonest.max(now.after(Span::from_micros(rest)));
        }
        self.slots.live() + count <= most
    }

    pub(super) fn is_full(&self) -> bool {
        self.slots.live_max() <= self.slots.live()
    }

    /// How long until there may be room again; at least a tick.
    pub(super) fn room_in(&self, now: Tick) -> Span {
        self.rest.room_at.since(now).max(Span::from_micros(1))
    }

    /// Whether a key that there is no room for can be judged with its group. Permits cannot: who
    /// gives one back would have to know whose it was.
    pub(super) fn can_fold(&self, rule: &Rule, slot_key: SlotKey) -> bool {
        rule.policy.kind() != Kind::Concurrency && self.rest.groups.has_room(slot_key)
    }

    /// Has the group of a key owe what the key owes, for which there is no room.
    pub(super) fn fold(
        &mut self,
        slot_key: SlotKey,
        policy: &Policy,
        state: &State,
        limit_table: &RwLock<LimitTable>,
    ) {
        let groups = &mut self.rest.groups;
        if groups.is_short(slot_key) {
            groups.make_room(slot_key, &read(limit_table));
        }
        groups.fold(slot_key, policy, policy.gist(state));
    }

    /// Forgets all that are idle, unless that was done a short while ago: a shard that is about to
    /// grow would otherwise be gone through for every few keys that come.
    pub(super) fn forget_idle(&mut self, now: Tick, limit_table: &RwLock<LimitTable>) {
        if self.rest.purged_at.after(Shard::IDLE) <= now {
            self.rest.purged_at = now;
            self.purge(idle_by(now), &read(limit_table));
        }
    }

    /// Forgets the state at `index` if something was given back to it and it is fresh, as long as
    /// nobody else would look for what is.
    pub(super) fn forget_paid(
        &mut self,
        index: usize,
        now: Tick,
        limit_table: &RwLock<LimitTable>,
    ) {
        if now < self.rest.room_at && self.is_fresh(index, now, &read(limit_table)) {
            self.remove(index);
            self.rest.forgotten += 1;
        }
    }

    /// Looks at the next few slots, and forgets those that are idle; groups once a round.
    pub(super) fn sweep(&mut self, now: Tick, limit_table: &LimitTable) {
        let by = idle_by(now);
        self.forgets_by(by);
        for _ in 0..Shard::SLOTS_PER_SWEEP.min(self.slots.len()) {
            if self.slots.len() <= self.rest.cursor {
                self.rest.cursor = 0;
                self.rest.groups.forget(by, limit_table);
            }
            if self.is_fresh(self.rest.cursor, by, limit_table) {
                self.remove(self.rest.cursor);
                self.rest.forgotten += 1;
            } else {
                self.rest.cursor += 1;
            }
        }
    }

    /// Forgets all that were fresh by a tick, and have not been asked about since. Says when the
    /// first of the others will be fresh.
    fn purge(&mut self, by: Tick, limit_table: &LimitTable) -> Tick {
        self.forgets_by(by);
        let (mut index, mut soonest) = (0, Tick::MAX);
        while index < self.slots.len() {
            if self.is_fresh(index, by, limit_table) {
                self.remove(index);
                self.rest.forgotten += 1;
                continue;
            }
            let fresh_at = |id, state: &State| Some(limit_table.policy(id)?.forget_at(state));
            let fresh_at = self.look_at(index, limit_table, fresh_at).flatten();
            soonest = soonest.min(fresh_at.unwrap_or(Tick::MAX));
            index += 1;
        }
        soonest
    }

    fn is_fresh(&self, index: usize, by: Tick, limit_table: &LimitTable) -> bool {
        let is_fresh = |id, state: &State| limit_table.is_fresh(id, state, by);
        self.look_at(index, limit_table, is_fresh).unwrap_or(false)
    }

    /// Looks at a state under the rule that it is written under; nothing of an empty slot, or of a
    /// list that is moved out.
    fn look_at<T>(
        &self,
        index: usize,
        limit_table: &LimitTable,
        look: impl FnOnce(RuleId, &State) -> T,
    ) -> Option<T> {
        let id = rule_of(self.slots.slot_key(index));
        let policy = limit_table.policy(id)?;
        if self.keeps_lists {
            return Some(look(id, self.list(index)?));
        }
        Some(look(id, &policy.unpack(self.slots.state(index))))
    }
}

/// What was fresh by then is idle at `now`.
fn idle_by(now: Tick) -> Tick {
    Tick::from_micros(now.get().saturating_sub(Shard::IDLE.get()))
}
