//! Waiting without going to sleep, for as long as an answer is likely to come at once.
//!
//! A thread that has nothing to do sleeps, and to wake it takes as long as a nearby server takes to
//! answer. With many requests in a call that is worth avoiding: the task asks to be polled again,
//! while everything else that is ready runs as ever. Where that was in vain it is left alone for
//! a growing number of calls, so that a server farther away costs next to nothing.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

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
    /// How often in a row it was in vain, up to a bound.
    in_vain: u8,
}

/// How eager waiting went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Waited {
    Asleep,
    InTime,
    InVain,
}

impl Eagerness {
    /// Up to so many times in a row, each pause is twice as long as the one before.
    const GROWS: u8 = 5;

    pub(super) fn learn(&mut self, waited: Waited) {
        match waited {
            Waited::Asleep => self.pause = self.pause.saturating_sub(1),
            Waited::InTime => *self = Eagerness::default(),
            // Three calls, then seven, and in the end 127: the server may be far away, or on the
            // very core that waits for it.
            Waited::InVain => {
                self.pause = (4 << self.in_vain) - 1;
                self.in_vain = Eagerness::GROWS.min(self.in_vain + 1);
            }
        }
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
    let output = Eager { future: pin!(future), bell: None, clock, until }.await;
    (output, if clock.now() < until { Waited::InTime } else { Waited::InVain })
}

struct Eager<'a, F> {
    future: Pin<&'a mut F>,
    bell: Option<(Arc<Bell>, Waker)>,
    clock: SystemClock,
    until: Tick,
}

/// Says whether what is waited for has anything to say: to ask it in vain takes several times as
/// long, and delays everybody else who is ready.
struct Bell {
    has_rung: AtomicBool,
    task: Waker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

/// The bell of the task that polls, and the waker that rings it. A new one has rung.
fn bell_of<'a>(bell: &'a mut Option<(Arc<Bell>, Waker)>, task: &Waker) -> &'a (Arc<Bell>, Waker) {
    let is_ours = |(bell, _): &(Arc<Bell>, Waker)| bell.task.will_wake(task);
    let kept = bell.take().filter(is_ours);
    bell.insert(kept.unwrap_or_else(|| {
        let bell = Arc::new(Bell { has_rung: AtomicBool::new(true), task: task.clone() });
        (Arc::clone(&bell), Waker::from(bell))
    }))
}

impl<F: Future> Future for Eager<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Eager { future, bell, .. } = &mut *self;
        let (bell, ring) = bell_of(bell, context.waker());
        if bell.has_rung.load(Ordering::Relaxed) && bell.has_rung.swap(false, Ordering::Acquire) {
            let polled = future.as_mut().poll(&mut Context::from_waker(ring));
            if polled.is_ready() {
                return polled;
            }
        }
        if self.clock.now() < self.until {
            // Polled again as soon as nothing else is ready, and the sockets were looked at.
            let _ = pin!(tokio::task::yield_now()).poll(context);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[test]
    fn what_was_in_vain_is_tried_again_only_after_a_while() {
        let mut eagerness = Eagerness::default();
        eagerness.learn(Waited::InTime);
        assert_eq!(eagerness.pause, 0);
        for calls in [3, 7, 15, 31, 63, 127, 127] {
            eagerness.learn(Waited::InVain);
            for left in (0..calls).rev() {
                assert_eq!(eagerness.pause, left + 1);
                eagerness.learn(Waited::Asleep);
            }
            assert_eq!(eagerness.pause, 0);
        }
        eagerness.learn(Waited::InTime);
        eagerness.learn(Waited::InVain);
        assert_eq!(eagerness.pause, 3);
    }

    #[tokio::test]
    async fn what_is_waited_for_is_asked_only_when_it_has_something_to_say() {
        let (bell, answered) = tokio::sync::oneshot::channel();
        let mut polls = 0;
        let mut answered = pin!(answered);
        let future = poll_fn(|context| {
            polls += 1;
            answered.as_mut().poll(context)
        });
        let waiting = eagerly(future, MANY, Eagerness::default(), SystemClock::new());
        let ((answer, waited), ()) = tokio::join!(waiting, async {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            bell.send(7).unwrap();
        });
        assert_eq!((answer, polls), (Ok(7), 2));
        assert_ne!(waited, Waited::Asleep);
    }
}
