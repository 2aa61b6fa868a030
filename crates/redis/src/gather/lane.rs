//! The queue of one server, and whether it is asked at all.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::Tick;
use tokio::sync::oneshot;

use super::Answer;
use crate::breaker::{Breaker, Permission};
use crate::call::Request;
use crate::failure::StoreError;

/// The most requests that wait for one server; the next is refused at once.
const WAITING_MAX: usize = 16_384;
/// The most requests in one call: a server is kept from others for half a millisecond at most.
const CALL_MAX: usize = 128;

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
    waiting: Vec<Job>,
    /// Whether somebody is on the way who will see to what waits.
    busy: bool,
    breaker: Breaker,
}

/// What it means to have entered a queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Entry {
    /// Nobody was there: whoever entered starts somebody.
    First,
    Behind,
}

impl Job {
    pub(super) fn new(request: Request, deadline: Tick, answer: oneshot::Sender<Answer>) -> Job {
        Job { request, deadline, answer }
    }
}

impl Lane {
    pub(super) fn new(number: usize) -> Lane {
        let state = State { waiting: Vec::new(), busy: false, breaker: Breaker::new() };
        Lane { number, state: Mutex::new(state) }
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    pub(super) fn is_asked(&self) -> bool {
        self.lock().breaker.is_closed()
    }

    /// Takes the turn if nobody is there; then [`Lane::leave`] ends it.
    pub(super) fn enter_alone(&self, now: Tick) -> Result<bool, StoreError> {
        let mut state = self.lock();
        if state.busy {
            return Ok(false);
        }
        permit(&mut state.breaker, now)?;
        state.busy = true;
        Ok(true)
    }

    /// Joins those who wait.
    pub(super) fn enter(&self, job: Job, now: Tick) -> Result<Entry, StoreError> {
        let mut state = self.lock();
        permit(&mut state.breaker, now)?;
        if WAITING_MAX <= state.waiting.len() {
            return Err(StoreError::Busy);
        }
        state.waiting.push(job);
        let was_busy = std::mem::replace(&mut state.busy, true);
        Ok(if was_busy { Entry::Behind } else { Entry::First })
    }

    /// Ends a turn; says whether somebody waits, for whom the next is to be started.
    pub(super) fn leave(&self) -> bool {
        let mut state = self.lock();
        state.busy = !state.waiting.is_empty();
        state.busy
    }

    /// What the next call takes of those that wait. Who has waited for too long is refused.
    pub(super) fn take_waiting(&self, now: Tick) -> Vec<Job> {
        let mut state = self.lock();
        let waiting = if CALL_MAX < state.waiting.len() {
            state.waiting.drain(..CALL_MAX).collect()
        } else {
            std::mem::take(&mut state.waiting)
        };
        drop(state);
        if waiting.iter().all(|job| now < job.deadline) {
            return waiting;
        }
        waiting.into_iter().filter_map(|job| in_time(job, now)).collect()
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
