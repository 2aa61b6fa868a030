//! Waiting without going to sleep, for as long as an answer is likely to come at once.
//!
//! A thread that has nothing to do sleeps, and to wake it takes as long as a nearby server takes to
//! answer. With many requests in a call that is worth avoiding: for some tens of microseconds the
//! task asks to be polled again, while everything else that is ready runs as ever.

use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tidegate_core::{Span, Tick};
use tidegate_store::{Clock, SystemClock};

/// From so many requests in a call on.
const MANY: usize = 8;
/// For no longer than this.
const LONGEST: Span = Span::from_micros(60);

/// Waits for `future`, which answers `requests` requests: eagerly at first, if they are many.
pub(super) async fn eagerly<F: Future>(
    future: F,
    requests: usize,
    clock: SystemClock,
) -> F::Output {
    if requests < MANY {
        return future.await;
    }
    let until = clock.now().after(LONGEST);
    Eager { future: pin!(future), clock, until }.await
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
            context.waker().wake_by_ref();
        }
        polled
    }
}
