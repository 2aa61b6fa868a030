//! Waiting for a turn, on any executor.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate_core::fair::Handle;

use crate::permit::Permit;
use crate::refused::Refused;
use crate::shared::Shared;
use crate::slot::{Asked, Outcome, Slot};
use crate::wanted::Wanted;

/// Waits for a turn; made by [`Ask::acquire`](crate::Ask::acquire).
#[derive(Debug)]
#[must_use = "a future does nothing until it is awaited"]
pub struct Acquire {
    shared: Arc<Shared>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Waiting starts when it is first polled.
    Asking(Wanted),
    Waiting {
        slot: Arc<Slot>,
        handle: Handle,
    },
    Done,
}

/// What comes of asking at once; see [`Ask::begin`](crate::Ask::begin).
#[derive(Debug)]
#[must_use = "dropping it gives the place to the next"]
pub enum Begun {
    /// It had its turn, or has none.
    Now(Result<Permit, Refused>),
    /// It waits already. Nobody is woken until this is polled.
    Later(Acquire),
}

impl Begun {
    pub(crate) fn new(shared: &Arc<Shared>, wanted: Wanted) -> Begun {
        match shared.ask(wanted, Waker::noop()) {
            Asked::Now(outcome) => Begun::Now(ended(shared, outcome)),
            Asked::Later { slot, handle } => {
                let stage = Stage::Waiting { slot, handle };
                Begun::Later(Acquire { shared: Arc::clone(shared), stage })
            }
        }
    }
}

fn ended(shared: &Arc<Shared>, outcome: Outcome) -> Result<Permit, Refused> {
    match outcome {
        Outcome::Started(grant) => Ok(Permit::new(Arc::clone(shared), grant)),
        Outcome::Refused(refused) => Err(refused),
    }
}

impl Acquire {
    pub(crate) fn new(shared: Arc<Shared>, wanted: Wanted) -> Acquire {
        Acquire { shared, stage: Stage::Asking(wanted) }
    }

    fn end(&mut self, outcome: Outcome) -> Poll<Result<Permit, Refused>> {
        self.stage = Stage::Done;
        Poll::Ready(ended(&self.shared, outcome))
    }

    fn poll_slot(&mut self, waker: &Waker) -> Poll<Result<Permit, Refused>> {
        let Stage::Waiting { slot, .. } = &self.stage else { return Poll::Pending };
        match slot.hear(waker) {
            Some(outcome) => self.end(outcome),
            None => Poll::Pending,
        }
    }
}

impl Future for Acquire {
    type Output = Result<Permit, Refused>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Stage::Asking(wanted) = self.stage {
            match self.shared.ask(wanted, context.waker()) {
                Asked::Now(outcome) => return self.end(outcome),
                Asked::Later { slot, handle } => self.stage = Stage::Waiting { slot, handle },
            }
        }
        self.poll_slot(context.waker())
    }
}

impl Drop for Acquire {
    /// Gives its turn to the next.
    fn drop(&mut self) {
        if let Stage::Waiting { slot, handle } = &self.stage {
            self.shared.cancel(slot, *handle);
        }
    }
}
