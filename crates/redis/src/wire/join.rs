//! Waiting for several futures in one task: the first of two, or all of many.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

/// Waits for whichever of the two is ready first, and drops the other.
pub(super) async fn first(one: impl Future, other: impl Future) {
    let mut one = pin!(one);
    let mut other = pin!(other);
    poll_fn(|cx| {
        if one.as_mut().poll(cx).is_ready() || other.as_mut().poll(cx).is_ready() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Waits for all of them. Each wakes the whole, so it is for a handful only.
pub(super) async fn all(mut futures: Vec<Pin<Box<dyn Future<Output = ()> + Send + '_>>>) {
    poll_fn(|cx| {
        futures.retain_mut(|future| future.as_mut().poll(cx).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
