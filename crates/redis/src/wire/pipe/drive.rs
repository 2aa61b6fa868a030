//! The driver of a connection: reads replies, writes what was left over, and tells who is late.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::Tick;
use tidegate_store::{Clock as _, SystemClock};
use tokio::time::Sleep;

use super::{Loss, Pipe};

/// The work behind a connection; it is over when the connection is. Dropped before that, it ends
/// the connection.
pub(in crate::wire) struct Drive {
    pipe: Pipe,
    clock: SystemClock,
    /// Made when the first deadline is known.
    timer: Option<Pin<Box<Sleep>>>,
    /// What it is set for.
    set_for: Tick,
}

impl Drive {
    pub(super) fn new(pipe: Pipe) -> Drive {
        Drive { pipe, clock: SystemClock::new(), timer: None, set_for: Tick::MAX }
    }

    /// Sets the timer for that tick, and says whether it has come.
    fn has_struck(&mut self, alarm: Tick, context: &mut Context<'_>) -> bool {
        if alarm == Tick::MAX {
            self.set_for = alarm;
            return false;
        }
        if self.set_for != alarm {
            self.set_for = alarm;
            let left = Duration::from(alarm.since(self.clock.now()));
            match &mut self.timer {
                Some(timer) => timer.as_mut().set(tokio::time::sleep(left)),
                None => self.timer = Some(Box::pin(tokio::time::sleep(left))),
            }
        }
        self.timer.as_mut().is_some_and(|timer| timer.as_mut().poll(context).is_ready())
    }
}

impl Future for Drive {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let (mut alarm, has_ended) = this.pipe.with(|flow| {
            flow.drive(context.waker());
            (flow.alarm(), flow.ended().is_some())
        });
        if has_ended {
            return Poll::Ready(());
        }
        while this.has_struck(alarm, context) {
            // Timers are not as fine as the clock: a call that is not late yet is looked at again.
            this.set_for = Tick::MAX;
            let now = this.clock.now();
            alarm = this.pipe.with(|flow| {
                flow.strike(now);
                flow.alarm()
            });
        }
        Poll::Pending
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        self.pipe.with(|flow| flow.end(Loss::Ended("it was given up".into())));
    }
}
