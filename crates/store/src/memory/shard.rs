//! One lock's worth of states: found, made, forgotten, and folded together when there is no room.

use tidegate_core::{Decision, Policy, Receipt, Span, State, Tick, Verdict};

use super::lists::{Lists, place};
use super::rule::{Book, Rule, read};
use super::slots::Slots;
use super::tag::{Tag, hash_of, rule_of};
use crate::sync::RwLock;

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

    pub(super) fn slots(&self) -> &Slots {
        &self.slots
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

    /// Decides one request, and charges it if it passes. `None` if the rule has become another one
    /// meanwhile, which is to be asked instead.
    pub(super) fn decide(
        &mut self,
        rule: &Rule,
        tag: Tag,
        now: Tick,
        cost: u32,
        book: &RwLock<Book>,
    ) -> Option<(Decision, Option<Receipt>)> {
        let Ok(index) = self.find(rule, tag) else {
            return self.decide_new(rule, tag, now, cost, book);
        };
        let mut state = self.take(index, &rule.policy);
        let answer = rule.policy.decide_with_receipt(&mut state, now, cost);
        self.put(index, &rule.policy, state);
        Some(answer)
    }

    /// The state of a key that is here, where states are of one word.
    #[inline]
    pub(super) fn word_of(&mut self, tag: Tag) -> Option<&mut u64> {
        self.slots.word_of(tag.0)
    }

    /// The same for a key that is not here: only what is charged is remembered.
    fn decide_new(
        &mut self,
        rule: &Rule,
        tag: Tag,
        now: Tick,
        cost: u32,
        book: &RwLock<Book>,
    ) -> Option<(Decision, Option<Receipt>)> {
        let book = &*read(book);
        if book.latest(rule).is_some() {
            return None;
        }
        let mut state = self.newcomer(rule);
        let answer = rule.policy.decide_with_receipt(&mut state, now, cost);
        if 0 < cost && answer.1.is_some() {
            if let Err(retry_after) = self.make_room(now, book) {
                let verdict = Verdict::Deny { retry_after };
                let fresh = rule.policy.peek(&mut rule.policy.fresh(), now, 0);
                return Some((Decision { verdict, remaining: 0, ..fresh }, None));
            }
            if self.slots.is_crowded() {
                self.purge(now, book);
                self.slots.grow_unless_sparse();
            }
            self.insert(tag, &rule.policy, state);
        }
        Some(answer)
    }

    /// What is known of a key, without making it known.
    pub(super) fn load(&mut self, rule: &Rule, tag: Tag) -> State {
        match self.find(rule, tag) {
            Ok(index) => {
                let state = self.take(index, &rule.policy);
                self.put(index, &rule.policy, state.clone());
                state
            }
            Err(_) => self.newcomer(rule),
        }
    }

    /// Sees to it that a key can be remembered, where up to `count` may be new; if it cannot, says
    /// how long it takes until it can.
    pub(super) fn prepare(
        &mut self,
        rule: &Rule,
        tag: Tag,
        now: Tick,
        count: usize,
        book: &Book,
    ) -> Result<(), Span> {
        // States in words can always be folded together; only lists may have to stay.
        if self.lists.is_none() || self.find(rule, tag).is_ok() {
            return Ok(());
        }
        let has_room = |shard: &Shard| shard.slots.live() + count <= shard.slots.live_max();
        if !has_room(self) {
            self.purge(now, book);
        }
        if has_room(self) { Ok(()) } else { Err(self.room_in(now, book)) }
    }

    /// Remembers `state` for a key that may be new.
    pub(super) fn keep(&mut self, rule: &Rule, tag: Tag, state: State, now: Tick, book: &Book) {
        if let Ok(index) = self.find(rule, tag) {
            return self.put(index, &rule.policy, state);
        }
        // Prepared for, so it succeeds.
        let _ = self.make_room(now, book);
        self.insert(tag, &rule.policy, state);
    }

    /// Gives back what was charged, if anything is still known of it.
    pub(super) fn refund(&mut self, rule: &Rule, tag: Tag, now: Tick, receipt: Receipt) {
        if let Ok(index) = self.find(rule, tag) {
            let mut state = self.take(index, &rule.policy);
            rule.policy.refund(&mut state, now, receipt);
            self.put(index, &rule.policy, state);
        }
    }

    /// Forgets a key.
    pub(super) fn forget(&mut self, rule: &Rule, tag: Tag) {
        if let Ok(index) = self.find(rule, tag) {
            self.remove(index);
        }
    }

    /// Takes over what `old` knows of a key, and of the crowd, from before its rule moved here.
    pub(super) fn inherit(&mut self, old: &mut Shard, rule: &Rule, tag: Tag) {
        for tag in [tag, Tag::crowd(rule.id)] {
            if let Some(state) = old.take_inherited(rule, tag) {
                // Even above the cap: a key that is owed something is never dropped.
                self.insert(tag, &rule.policy, state);
            }
        }
    }

    fn take_inherited(&mut self, rule: &Rule, tag: Tag) -> Option<State> {
        let index = self.slots.find(tag.0, |here| rule.inherits(rule_of(here))).ok()?;
        let id = rule_of(self.slots.tag(index));
        let before = rule.before().iter().find(|before| before.id == id)?;
        let mut state = self.take(index, &before.policy);
        self.remove(index);
        rule.carry(id, &mut state);
        Some(state)
    }

    /// Looks at the next few slots, and forgets those that are fresh.
    pub(super) fn sweep(&mut self, now: Tick, book: &Book) {
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
    }

    /// Where `tag` is; a state from before a change of quota is carried over first.
    #[inline]
    fn find(&mut self, rule: &Rule, tag: Tag) -> Result<usize, usize> {
        if rule.before.is_none() {
            return self.slots.find(tag.0, |_| false);
        }
        let index = self.slots.find(tag.0, |here| rule.inherits(rule_of(here)))?;
        if self.slots.tag(index) == tag.0 {
            return Ok(index);
        }
        if let Some(state) = self.take_inherited(rule, tag) {
            self.insert(tag, &rule.policy, state);
        }
        self.slots.find(tag.0, |_| false)
    }

    /// The state that a key starts from: fresh, or what those consumed that had to make room.
    ///
    /// One of them may be this key, so it is owed as much as the worst of them.
    fn newcomer(&mut self, rule: &Rule) -> State {
        let crowd = self.find(rule, Tag::crowd(rule.id));
        let Ok(index) = crowd else { return rule.policy.fresh() };
        rule.policy.unpack(self.slots.state(index))
    }

    /// Makes room for one more; if that cannot be, says how long it takes until it can.
    fn make_room(&mut self, now: Tick, book: &Book) -> Result<(), Span> {
        if !self.slots.is_full() {
            return Ok(());
        }
        if self.lists.is_some() {
            self.purge(now, book);
            return if self.slots.is_full() { Err(self.room_in(now, book)) } else { Ok(()) };
        }
        // The first of a rule to go makes a crowd of itself and frees nothing: two will do.
        for _ in 0..2 {
            match self.soonest_nearby(now, book) {
                Some(index) => self.fold(index, now, book),
                None => break,
            }
            if !self.slots.is_full() {
                return Ok(());
            }
        }
        Err(self.room_in(now, book))
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
    fn fold(&mut self, index: usize, now: Tick, book: &Book) {
        let id = rule_of(self.slots.tag(index));
        let fresh = self.is_fresh(index, now, book);
        let state = self.slots.state(index);
        self.remove(index);
        let Some(policy) = book.policy(id).filter(|_| !fresh) else { return };
        let Ok(crowd) = self.slots.find(Tag::crowd(id).0, |_| false) else {
            return self.slots.insert(Tag::crowd(id).0, state);
        };
        let (a, b) = (policy.unpack(self.slots.state(crowd)), policy.unpack(state));
        if let Some(worse) = policy.worse(&a, &b) {
            self.slots.set_state(crowd, policy.pack(&worse));
        }
    }

    /// Forgets all that are fresh.
    fn purge(&mut self, now: Tick, book: &Book) {
        let mut index = 0;
        while index < self.slots.len() {
            if self.is_fresh(index, now, book) {
                self.remove(index);
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
        let tag = self.slots.tag(index);
        tag != 0 && self.seen_by(index, book, |policy, state| policy.is_fresh(state, now))
    }

    fn forget_at(&self, index: usize, book: &Book) -> Tick {
        self.seen_by(index, book, Policy::forget_at)
    }

    /// What the policy of the state at `index` says of it; nothing of a rule that is unknown.
    fn seen_by<T: Default>(
        &self,
        index: usize,
        book: &Book,
        see: impl Fn(&Policy, &State) -> T,
    ) -> T {
        let Some(policy) = book.policy(rule_of(self.slots.tag(index))) else {
            return T::default();
        };
        match &self.lists {
            None => see(policy, &policy.unpack(self.slots.state(index))),
            Some(lists) => {
                let state = lists.get(place(self.slots.state(index)));
                state.map_or_else(T::default, |state| see(policy, state))
            }
        }
    }

    /// The state at `index`. A list is moved out: [`Shard::put`] moves it back.
    #[inline]
    fn take(&mut self, index: usize, policy: &Policy) -> State {
        match &mut self.lists {
            None => policy.unpack(self.slots.state(index)),
            Some(lists) => lists.take(place(self.slots.state(index)), policy),
        }
    }

    #[inline]
    fn put(&mut self, index: usize, policy: &Policy, state: State) {
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

    fn remove(&mut self, index: usize) {
        if let Some(lists) = &mut self.lists {
            lists.free(place(self.slots.state(index)));
        }
        self.slots.remove(index);
    }
}
