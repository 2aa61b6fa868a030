//! Waiting without going to sleep, for as long as an answer is likely to come at once.
//!
//! A thread that has nothing to do sleeps, and to wake it takes as long as a nearby server takes to
//! answer. With many requests in a call that is worth avoiding: the task asks to be polled again,
//! while everything else that is ready runs as ever. Where that was in vain it is left alone for
//! the next few calls, so that a server farther away costs little more than nothing.

use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tidegate_core::{Span, Tick};
use tidegate_store::{Clock, SystemClock};

/// From so many requests in a call on.
const MANY: usize = 8;
/// For no longer than this.
const LONGEST: Span = Span::from_micros(250);

/// Whether to wait eagerly: learned from how the last calls went.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Eagerness {
    /// Calls to let pass before trying again.
    pause: u8,
}

/// How eager waiting went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Waited {
    Asleep,
    InTime,
    InVain,
}

impl Eagerness {
    /// Calls to let pass after one that was waited for in vain.
    const PAUSE: u8 = 3;

    pub(super) fn learn(&mut self, waited: Waited) {
        self.pause = match waited {
            Waited::Asleep => self.pause.saturating_sub(1),
            Waited::InTime => 0,
            Waited::InVain => Eagerness::PAUSE,
        };
    }
}

/// Waits for `future`, which answers so many requests.
pub(super) async fn eagerly<F: Future>(
    future: F,
    requests: usize,
    eagerness: Eagerness,
    clock: SystemClock,
) -> (F::Output, Waited) {
    if requests < MANY || 0 < eagerness.pause {
        return (future.await, Waited::Asleep);
    }
    let until = clock.now().after(LONGEST);
    let output = Eager { future: pin!(future), clock, until }.await;
    (output, if clock.now() < until { Waited::InTime } else { Waited::InVain })
}

struct Eager<'a, F> {
    future: Pin<&'a mut F>,
    clock: SystemClock,
    until: Tick,
}

impl<F: Future> Future for Eager<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let polled = self.future.as_mut().poll(context);
        if polled.is_pending() && self.clock.now() < self.until {
            // Polled again as soon as nothing else is ready, and the sockets were looked at.
            let _ = pin!(tokio::task::yield_now()).poll(context);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_in_vain_is_tried_again_only_after_a_while() {
        let mut eagerness = Eagerness::default();
        eagerness.learn(Waited::InTime);
        assert_eq!(eagerness.pause, 0);
        eagerness.learn(Waited::InVain);
        for left in (0..3).rev() {
            eagerness.learn(Waited::Asleep);
            assert_eq!(eagerness.pause, left);
        }
        eagerness.learn(Waited::Asleep);
        assert_eq!(eagerness.pause, 0);
    }
}
