//! What a shard forgets: states that are idle, and at the cap whatever is nearest to it.

use tidegate_core::{Policy, Span, State, Tick};

use super::book::{Book, read};
use super::shard::Shard;
use super::tag::{Tag, hash_of, rule_of};
use crate::sync::RwLock;

impl Shard {
    /// How many slots are looked at to find the one that is soonest fresh.
    const SAMPLE: usize = 32;

    /// Slots that are looked at in a sweep: a quarter of a slot a decision.
    const SLOTS_PER_SWEEP: usize = 64;

    /// How long a state is kept after it has become fresh. A key that comes back meanwhile is found
    /// where it was; to forget it and to make it anew takes three times as long.
    const IDLE: Span = Span::from_secs(30);

    /// Makes room for `count` more; if that cannot be, says how long it takes until it might.
    pub(super) fn make_room(
        &mut self,
        now: Tick,
        count: usize,
        book: &RwLock<Book>,
    ) -> Result<(), Span> {
        let has_room = |shard: &Shard| shard.slots.live() + count <= shard.slots.live_max();
        if has_room(self) {
            return Ok(());
        }
        if self.keeps_lists {
            self.purge(now, book);
            let room_in = || self.room_in(now, &read(book));
            return if has_room(self) { Ok(()) } else { Err(room_in()) };
        }
        self.forgets_by(now);
        let book = read(book);
        // Some make a crowd of themselves and free nothing, at most one of each rule.
        for _ in 0..self.slots.live() {
            let Some(index) = self.soonest_nearby(now, &book) else { break };
            let is_evicted = self.fold(index, now, &book);
            self.rest.evicted += u64::from(is_evicted);
            self.rest.forgotten += u64::from(!is_evicted);
            if has_room(self) {
                return Ok(());
            }
        }
        Err(self.room_in(now, &book))
    }

    /// Forgets all that are idle, unless that was done a short while ago: a shard that is about to
    /// grow would otherwise be gone through for every few keys that come.
    pub(super) fn forget_idle(&mut self, now: Tick, book: &RwLock<Book>) {
        if self.rest.purged_at.after(Shard::IDLE) <= now {
            self.rest.purged_at = now;
            self.purge(idle_by(now), book);
        }
    }

    /// Looks at the next few slots, and forgets those that are idle.
    pub(super) fn sweep(&mut self, now: Tick, book: &Book) {
        let by = idle_by(now);
        self.forgets_by(by);
        for _ in 0..Shard::SLOTS_PER_SWEEP.min(self.slots.len()) {
            if self.slots.len() <= self.rest.cursor {
                self.rest.cursor = 0;
            }
            if self.is_fresh(self.rest.cursor, by, book) {
                self.remove(self.rest.cursor);
                self.rest.forgotten += 1;
            } else {
                self.rest.cursor += 1;
            }
        }
    }

    /// Of the next few slots, the one that is soonest fresh. A crowd stays.
    fn soonest_nearby(&mut self, now: Tick, book: &Book) -> Option<usize> {
        let mut best: Option<(Tick, usize)> = None;
        let (mut cursor, mut seen) = (self.rest.cursor, 0);
        for _ in 0..self.slots.len() {
            cursor = if self.slots.len() <= cursor + 1 { 0 } else { cursor + 1 };
            if hash_of(self.slots.tag(cursor)) == 0 {
                continue;
            }
            let forget_at = self.forget_at(cursor, book);
            if best.is_none_or(|(soonest, _)| forget_at < soonest) {
                best = Some((forget_at, cursor));
            }
            seen += 1;
            if forget_at <= now || Shard::SAMPLE <= seen {
                break;
            }
        }
        self.rest.cursor = cursor;
        best.map(|(_, index)| index)
    }

    /// Drops the state at `index`; unless it is fresh, its rule's crowd owes as much from now on.
    /// Whether it does.
    fn fold(&mut self, index: usize, now: Tick, book: &Book) -> bool {
        let id = rule_of(self.slots.tag(index));
        let fresh = self.is_fresh(index, now, book);
        let words = self.slots.state(index);
        self.remove(index);
        if let Some(policy) = book.policy(id).filter(|_| !fresh) {
            self.adopt(Tag::crowd(id), policy, policy.unpack(words));
        }
        !fresh
    }

    /// Forgets all that were fresh by a tick, and have not been asked about since.
    fn purge(&mut self, by: Tick, book: &RwLock<Book>) {
        self.forgets_by(by);
        let book = read(book);
        let mut index = 0;
        while index < self.slots.len() {
            if self.is_fresh(index, by, &book) {
                self.remove(index);
                self.rest.forgotten += 1;
            } else {
                index += 1;
            }
        }
    }

    /// How long until the first state here is fresh; at least a tick.
    fn room_in(&self, now: Tick, book: &Book) -> Span {
        let taken = (0..self.slots.len()).filter(|&index| self.slots.tag(index) != 0);
        let soonest = taken.map(|index| self.forget_at(index, book)).min();
        soonest.unwrap_or(Tick::MAX).since(now).max(Span::from_micros(1))
    }

    fn is_fresh(&self, index: usize, now: Tick, book: &Book) -> bool {
        let id = rule_of(self.slots.tag(index));
        let seen = |policy: &Policy, state: &State| {
            // A list that owes nothing any more knows when it was last asked about.
            let is_past = state.seen().is_none_or(|(latest, _)| latest <= now);
            is_past && policy.is_fresh(state, now) && !book.is_owed_elsewhere(id, state, now)
        };
        self.slots.tag(index) != 0 && self.seen_by(index, book, seen).unwrap_or(false)
    }

    fn forget_at(&self, index: usize, book: &Book) -> Tick {
        self.seen_by(index, book, Policy::forget_at).unwrap_or(Tick::MAX)
    }

    /// What the policy of the state at `index` says of it; nothing of a list that is moved out.
    ///
    /// A state from before a change of quota is seen as what it would be carried over to: under the
    /// old policy alone it might be forgotten too soon.
    fn seen_by<T>(
        &self,
        index: usize,
        book: &Book,
        see: impl Fn(&Policy, &State) -> T,
    ) -> Option<T> {
        let id = rule_of(self.slots.tag(index));
        let policy = book.policy(id)?;
        let unpacked;
        let state = if self.keeps_lists {
            self.list(index)?
        } else {
            unpacked = policy.unpack(self.slots.state(index));
            &unpacked
        };
        let Some(latest) = book.latest_of(id) else { return Some(see(policy, state)) };
        let mut carried = state.clone();
        latest.carry(id, &mut carried);
        Some(see(&latest.policy, &carried))
    }
}

/// What was fresh by then is idle at `now`.
fn idle_by(now: Tick) -> Tick {
    Tick::from_micros(now.get().saturating_sub(Shard::IDLE.get()))
}
