//! Holding a request back until its turn, without a timer of any runtime.

use std::pin::Pin;
use std::task::{Context, Poll};

use tidegate_core::{Span, Tick, Verdict};
use tidegate_store::WakeId;

use crate::admission::Admission;
use crate::settle::Settling;

/// Waits until a request may start. Dropped before that, everything it was charged is given back:
/// whoever goes away leaves the queue.
#[must_use = "the request has not been held back until this is awaited"]
#[derive(Debug)]
pub struct Start {
    admission: Option<Admission>,
    at: Tick,
    wake: Option<WakeId>,
}

impl Admission {
    /// How long the request is to be held back.
    pub fn delay(&self) -> Option<Span> {
        match self.verdict {
            Verdict::Delay { by } => Some(by),
            _ => None,
        }
    }

    /// Holds the request back for as long as it has to be; at once if it has not.
    pub fn start(mut self) -> Start {
        let by = self.delay();
        self.is_waiting = by.is_some();
        let at = self.now.after(by.unwrap_or(Span::ZERO));
        Start { admission: Some(self), at, wake: None }
    }

    /// Gives up a request that would have to wait for longer than its caller does: everything is
    /// given back, and it is refused until the wait would be short enough.
    ///
    /// For a fleet it does not wait until Redis knows; see [`Admission::hurry`].
    #[must_use]
    pub fn within(mut self, deadline: Span) -> Admission {
        drop(self.hurry(deadline));
        self
    }

    /// The same. When what it returns has been awaited, what is left under each limit is what there
    /// is without this request, for a fleet as well.
    pub fn hurry(&mut self, deadline: Span) -> Settling {
        if self.delay().is_none_or(|by| by <= deadline) {
            return Settling::default();
        }
        let settling = self.give_back(true);
        self.look_again();
        self.too_late(deadline);
        settling
    }

    /// Refuses what would have to wait for longer than its caller does, and is charged nothing: by
    /// every limit that holds it back for so long, until the wait would be short enough.
    pub(crate) fn too_late(&mut self, deadline: Span) {
        self.verdict = denied_by(deadline, self.verdict);
        for judged in &mut self.each {
            judged.decision.verdict = denied_by(deadline, judged.decision.verdict);
            judged.is_charged = false;
        }
    }
}

/// What is said of whoever waits no longer than `deadline`.
fn denied_by(deadline: Span, verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Delay { by } if deadline < by => {
            Verdict::Deny { retry_after: Span::from_micros(by.get() - deadline.get()) }
        }
        verdict => verdict,
    }
}

impl Future for Start {
    type Output = Admission;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Admission> {
        let this = &mut *self;
        let admission = this.admission.as_mut().expect("not polled after it was done");
        let clock = &admission.generation.home.clock;
        if let Some(wake) = this.wake.take() {
            clock.cancel(wake);
        }
        if admission.is_waiting && clock.now() < this.at {
            this.wake = Some(clock.wake_at(this.at, context.waker().clone()));
            return Poll::Pending;
        }
        admission.is_waiting = false;
        Poll::Ready(this.admission.take().expect("looked at just now"))
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        if let (Some(admission), Some(wake)) = (&self.admission, self.wake.take()) {
            admission.generation.home.clock.cancel(wake);
        }
    }
}
