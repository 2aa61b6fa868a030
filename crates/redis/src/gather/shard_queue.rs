//! The queue of one server, and whether it is asked at all.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::Tick;

use super::behind_others;
use super::eager::{Eagerness, Waited};
use super::group::{Group, Outbox, Portion, Waiter};
use crate::breaker::{Breaker, Permission};
use crate::call::Request;
use crate::failure::StoreError;

/// The most requests that wait for one server; the next is refused at once.
const WAITING_MAX: usize = 16_384;
/// The most requests in one call: a server is kept from others for half a millisecond at most.
const CALL_MAX: usize = 128;
/// From so many on, they are split over several calls: while one is decided there, another's
/// answers are handed out here.
const SPLIT_FROM: usize = 16;
/// The most calls that are under way to one server: by many keys a call takes the server for longer
/// than it takes us to hand out another's answers.
const CALLS_MAX: usize = 2;
/// As `CALLS_MAX`, where most requests are alike. That is so little work for the server that with
/// two it would fall asleep between them, and waking it takes longer than all the rest.
const CALLS_MAX_ALIKE: usize = 3;
/// As many parties are found by what they ask; two that share a place are found one at a time.
const PLACES: usize = 256;

/// How often everybody else has a turn before a timer is set: the holder of the hand is mostly one
/// of them, and needs no longer.
const HAND_TRIES: usize = 4;
/// The longest that somebody waits for the hand: many times as long as handing out takes.
const HAND_WAIT: Duration = Duration::from_millis(1);

/// The queue of one server.
pub(super) struct ShardQueue {
    number: usize,
    /// Whose turn it is to hand out answers and to send the next call.
    hand: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

struct State {
    parties: VecDeque<Arc<Group>>,
    /// How many parties have ever left the queue: the number of the first that is there.
    first: u64,
    /// The number of the party that last came to each place; it may have left.
    places: Box<[u64; PLACES]>,
    /// How many wait, in all parties.
    waiting: usize,
    /// How many are on the way who will see to what waits.
    turns: usize,
    /// Whether one of them is a caller that sends its request itself. It may have stopped to poll,
    /// so those behind cannot rely on its deadline.
    is_alone: bool,
    /// How many requests are under way with them.
    away: usize,
    /// The latest deadline of all who are here, since nobody was.
    latest: Tick,
    eagerness: Eagerness,
    /// How many calls many are split over.
    calls_max: usize,
    breaker: Breaker,
}

/// How a call went, as far as that tells of its server.
#[derive(Clone, Copy, Debug)]
pub(super) enum Went {
    Well,
    /// It was sent then, and is known not to be answered now.
    Badly {
        sent: Tick,
        now: Tick,
    },
}

/// Whether somebody is to be started who takes what waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Start {
    Needed,
    NotNeeded,
}

/// What it means to have joined a queue.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) waiter: Waiter,
    pub(super) start: Start,
    /// Whether somebody here has more time, or nobody sees to it that it has an end: who cannot
    /// wait for that has to watch the clock.
    pub(super) behind_slower: bool,
}

/// What the next call takes.
pub(super) struct Taken {
    pub(super) portions: Vec<Portion>,
    pub(super) start: Start,
}

impl ShardQueue {
    pub(super) fn new(number: usize) -> ShardQueue {
        let state = State {
            parties: VecDeque::new(),
            first: 1,
            places: Box::new([0; PLACES]),
            waiting: 0,
            turns: 0,
            is_alone: false,
            away: 0,
            latest: Tick::default(),
            eagerness: Eagerness::default(),
            calls_max: CALLS_MAX,
            breaker: Breaker::new(),
        };
        ShardQueue { number, hand: tokio::sync::Mutex::default(), state: Mutex::new(state) }
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn is_asked(&self) -> bool {
        self.lock().breaker.is_closed()
    }

    /// Takes the turn if nobody is there; then [`ShardQueue::leave`] ends it.
    pub(super) fn enter_alone(
        &self,
        deadline: Tick,
        now: impl FnOnce() -> Tick,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        if 0 < state.turns {
            return Ok(false);
        }
        permit(&mut state.breaker, now)?;
        state.turns = 1;
        state.is_alone = true;
        state.away += 1;
        state.latest = state.latest.max(deadline);
        Ok(true)
    }

    /// The caller that had the turn alone has ended, or gone away.
    pub(super) fn alone_is_over(&self) {
        self.lock().is_alone = false;
    }

    /// Joins those who wait.
    pub(super) fn enter(
        &self,
        hash: u64,
        request: Request,
        deadline: Tick,
        now: impl FnOnce() -> Tick,
    ) -> Result<Entry, StoreError> {
        if let Some(entry) = self.join(hash, deadline, |other| other.is_like(&request)) {
            return Ok(entry);
        }
        let (party, waiter) = Group::new(request, deadline);
        let mut state = self.lock();
        permit(&mut state.breaker, now)?;
        if WAITING_MAX <= state.waiting {
            return Err(StoreError::Busy);
        }
        state.add(hash, party);
        Ok(state.entry(waiter, deadline))
    }

    /// Joins those who wait for the same, if there are any: that takes no request.
    pub(super) fn join(
        &self,
        hash: u64,
        deadline: Tick,
        is_like: impl FnOnce(&Request) -> bool,
    ) -> Option<Entry> {
        let mut state = self.lock();
        if !state.breaker.is_closed() || WAITING_MAX <= state.waiting {
            return None;
        }
        let waiter = state.find(hash).filter(|party| is_like(&party.request))?.join(deadline)?;
        Some(state.entry(waiter, deadline))
    }

    /// Refuses all who wait: there is nobody who could take them.
    pub(super) fn refuse_waiting(&self) {
        let mut outbox = Outbox::default();
        let mut state = self.lock();
        let all = state.waiting;
        let portions = state.take(all, Tick::default(), &mut outbox);
        drop(state);
        let ended = || Err(StoreError::NotCharged("the runtime has ended".into()));
        for portion in portions {
            portion.tell(&mut outbox, ended);
        }
    }

    /// Ends a turn that had `away` requests under way.
    pub(super) fn leave(&self, away: usize) -> Start {
        let mut state = self.lock();
        state.away -= away;
        state.turns -= 1;
        if state.turns == 0 && state.waiting == 0 {
            state.latest = Tick::default();
            // Had a probe been answered, the breaker would know.
            state.breaker.give_up_probe();
        }
        state.start()
    }

    /// What the next call takes of those that wait; `back` are back from the last one. Who has
    /// waited for too long is refused.
    pub(super) fn take_waiting(&self, back: usize, now: Tick, outbox: &mut Outbox) -> Taken {
        let mut state = self.lock();
        state.away -= back;
        let all = state.waiting + state.away;
        // With many about, only some of them: the others go with the other calls.
        let share = if SPLIT_FROM <= all { all.div_ceil(state.calls_max) } else { all };
        let some = share.min(CALL_MAX).min(state.waiting);
        let portions = state.take(some, now, outbox);
        state.away += count(&portions);
        Taken { portions, start: state.start() }
    }

    /// Whether to wait eagerly for the next call of many.
    pub(super) fn eagerness(&self) -> Eagerness {
        self.lock().eagerness
    }

    /// Learns from a call of many how it was waited for, and whether its requests were alike.
    pub(super) fn learn(&self, waited: Waited, are_alike: bool) {
        let mut state = self.lock();
        state.eagerness.learn(waited);
        state.calls_max = if are_alike { CALLS_MAX_ALIKE } else { CALLS_MAX };
    }

    /// Waits for its turn to hand out answers, for a moment. That keeps calls apart and nothing
    /// else: the holder of the hand may be on a thread that does something else for long.
    pub(super) async fn hand(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        for _ in 0..HAND_TRIES {
            if let Ok(hand) = self.hand.try_lock() {
                return Some(hand);
            }
            behind_others().await;
        }
        tokio::time::timeout(HAND_WAIT, self.hand.lock()).await.ok()
    }

    /// Tells the breaker how a call went; says whether it has opened.
    pub(super) fn note(&self, went: Went, luck: u64) -> bool {
        let mut state = self.lock();
        match went {
            Went::Badly { sent, now } => state.breaker.failed(sent, now, luck),
            Went::Well => {
                state.breaker.succeeded();
                false
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts in another turn if one is needed: for the first that waits, or for many.
    fn start(&mut self) -> Start {
        let is_first = self.turns == 0 && 0 < self.waiting;
        let are_many = self.turns < self.calls_max && SPLIT_FROM <= self.waiting;
        if !is_first && !are_many {
            return Start::NotNeeded;
        }
        self.turns += 1;
        Start::Needed
    }

    /// Counts in one who waits now.
    fn entry(&mut self, waiter: Waiter, deadline: Tick) -> Entry {
        self.waiting += 1;
        let behind_slower = self.is_alone || deadline < self.latest;
        self.latest = self.latest.max(deadline);
        Entry { waiter, start: self.start(), behind_slower }
    }

    /// Puts a party at the end of the queue, to be found by its hash.
    fn add(&mut self, hash: u64, party: Arc<Group>) {
        self.places[place(hash)] = self.first + self.parties.len() as u64;
        self.parties.push_back(party);
    }

    /// The party that came last to the place of that hash, if it is still here.
    fn find(&self, hash: u64) -> Option<&Arc<Group>> {
        let index = self.places[place(hash)].checked_sub(self.first)?;
        self.parties.get(usize::try_from(index).ok()?)
    }

    /// Takes the next `some` that wait.
    fn take(&mut self, mut some: usize, now: Tick, outbox: &mut Outbox) -> Vec<Portion> {
        let mut portions = Vec::with_capacity(some.min(self.parties.len()));
        self.waiting -= some;
        while 0 < some
            && let Some(party) = self.parties.front()
        {
            let (portion, is_last) = party.take(some, now, outbox);
            some -= portion.seats();
            if is_last {
                self.parties.pop_front();
                self.first += 1;
            }
            // All of them may have gone away, or be late.
            if 0 < portion.count() {
                portions.push(portion);
            }
        }
        portions
    }
}

fn place(hash: u64) -> usize {
    usize::try_from(hash % PLACES as u64).unwrap_or(0)
}

/// How many requests there are in these portions.
pub(super) fn count(portions: &[Portion]) -> usize {
    portions.iter().map(|portion| portion.count() as usize).sum()
}

/// Asks the breaker. A probe is one request among all: the next requests are refused until it is
/// answered, so it travels alone.
fn permit(breaker: &mut Breaker, now: impl FnOnce() -> Tick) -> Result<(), StoreError> {
    if breaker.is_closed() {
        return Ok(());
    }
    match breaker.permit(now()) {
        Permission::Ask | Permission::Probe => Ok(()),
        Permission::Refused { retry_after } => Err(StoreError::Resting { retry_after }),
    }
}

#[cfg(test)]
mod tests {
    use smallvec::SmallVec;
    use tidegate_core::Span;

    use super::*;
    use crate::gather::group::tests::sample;
    use crate::plan::Does;

    fn at(millis: u32) -> Tick {
        Tick::from_micros(1_000_000).after(Span::from_millis(millis))
    }

    /// Requests of different numbers are not alike.
    fn request(number: u32) -> Request {
        let does = Does::Renew { at: Tick::from_micros(number.into()) };
        Request { does, slot: 0, limits: SmallVec::new() }
    }

    /// A lane, and all who wait in it.
    struct Stand {
        lane: ShardQueue,
        waiters: Vec<Waiter>,
        entered: u32,
        alike: Request,
    }

    impl Stand {
        fn new() -> Stand {
            Stand { lane: ShardQueue::new(0), waiters: Vec::new(), entered: 0, alike: sample() }
        }

        fn enter_alone(&self, deadline: Tick, now: Tick) -> Result<bool, StoreError> {
            self.lane.enter_alone(deadline, || now)
        }

        /// Has one join that is like no other.
        fn enter_one(&mut self, deadline: Tick, now: Tick) -> Result<Entered, StoreError> {
            self.entered += 1;
            let (hash, request) = (self.entered.into(), request(self.entered));
            let entry = self.lane.enter(hash, request, deadline, || now)?;
            self.waiters.push(entry.waiter);
            Ok(Entered { start: entry.start, behind_slower: entry.behind_slower })
        }

        /// Has `count` join, and says how often somebody had to be started.
        fn enter(&mut self, count: usize) -> usize {
            let starts = (0..count).map(|_| self.enter_one(at(20), at(0)).unwrap().start);
            starts.filter(|start| *start == Start::Needed).count()
        }

        /// Has `count` join as `enter` does, but all alike.
        fn enter_alike(&mut self, count: usize) -> usize {
            let mut started = 0;
            for _ in 0..count {
                let entry = self.lane.enter(7, self.alike.clone(), at(20), || at(0)).unwrap();
                started += usize::from(entry.start == Start::Needed);
                self.waiters.push(entry.waiter);
            }
            started
        }

        /// How many are taken, in how many portions, and whether somebody is to be started.
        fn take(&self, back: usize, now: Tick) -> (usize, usize, Start) {
            let Taken { portions, start } =
                self.lane.take_waiting(back, now, &mut Outbox::default());
            (count(&portions), portions.len(), start)
        }
    }

    #[derive(Debug, PartialEq)]
    struct Entered {
        start: Start,
        behind_slower: bool,
    }

    #[test]
    fn whoever_comes_first_goes_alone_and_others_wait_for_it() {
        let mut stand = Stand::new();
        assert!(stand.enter_alone(at(20), at(0)).unwrap());
        assert!(!stand.enter_alone(at(20), at(0)).unwrap());
        assert_eq!(stand.enter(3), 0);
        assert_eq!(stand.lane.leave(1), Start::Needed);
        assert_eq!(stand.take(0, at(0)), (3, 3, Start::NotNeeded));
        assert_eq!(stand.lane.leave(3), Start::NotNeeded);
        assert!(stand.enter_alone(at(20), at(0)).unwrap());
    }

    #[test]
    fn many_are_split_over_two_calls_and_never_over_three() {
        let mut stand = Stand::new();
        assert!(stand.enter_alone(at(20), at(0)).unwrap());
        assert_eq!(stand.enter(63), 1);
        // 63 wait and one is away: half of 64 go now, the others with the next.
        assert_eq!(stand.take(0, at(0)), (32, 32, Start::NotNeeded));
        assert_eq!(stand.lane.leave(1), Start::Needed);
        assert_eq!(stand.take(0, at(0)).0, 31);
        assert_eq!(stand.enter(100), 0);
    }

    #[test]
    fn those_that_are_alike_are_one_portion_and_split_over_three_calls() {
        let mut stand = Stand::new();
        stand.lane.learn(Waited::InTime, true);
        assert_eq!(stand.enter_alike(64), 3);
        assert_eq!(stand.take(0, at(0)), (22, 1, Start::NotNeeded));
        assert_eq!(stand.take(0, at(0)).0, 22);
        assert_eq!(stand.take(0, at(0)).0, 20);
        // All of the first call ask again: the next takes them and nobody else.
        assert_eq!(stand.enter_alike(22), 0);
        assert_eq!(stand.take(22, at(0)), (22, 1, Start::NotNeeded));
        stand.lane.learn(Waited::InTime, false);
        assert_eq!(stand.enter(64), 0);
        assert_eq!(stand.take(22, at(0)).0, 53);
    }

    #[test]
    fn whoever_asks_the_same_as_one_that_waits_joins_it() {
        let mut stand = Stand::new();
        assert!(stand.lane.join(7, at(20), |_| true).is_none());
        stand.enter(1);
        stand.enter_alike(1);
        stand.enter(1);
        assert!(stand.lane.join(7, at(20), |_| false).is_none());
        let entry = stand.lane.join(7, at(20), |other| other.is_like(&stand.alike)).unwrap();
        assert_eq!(stand.take(0, at(0)), (4, 3, Start::NotNeeded));
        // What has left is not found any more.
        drop(entry);
        assert!(stand.lane.join(7, at(20), |_| true).is_none());
    }

    #[test]
    fn a_call_takes_no_more_than_its_bound_and_a_queue_no_more_than_its_own() {
        let mut stand = Stand::new();
        assert!(stand.enter_alone(at(20), at(0)).unwrap());
        stand.enter(WAITING_MAX - 1);
        stand.enter_alike(1);
        assert_eq!(stand.enter_one(at(20), at(0)), Err(StoreError::Busy));
        assert!(stand.lane.join(7, at(20), |_| true).is_none());
        assert_eq!(stand.take(0, at(0)).0, CALL_MAX);
        assert_eq!(stand.enter(CALL_MAX), 0);
    }

    #[test]
    fn who_has_waited_for_too_long_is_never_sent() {
        let mut stand = Stand::new();
        assert!(!stand.enter_one(at(20), at(0)).unwrap().behind_slower);
        stand.enter_one(at(30), at(10)).unwrap();
        assert_eq!(stand.take(0, at(20)), (1, 1, Start::NotNeeded));
    }

    #[test]
    fn who_comes_behind_somebody_with_more_time_is_told() {
        let mut stand = Stand::new();
        assert!(stand.enter_alone(at(1_000), at(0)).unwrap());
        assert!(stand.enter_one(at(20), at(0)).unwrap().behind_slower);
        stand.take(0, at(0));
        stand.lane.alone_is_over();
        assert_eq!(stand.lane.leave(2), Start::NotNeeded);
        // Nobody is here any more: the next caller waits for nobody.
        stand.enter_one(at(20), at(0)).unwrap();
        assert!(!stand.enter_one(at(21), at(1)).unwrap().behind_slower);
    }

    #[test]
    fn a_server_that_fails_is_left_alone() {
        let mut stand = Stand::new();
        let badly = Went::Badly { sent: at(0), now: at(0) };
        let failures: Vec<bool> = (0..3).map(|_| stand.lane.note(badly, 0)).collect();
        assert_eq!(failures, [false, false, true]);
        let resting = Err(StoreError::Resting { retry_after: Span::from_millis(50) });
        assert_eq!(stand.enter_alone(at(20), at(0)), resting);
        assert!(matches!(stand.enter_one(at(20), at(0)), Err(StoreError::Resting { .. })));
        // One may find out; if it goes away without an answer, the next may.
        assert!(stand.enter_alone(at(20), at(50)).unwrap());
        assert!(stand.enter_one(at(70), at(50)).is_err());
        assert_eq!(stand.lane.leave(1), Start::NotNeeded);
        assert!(stand.enter_alone(at(20), at(51)).unwrap());
        assert!(!stand.lane.note(Went::Well, 0));
        assert_eq!(stand.lane.leave(1), Start::NotNeeded);
        assert!(stand.lane.is_asked());
    }
}
