//! Holding a request back until its turn, without a timer of any runtime.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate_core::{Span, Tick, Verdict};
use tidegate_store::{Clock, WakeId};

use crate::admission::Admission;
use crate::renewal_timer::Held;
use crate::settle::Settling;

/// Waits until a request may start. Dropped before that, it leaves the queue, and what it was
/// charged is given back. If others stand behind its slot, that stays empty (in this process until
/// they have left too), and only permits are given back besides: nobody fills a queue for free.
#[must_use = "the request has not been held back until this is awaited"]
#[derive(Debug)]
pub struct Start(Stage);

#[derive(Debug)]
enum Stage {
    /// It need not wait.
    Now(Box<Admission>),
    Waiting {
        held: Held,
        clock: Arc<dyn Clock>,
        at: Tick,
        wake: Option<WakeId>,
    },
    Done,
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
        let Some(by) = self.delay() else { return Start(Stage::Now(Box::new(self))) };
        self.is_waiting = true;
        let (at, clock) = (self.now.after(by), Arc::clone(&self.in_force.home.clock));
        Start(Stage::Waiting { held: Held::new(Box::new(self)), clock, at, wake: None })
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

    /// As [`Admission::within`]. When what it returns has been awaited, what is left under each
    /// limit is what there is without this request, for a fleet as well.
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

/// The verdict for a caller that waits no longer than `deadline`.
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
        const DONE: &str = "not polled after it was done";
        if let Stage::Waiting { clock, at, wake, .. } = &mut self.0 {
            if let Some(wake) = wake.take() {
                clock.cancel(wake);
            }
            if clock.now() < *at {
                *wake = Some(clock.wake_at(*at, context.waker().clone()));
                return Poll::Pending;
            }
        }
        let mut admission = match std::mem::replace(&mut self.0, Stage::Done) {
            Stage::Now(admission) => admission,
            Stage::Waiting { mut held, .. } => held.take().expect(DONE),
            Stage::Done => panic!("{DONE}"),
        };
        admission.is_waiting = false;
        Poll::Ready(*admission)
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        if let Stage::Waiting { clock, wake, .. } = &mut self.0
            && let Some(wake) = wake.take()
        {
            clock.cancel(wake);
        }
    }
}
