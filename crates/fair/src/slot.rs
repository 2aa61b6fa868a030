//! Where one that waits hears what became of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tidegate_core::fair::{Handle, Ticket};
use tidegate_core::{Span, Tick};

use crate::refused::Refused;
use crate::resource::Taken;

#[derive(Debug)]
pub(crate) struct Slot(Mutex<Inside>);

#[derive(Debug)]
struct Inside {
    waker: Waker,
    outcome: Option<Outcome>,
}

/// What happens to one who asks.
pub(crate) enum Asked {
    Now(Outcome),
    Later { slot: Arc<Slot>, handle: Handle },
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    Started(Grant),
    Refused(Refused),
}

/// What a request has been given.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) ticket: Ticket,
    /// What it takes of the room.
    pub(crate) taken: Taken,
    pub(crate) waited: Span,
    /// When it was given that.
    pub(crate) since: Tick,
}

impl Slot {
    pub(crate) fn new(waker: &Waker) -> Slot {
        Slot(Mutex::new(Inside { waker: waker.clone(), outcome: None }))
    }

    /// Says what became of the request, and returns the waker to call once no lock is held.
    pub(crate) fn tell(&self, outcome: Outcome) -> Waker {
        let mut inside = self.lock();
        inside.outcome = Some(outcome);
        inside.waker.clone()
    }

    /// What became of it, or it is woken later.
    pub(crate) fn hear(&self, waker: &Waker) -> Option<Outcome> {
        let mut inside = self.lock();
        let outcome = inside.outcome.take();
        let mut replaced = None;
        if outcome.is_none() && !inside.waker.will_wake(waker) {
            replaced = Some(std::mem::replace(&mut inside.waker, waker.clone()));
        }
        drop(inside);
        // Dropping a waker may run anything.
        drop(replaced);
        outcome
    }

    /// As `hear`, for a request that does not wait any more.
    pub(crate) fn take(&self) -> Option<Outcome> {
        self.lock().outcome.take()
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
