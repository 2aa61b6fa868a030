//! The queue behind its lock, and the one alarm that it has.
//!
//! A call that changes something hands out what there is, under the lock; wakers and clocks are
//! called without it, since they may run anything. There is one alarm for all that wait: for the
//! first deadline, or for when a policy lets more pass.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Wake, Waker};

use tidegate_core::adapt::{self, Controller};
use tidegate_core::fair::{
    Enqueued, Handle, Queue, Reason, Request, Room, Settings, Started, Ticket, Turn,
};
use tidegate_core::{Policy, Span, Tick};
use tidegate_store::{Clock, WakeId};

use crate::build::NotARate;
use crate::permit::Permit;
use crate::refused::Refused;
use crate::resource::{Resource, Taken};
use crate::slot::{Asked, Grant, Outcome, Slot};
use crate::stats::{REASONS, Stats};
use crate::wanted::Wanted;

#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) hasher: foldhash::quality::RandomState,
    waker: Waker,
}

#[derive(Debug)]
struct State {
    /// One that can start at once needs no slot to hear of it.
    queue: Queue<Option<Arc<Slot>>>,
    resource: Resource,
    alarm: Option<(Tick, Option<WakeId>)>,
    started: u64,
    refused: [u64; REASONS.len()],
}

/// What is to be done once the lock is released.
#[derive(Default)]
struct Afterwards {
    wake: Vec<Waker>,
    alarm: Option<Tick>,
    cancel: Option<WakeId>,
}

/// Wakes a queue; it does not keep one alive.
struct Bell(Weak<Shared>);

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        if let Some(shared) = self.0.upgrade() {
            shared.change(|state, _| state.alarm = None);
        }
    }
}

impl Shared {
    pub(crate) fn new(
        resource: Resource,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> Arc<Shared> {
        let state = State {
            queue: Queue::new(settings),
            resource,
            alarm: None,
            started: 0,
            refused: [0; REASONS.len()],
        };
        Arc::new_cyclic(|weak| Shared {
            state: Mutex::new(state),
            clock,
            hasher: foldhash::quality::RandomState::default(),
            waker: Waker::from(Arc::new(Bell(weak.clone()))),
        })
    }

    /// A place at once, if nobody is before it and there is room.
    pub(crate) fn start_at_once(self: &Arc<Shared>, wanted: Wanted) -> Option<Permit> {
        let mut state = self.lock();
        let now = self.clock.now();
        let request = wanted.request(now);
        let grant = state.start_at_once(request, now)?;
        drop(state);
        Some(Permit::new(Arc::clone(self), grant))
    }

    /// Asks for a turn within `within`. `waker` is woken if that is later.
    pub(crate) fn ask(&self, wanted: Wanted, waker: &Waker) -> Asked {
        let mut state = self.lock();
        let now = self.clock.now();
        let within = wanted.within;
        let request = wanted.request(now.after(within));
        if state.resource.never_has(request.cost) {
            state.count(Reason::TooWide);
            let refused = Refused { reason: Reason::TooWide, retry_after: None };
            return Asked::Now(Outcome::Refused(refused));
        }
        if let Some(grant) = state.start_at_once(request, now) {
            return Asked::Now(Outcome::Started(grant));
        }
        let earliest = state.resource.earliest(request.cost, now);
        if within < earliest {
            state.count(Reason::TooLate);
            // From then on the same wait is long enough.
            let retry_after = Some(Span::from_micros(earliest.get() - within.get()));
            let refused = Refused { reason: Reason::TooLate, retry_after };
            return Asked::Now(Outcome::Refused(refused));
        }
        let slot = Arc::new(Slot::new(waker));
        let mut afterwards = Afterwards::default();
        let speed = state.resource.speed();
        state.queue.set_rate(speed);
        let enqueued = state.queue.enqueue(now, request, Some(slot.clone()));
        let asked = match enqueued {
            Ok(Enqueued { handle, pushed_out }) => {
                if let Some(loser) = pushed_out {
                    let refused = Refused { reason: loser.reason, retry_after: loser.retry_after };
                    state.tell(loser.item, Outcome::Refused(refused), &mut afterwards);
                }
                Asked::Later { slot, handle }
            }
            Err(refused) => {
                let (reason, retry_after) = (refused.reason, refused.retry_after);
                state.count(reason);
                Asked::Now(Outcome::Refused(Refused { reason, retry_after }))
            }
        };
        state.hand_out(now, &mut afterwards);
        drop(state);
        self.see_to(afterwards);
        asked
    }

    /// Takes back what somebody asked for and does not want any more.
    pub(crate) fn cancel(&self, slot: &Slot, handle: Handle) {
        self.change(|state, now| {
            let removed = state.queue.cancel(handle);
            if removed.is_none()
                && let Some(Outcome::Started(Grant { ticket, taken, .. })) = slot.take()
            {
                // It had its turn and never knew.
                state.undo(ticket, taken, now);
            }
        });
    }

    /// What was given comes back, and nothing was done with it.
    pub(crate) fn undo(&self, Grant { ticket, taken, .. }: Grant) {
        self.change(|state, now| state.undo(ticket, taken, now));
    }

    /// What was given comes back, and took `actual`.
    pub(crate) fn give_back(&self, grant: Grant, actual: u32, came: adapt::Outcome) {
        self.change(|state, now| {
            state.resource.give_back(grant.taken, now.since(grant.since), came, now);
            state.queue.complete(grant.ticket, actual);
        });
    }

    pub(crate) fn set_limit(&self, limit: u32) {
        self.change(|state, _| {
            if let Resource::InFlight { limit: old, .. } = &mut state.resource {
                *old = limit;
            }
        });
    }

    pub(crate) fn set_policy(&self, policy: Policy) -> Result<(), NotARate> {
        Resource::rate(policy)?;
        let mut outcome = Ok(());
        self.change(|state, now| match &mut state.resource {
            Resource::Rate { policy: old, state } => {
                policy.carry(old, state, now);
                *old = policy;
            }
            Resource::InFlight { .. } | Resource::Adaptive { .. } => {
                outcome = Err(NotARate { kind: policy.kind() });
            }
        });
        outcome
    }

    /// Does something with what finds out how much there is, if there is such a thing.
    pub(crate) fn with_controller<T>(
        &self,
        does: impl FnOnce(&mut Controller, Tick) -> T,
    ) -> Option<T> {
        let mut done = None;
        self.change(|state, now| {
            done = state.resource.controller().map(|controller| does(controller, now));
        });
        done
    }

    pub(crate) fn set_bounds(&self, settings: Settings) {
        self.change(|state, _| state.queue.set_bounds(settings));
    }

    /// There is no end of places from now on.
    pub(crate) fn let_go(&self) {
        self.change(|state, _| state.resource.let_go());
    }

    pub(crate) fn stats(&self) -> Stats {
        let state = self.lock();
        let mut refused = REASONS.map(|reason| (reason, 0));
        for (told, count) in refused.iter_mut().zip(state.refused) {
            told.1 = count;
        }
        Stats {
            waiting: state.queue.len(),
            in_flight: state.resource.out(),
            limit: state.resource.whole(),
            flows: state.queue.flows(),
            started: state.started,
            refused,
        }
    }

    /// Changes something, and hands out what there is then.
    fn change(&self, change: impl FnOnce(&mut State, Tick)) {
        let mut afterwards = Afterwards::default();
        let mut state = self.lock();
        let now = self.clock.now();
        change(&mut state, now);
        state.hand_out(now, &mut afterwards);
        drop(state);
        self.see_to(afterwards);
    }

    fn see_to(&self, afterwards: Afterwards) {
        afterwards.wake.into_iter().for_each(Waker::wake);
        if let Some(id) = afterwards.cancel {
            self.clock.cancel(id);
        }
        if let Some(at) = afterwards.alarm {
            let id = self.clock.wake_at(at, self.waker.clone());
            let mut state = self.lock();
            // It may have rung already, or been replaced by an earlier one.
            if state.alarm == Some((at, None)) {
                state.alarm = Some((at, Some(id)));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// For one that nobody is before, if there is room. The queue keeps the books all the same.
    fn start_at_once(&mut self, request: Request, now: Tick) -> Option<Grant> {
        if !self.queue.is_empty() {
            return None;
        }
        let room = self.resource.room(now);
        if room.free < request.cost {
            return None;
        }
        let Enqueued { handle, .. } = self.queue.enqueue(now, request, None).ok()?;
        match self.queue.dispatch(now, room) {
            Some(Turn::Start(started)) => Some(self.start(started, now).1),
            Some(Turn::Drop(_)) => None,
            None => {
                self.queue.cancel(handle);
                None
            }
        }
    }

    /// Undoes a turn of which nothing came.
    fn undo(&mut self, ticket: Ticket, taken: Taken, now: Tick) {
        self.resource.undo(taken, now);
        self.queue.complete(ticket, 0);
    }

    fn start(
        &mut self,
        started: Started<Option<Arc<Slot>>>,
        now: Tick,
    ) -> (Option<Arc<Slot>>, Grant) {
        let Started { item, cost, ticket, waited, .. } = started;
        let taken = self.resource.take(cost, waited, now);
        self.started += 1;
        (item, Grant { ticket, taken, waited, since: now })
    }

    /// Starts the requests that can start, refuses those that are late, and says when to look
    /// again.
    fn hand_out(&mut self, now: Tick, afterwards: &mut Afterwards) {
        if self.queue.is_empty() {
            return;
        }
        let mut room = self.resource.room(now);
        while let Some(turn) = self.queue.dispatch(now, room) {
            match turn {
                Turn::Start(started) => {
                    let (slot, grant) = self.start(started, now);
                    self.tell(slot, Outcome::Started(grant), afterwards);
                }
                Turn::Drop(dropped) => {
                    let (reason, retry_after) = (dropped.reason, dropped.retry_after);
                    let outcome = Outcome::Refused(Refused { reason, retry_after });
                    self.tell(dropped.item, outcome, afterwards);
                }
            }
            room = self.resource.room(now);
        }
        while let Some(expired) = self.queue.expire(now) {
            let (reason, retry_after) = (expired.reason, expired.retry_after);
            let outcome = Outcome::Refused(Refused { reason, retry_after });
            self.tell(expired.item, outcome, afterwards);
        }
        self.set_alarm(room, now, afterwards);
    }

    fn set_alarm(&mut self, room: Room, now: Tick, afterwards: &mut Afterwards) {
        let Some(deadline) = self.queue.next_deadline() else { return };
        let more = self.resource.more_at(room, now).unwrap_or(Tick::MAX);
        let at = deadline.min(more);
        if self.alarm.is_none_or(|(set, _)| at < set) {
            afterwards.cancel = self.alarm.and_then(|(_, id)| id);
            afterwards.alarm = Some(at);
            self.alarm = Some((at, None));
        }
    }

    fn tell(&mut self, slot: Option<Arc<Slot>>, outcome: Outcome, afterwards: &mut Afterwards) {
        if let Outcome::Refused(refused) = &outcome {
            self.count(refused.reason);
        }
        let slot = slot.expect("whoever has none starts at once");
        afterwards.wake.push(slot.tell(outcome));
    }

    fn count(&mut self, reason: Reason) {
        if let Some(at) = REASONS.iter().position(|it| *it == reason) {
            self.refused[at] += 1;
        }
    }
}
