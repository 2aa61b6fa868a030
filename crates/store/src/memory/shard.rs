//! One lock's worth of states: found, made, forgotten, and folded together when there is no room.

use tidegate_core::{Decision, Policy, Receipt, Span, State, Tick, Verdict};

use super::book::{Book, read};
use super::lists::{Lists, place};
use super::rule::Rule;
use super::slots::Slots;
use super::table::Table;
use super::tag::{Tag, hash_of, rule_of};
use crate::sync::RwLock;

/// What a shard has to know of what is around it, when it makes room. A key that is known needs
/// none of it, so the book is not even opened for one.
#[derive(Clone, Copy)]
pub(super) struct Outside<'a> {
    pub(super) book: &'a RwLock<Book>,
    pub(super) table: &'a Table,
}

/// The states of the keys whose hashes begin alike.
#[derive(Debug)]
pub(super) struct Shard {
    slots: Slots,
    /// States that do not fit words; a slot then holds the place here.
    lists: Option<Box<Lists>>,
    /// Where the sweep goes on.
    cursor: u32,
    /// Decisions since the last sweep that this shard asked for.
    calls: u32,
}

impl Shard {
    /// How many slots are looked at to find the one that is soonest fresh.
    const SAMPLE: usize = 32;

    /// Decisions between two sweeps, and slots looked at in one: a quarter of a slot a decision.
    const CALLS_PER_SWEEP: u32 = 256;
    const SLOTS_PER_SWEEP: usize = 64;

    /// A shard of at most `live_max` states of `words` words each, or of lists if that is zero.
    pub(super) fn new(words: usize, live_max: usize) -> Shard {
        let lists = (words == 0).then(Box::default);
        Shard { slots: Slots::new(1 + words.max(1), live_max), lists, cursor: 0, calls: 0 }
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
        self.lists.as_ref()?.get(place(self.slots.state(index)))
    }

    /// Whether it is time for somebody to sweep.
    #[inline]
    pub(super) fn counts_call(&mut self) -> bool {
        self.calls += 1;
        if self.calls < Shard::CALLS_PER_SWEEP {
            return false;
        }
        self.calls = 0;
        true
    }

    /// Decides one request, and charges it if it passes.
    pub(super) fn decide(
        &mut self,
        rule: &Rule,
        tag: Tag,
        now: Tick,
        cost: u32,
        outside: Outside<'_>,
    ) -> (Decision, Option<Receipt>) {
        let Ok(index) = self.find(rule, tag) else {
            return self.decide_new(rule, tag, now.max(outside.table.swept_at()), cost, outside);
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
        tag: Tag,
        now: Tick,
        cost: u32,
        outside: Outside<'_>,
    ) -> (Decision, Option<Receipt>) {
        let mut state = self.newcomer(rule);
        let answer = rule.policy.decide_with_receipt(&mut state, now, cost);
        if cost == 0 || answer.1.is_none() {
            return answer;
        }
        if let Err(retry_after) = self.make_room(now, 1, outside) {
            let verdict = Verdict::Deny { retry_after };
            let fresh = rule.policy.peek(&mut rule.policy.fresh(), now, 0);
            return (Decision { verdict, remaining: 0, ..fresh }, None);
        }
        self.add(tag, &rule.policy, state, now, outside);
        answer
    }

    /// What a decision would be, without charging.
    pub(super) fn peek(&mut self, rule: &Rule, tag: Tag, now: Tick, cost: u32) -> Decision {
        let known = self.find(rule, tag);
        let mut state = match known {
            Ok(index) => self.take(index, &rule.policy),
            Err(_) => self.newcomer(rule),
        };
        let decision = rule.policy.peek(&mut state, now, cost);
        if let Ok(index) = known {
            self.put(index, &rule.policy, state);
        }
        decision
    }

    /// Takes out what is known of a key, to be given back by [`Shard::give_back`] before the lock
    /// is; and whether anything is.
    pub(super) fn take_out(&mut self, rule: &Rule, tag: Tag) -> (State, bool) {
        match self.find(rule, tag) {
            Ok(index) => (self.take(index, &rule.policy), true),
            Err(_) => (self.newcomer(rule), false),
        }
    }

    /// Gives back what was taken out of a key that is known.
    pub(super) fn give_back(&mut self, rule: &Rule, tag: Tag, state: State) {
        if let Ok(index) = self.find(rule, tag) {
            self.put(index, &rule.policy, state);
        }
    }

    /// Remembers a key that is not here yet. Room was made for it.
    pub(super) fn add(
        &mut self,
        tag: Tag,
        policy: &Policy,
        state: State,
        now: Tick,
        outside: Outside<'_>,
    ) {
        if self.slots.is_crowded() {
            self.purge(now, outside);
            self.slots.grow_unless_sparse();
        }
        self.adopt(tag, policy, state);
    }

    /// Forgets a key.
    pub(super) fn forget(&mut self, rule: &Rule, tag: Tag) {
        if let Ok(index) = self.find(rule, tag) {
            self.remove(index);
        }
    }

    /// Makes room for `count` more; if that cannot be, says how long it takes until it might.
    pub(super) fn make_room(
        &mut self,
        now: Tick,
        count: usize,
        outside: Outside<'_>,
    ) -> Result<(), Span> {
        let has_room = |shard: &Shard| shard.slots.live() + count <= shard.slots.live_max();
        if has_room(self) {
            return Ok(());
        }
        if self.lists.is_some() {
            self.purge(now, outside);
            let room_in = || self.room_in(now, &read(outside.book));
            return if has_room(self) { Ok(()) } else { Err(room_in()) };
        }
        outside.table.forgets_by(now);
        let book = read(outside.book);
        // Some make a crowd of themselves and free nothing, at most one of each rule.
        for _ in 0..self.slots.live() {
            let Some(index) = self.soonest_nearby(now, &book) else { break };
            let is_evicted = self.fold(index, now, &book);
            outside.table.counts(usize::from(is_evicted), usize::from(!is_evicted));
            if has_room(self) {
                return Ok(());
            }
        }
        Err(self.room_in(now, &book))
    }

    /// Looks at the next few slots, and forgets those that are fresh; says how many.
    pub(super) fn sweep(&mut self, now: Tick, book: &Book) -> usize {
        let before = self.slots.live();
        let mut cursor = self.cursor as usize;
        for _ in 0..Shard::SLOTS_PER_SWEEP.min(self.slots.len()) {
            if self.slots.len() <= cursor {
                cursor = 0;
            }
            if self.is_fresh(cursor, now, book) {
                self.remove(cursor);
            } else {
                cursor += 1;
            }
        }
        self.cursor = u32::try_from(cursor).unwrap_or(0);
        before - self.slots.live()
    }

    /// Bytes in use: slots as far as they were ever touched, lists with their events.
    pub(super) fn bytes(&self) -> usize {
        self.slots.bytes() + self.lists.as_deref().map_or(0, Lists::bytes)
    }

    /// Where `tag` is; what is known of it from before a change of quota is carried over first.
    #[inline]
    pub(super) fn find(&mut self, rule: &Rule, tag: Tag) -> Result<usize, usize> {
        if rule.before.is_some() {
            while let Some(state) = self.take_inherited(rule, tag) {
                self.adopt(tag, &rule.policy, state);
            }
        }
        self.slots.find(tag.0)
    }

    /// Takes out one state that was written for `tag` before its quota changed, carried over.
    pub(super) fn take_inherited(&mut self, rule: &Rule, tag: Tag) -> Option<State> {
        let index = self.slots.find_like(tag.0, |here| rule.was(rule_of(here)).is_some())?;
        let id = rule_of(self.slots.tag(index));
        let mut state = self.take(index, &rule.was(id)?.policy);
        self.remove(index);
        rule.carry(id, &mut state);
        Some(state)
    }

    /// Writes `state` under `tag`; where something is written already, the worse of the two. It may
    /// be above the cap: a key that is owed something is never dropped.
    pub(super) fn adopt(&mut self, tag: Tag, policy: &Policy, state: State) {
        let Ok(index) = self.slots.find(tag.0) else {
            return self.insert(tag, policy, state);
        };
        let here = self.take(index, policy);
        let worse = policy.worse(&here, &state);
        // Of lists that are too long for one, the one that lasts longer stays.
        let longer =
            || if policy.forget_at(&here) < policy.forget_at(&state) { state } else { here };
        self.put(index, policy, worse.unwrap_or_else(longer));
    }

    /// The state that a key starts from: fresh, or what those consumed that had to make room.
    ///
    /// One of them may be this key, so it owes as much as the worst of them.
    fn newcomer(&mut self, rule: &Rule) -> State {
        let Ok(index) = self.find(rule, Tag::crowd(rule.id)) else { return rule.policy.fresh() };
        let state = self.take(index, &rule.policy);
        self.put(index, &rule.policy, state.clone());
        state
    }

    /// Of the next few slots, the one that is soonest fresh. A crowd stays.
    fn soonest_nearby(&mut self, now: Tick, book: &Book) -> Option<usize> {
        let mut best: Option<(Tick, usize)> = None;
        let (mut cursor, mut seen) = (self.cursor as usize, 0);
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
        self.cursor = u32::try_from(cursor).unwrap_or(0);
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

    /// Forgets all that are fresh.
    fn purge(&mut self, now: Tick, outside: Outside<'_>) {
        outside.table.forgets_by(now);
        let book = read(outside.book);
        let before = self.slots.live();
        let mut index = 0;
        while index < self.slots.len() {
            if self.is_fresh(index, now, &book) {
                self.remove(index);
            } else {
                index += 1;
            }
        }
        outside.table.counts(0, before - self.slots.live());
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
            policy.is_fresh(state, now) && !book.is_owed_elsewhere(id, state, now)
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
        let state = match &self.lists {
            None => {
                unpacked = policy.unpack(self.slots.state(index));
                &unpacked
            }
            Some(lists) => lists.get(place(self.slots.state(index)))?,
        };
        let Some(latest) = book.latest_of(id) else { return Some(see(policy, state)) };
        let mut carried = state.clone();
        latest.carry(id, &mut carried);
        Some(see(&latest.policy, &carried))
    }

    /// The state at `index`. A list is moved out: [`Shard::put`] moves it back.
    #[inline]
    pub(super) fn take(&mut self, index: usize, policy: &Policy) -> State {
        match &mut self.lists {
            None => policy.unpack(self.slots.state(index)),
            Some(lists) => lists.take(place(self.slots.state(index)), policy),
        }
    }

    #[inline]
    pub(super) fn put(&mut self, index: usize, policy: &Policy, state: State) {
        match &mut self.lists {
            None => self.slots.set_state(index, policy.pack(&state)),
            Some(lists) => lists.put(place(self.slots.state(index)), state),
        }
    }

    fn insert(&mut self, tag: Tag, policy: &Policy, state: State) {
        match &mut self.lists {
            None => self.slots.insert(tag.0, policy.pack(&state)),
            Some(lists) => {
                let place = lists.add(state) as u64;
                self.slots.insert(tag.0, [place, 0]);
            }
        }
    }

    pub(super) fn remove(&mut self, index: usize) {
        if let Some(lists) = &mut self.lists {
            lists.free(place(self.slots.state(index)));
        }
        self.slots.remove(index);
    }
}
