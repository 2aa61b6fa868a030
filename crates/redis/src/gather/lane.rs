//! The queue of one server, and whether it is asked at all.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::Tick;
use tokio::sync::oneshot;

use super::Answer;
use super::eager::{Eagerness, Waited};
use crate::breaker::{Breaker, Permission};
use crate::call::Request;
use crate::failure::StoreError;

/// The most requests that wait for one server; the next is refused at once.
const WAITING_MAX: usize = 16_384;
/// The most requests in one call: a server is kept from others for half a millisecond at most.
const CALL_MAX: usize = 128;
/// From so many on, they are split over two calls: while one is decided there, the other's answers
/// are handed out here.
const SPLIT_FROM: usize = 16;
/// The most calls that are under way to one server.
const CALLS_MAX: u8 = 2;

/// A request that waits, and who waits for it.
pub(super) struct Job {
    pub(super) request: Request,
    pub(super) deadline: Tick,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// The queue of one server.
pub(super) struct Lane {
    number: usize,
    state: Mutex<State>,
}

struct State {
    waiting: VecDeque<Job>,
    /// How many are on the way who will see to what waits.
    turns: u8,
    /// How many requests are under way with them.
    away: usize,
    /// The latest deadline of all who are here, since nobody was.
    latest: Tick,
    eagerness: Eagerness,
    /// Whether many are split over two calls. Not those that are alike: what the server has to do
    /// for them is so little that a second call would take longer.
    splits: bool,
    breaker: Breaker,
}

/// Whether somebody is to be started who takes what waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Start {
    Needed,
    NotNeeded,
}

/// What it means to have joined a queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Entry {
    pub(super) start: Start,
    /// Whether somebody here has more time: who cannot wait for that has to watch the clock.
    pub(super) behind_slower: bool,
}

impl Job {
    pub(super) fn new(request: Request, deadline: Tick, answer: oneshot::Sender<Answer>) -> Job {
        Job { request, deadline, answer }
    }
}

impl Lane {
    pub(super) fn new(number: usize) -> Lane {
        let state = State {
            waiting: VecDeque::new(),
            turns: 0,
            away: 0,
            latest: Tick::default(),
            eagerness: Eagerness::default(),
            splits: true,
            breaker: Breaker::new(),
        };
        Lane { number, state: Mutex::new(state) }
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn is_asked(&self) -> bool {
        self.lock().breaker.is_closed()
    }

    /// Takes the turn if nobody is there; then [`Lane::leave`] ends it.
    pub(super) fn enter_alone(&self, deadline: Tick, now: Tick) -> Result<bool, StoreError> {
        let mut state = self.lock();
        if 0 < state.turns {
            return Ok(false);
        }
        permit(&mut state.breaker, now)?;
        state.turns = 1;
        state.away += 1;
        state.latest = state.latest.max(deadline);
        Ok(true)
    }

    /// Joins those who wait.
    pub(super) fn enter(&self, job: Job, now: Tick) -> Result<Entry, StoreError> {
        let mut state = self.lock();
        permit(&mut state.breaker, now)?;
        if WAITING_MAX <= state.waiting.len() {
            return Err(StoreError::Busy);
        }
        let behind_slower = job.deadline < state.latest;
        state.latest = state.latest.max(job.deadline);
        state.waiting.push_back(job);
        Ok(Entry { start: state.start(), behind_slower })
    }

    /// Refuses all who wait: there is nobody who could take them.
    pub(super) fn refuse_waiting(&self) {
        let waiting = std::mem::take(&mut self.lock().waiting);
        for job in waiting {
            let _ = job.answer.send(Err(StoreError::NotCharged("the runtime has ended".into())));
        }
    }

    /// Ends a turn that had `away` requests under way.
    pub(super) fn leave(&self, away: usize) -> Start {
        let mut state = self.lock();
        state.away -= away;
        state.turns -= 1;
        if state.turns == 0 && state.waiting.is_empty() {
            state.latest = Tick::default();
            // Had a probe been answered, the breaker would know.
            state.breaker.give_up_probe();
        }
        state.start()
    }

    /// What the next call takes of those that wait; `back` are back from the last one. Who has
    /// waited for too long is refused.
    pub(super) fn take_waiting(&self, back: usize, now: Tick) -> (Vec<Job>, Start) {
        let mut state = self.lock();
        state.away -= back;
        let all = state.waiting.len() + state.away;
        // With many about, half of them: the other half goes with the other call.
        let share = if state.splits && SPLIT_FROM <= all { all.div_ceil(2) } else { all };
        let some = share.min(CALL_MAX).min(state.waiting.len());
        let jobs: Vec<Job> = state.waiting.drain(..some).collect();
        let jobs: Vec<Job> = jobs.into_iter().filter_map(|job| in_time(job, now)).collect();
        state.away += jobs.len();
        (jobs, state.start())
    }

    /// Whether to wait eagerly for the next call of many.
    pub(super) fn eagerness(&self) -> Eagerness {
        self.lock().eagerness
    }

    /// Learns from a call of many how it was waited for, and whether its requests were alike.
    pub(super) fn learn(&self, waited: Waited, are_alike: bool) {
        let mut state = self.lock();
        state.eagerness.learn(waited);
        state.splits = !are_alike;
    }

    /// Tells the breaker how a call went; says whether it has opened.
    pub(super) fn note(&self, failed: bool, now: Tick, luck: u64) -> bool {
        let mut state = self.lock();
        if failed {
            return state.breaker.failed(now, luck);
        }
        state.breaker.succeeded();
        false
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts in another turn if one is needed: for the first that waits, or for many.
    fn start(&mut self) -> Start {
        let is_first = self.turns == 0 && !self.waiting.is_empty();
        let has_room = self.turns < CALLS_MAX && self.splits;
        let are_many = has_room && SPLIT_FROM <= self.waiting.len();
        if !is_first && !are_many {
            return Start::NotNeeded;
        }
        self.turns += 1;
        Start::Needed
    }
}

/// Asks the breaker. A probe is one request among all: whoever comes next is refused until it is
/// answered, so it travels alone.
fn permit(breaker: &mut Breaker, now: Tick) -> Result<(), StoreError> {
    match breaker.permit(now) {
        Permission::Ask | Permission::Probe => Ok(()),
        Permission::Refused { retry_after } => Err(StoreError::Resting { retry_after }),
    }
}

/// Refuses a job that has waited for too long; it was never sent.
fn in_time(job: Job, now: Tick) -> Option<Job> {
    if now < job.deadline {
        return Some(job);
    }
    let late = StoreError::NotCharged("it was not sent within its deadline".into());
    let _ = job.answer.send(Err(late));
    None
}

#[cfg(test)]
mod tests {
    use smallvec::SmallVec;
    use tidegate_core::Span;
    use tokio::sync::oneshot::Receiver;

    use super::*;
    use crate::plan::Does;

    fn at(millis: u32) -> Tick {
        Tick::from_micros(1_000_000).after(Span::from_millis(millis))
    }

    fn job(deadline: Tick) -> (Job, Receiver<Answer>) {
        let request = Request { does: Does::Peek, slot: 0, limits: SmallVec::new() };
        let (answer, answered) = oneshot::channel();
        (Job::new(request, deadline, answer), answered)
    }

    /// Has `count` join, and says how often somebody had to be started.
    fn enter(lane: &Lane, count: usize) -> usize {
        let start = |_| lane.enter(job(at(20)).0, at(0)).unwrap().start;
        { 0..count }.map(start).filter(|start| *start == Start::Needed).count()
    }

    #[test]
    fn whoever_comes_first_goes_alone_and_others_wait_for_it() {
        let lane = Lane::new(0);
        assert!(lane.enter_alone(at(20), at(0)).unwrap());
        assert!(!lane.enter_alone(at(20), at(0)).unwrap());
        assert_eq!(enter(&lane, 3), 0);
        assert_eq!(lane.leave(1), Start::Needed);
        let (jobs, start) = lane.take_waiting(0, at(0));
        assert_eq!((jobs.len(), start), (3, Start::NotNeeded));
        assert_eq!(lane.leave(3), Start::NotNeeded);
        assert!(lane.enter_alone(at(20), at(0)).unwrap());
    }

    #[test]
    fn many_are_split_over_two_calls_and_never_over_three() {
        let lane = Lane::new(0);
        assert!(lane.enter_alone(at(20), at(0)).unwrap());
        assert_eq!(enter(&lane, 63), 1);
        // 63 wait and one is away: half of 64 go now, the others with the next.
        let (jobs, start) = lane.take_waiting(0, at(0));
        assert_eq!((jobs.len(), start), (32, Start::NotNeeded));
        assert_eq!(lane.leave(1), Start::Needed);
        assert_eq!(lane.take_waiting(0, at(0)).0.len(), 31);
        assert_eq!(enter(&lane, 100), 0);
    }

    #[test]
    fn those_that_are_alike_are_not_split() {
        let lane = Lane::new(0);
        lane.learn(Waited::InTime, true);
        assert!(lane.enter_alone(at(20), at(0)).unwrap());
        assert_eq!(enter(&lane, 63), 0);
        assert_eq!(lane.leave(1), Start::Needed);
        assert_eq!(lane.take_waiting(0, at(0)).0.len(), 63);
        lane.learn(Waited::InTime, false);
        assert_eq!(enter(&lane, 16), 1);
    }

    #[test]
    fn a_call_takes_no_more_than_its_bound_and_a_queue_no_more_than_its_own() {
        let lane = Lane::new(0);
        assert!(lane.enter_alone(at(20), at(0)).unwrap());
        enter(&lane, WAITING_MAX);
        assert_eq!(lane.enter(job(at(20)).0, at(0)), Err(StoreError::Busy));
        assert_eq!(lane.take_waiting(0, at(0)).0.len(), CALL_MAX);
        assert_eq!(enter(&lane, CALL_MAX), 0);
    }

    #[test]
    fn who_has_waited_for_too_long_is_refused_and_never_sent() {
        let lane = Lane::new(0);
        let (overdue, mut answered) = job(at(20));
        assert!(!lane.enter(overdue, at(0)).unwrap().behind_slower);
        lane.enter(job(at(30)).0, at(10)).unwrap();
        assert_eq!(lane.take_waiting(0, at(20)).0.len(), 1);
        assert!(matches!(answered.try_recv(), Ok(Err(StoreError::NotCharged(_)))));
    }

    #[test]
    fn who_comes_behind_somebody_with_more_time_is_told() {
        let lane = Lane::new(0);
        assert!(lane.enter_alone(at(1_000), at(0)).unwrap());
        assert!(lane.enter(job(at(20)).0, at(0)).unwrap().behind_slower);
        lane.take_waiting(0, at(0));
        assert_eq!(lane.leave(2), Start::NotNeeded);
        // Nobody is here any more: whoever comes now waits for nobody.
        assert!(lane.enter_alone(at(20), at(0)).unwrap());
        assert!(!lane.enter(job(at(21)).0, at(1)).unwrap().behind_slower);
    }

    #[test]
    fn a_server_that_fails_is_left_alone() {
        let lane = Lane::new(0);
        let failures: Vec<bool> = (0..3).map(|_| lane.note(true, at(0), 0)).collect();
        assert_eq!(failures, [false, false, true]);
        let resting = Err(StoreError::Resting { retry_after: Span::from_millis(50) });
        assert_eq!(lane.enter_alone(at(20), at(0)), resting);
        assert!(matches!(lane.enter(job(at(20)).0, at(0)), Err(StoreError::Resting { .. })));
        // One may find out; if it goes away without an answer, the next may.
        assert!(lane.enter_alone(at(20), at(50)).unwrap());
        assert!(lane.enter(job(at(70)).0, at(50)).is_err());
        assert_eq!(lane.leave(1), Start::NotNeeded);
        assert!(lane.enter_alone(at(20), at(51)).unwrap());
        assert!(!lane.note(false, at(52), 0));
        assert_eq!(lane.leave(1), Start::NotNeeded);
        assert!(lane.is_asked());
    }
}
