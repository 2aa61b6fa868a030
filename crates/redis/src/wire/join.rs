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

/// Waits for `work`, and sees to it that what it needs goes on meanwhile.
pub(super) async fn beside(helper: &mut (impl Future + Unpin), work: impl Future) {
    let mut work = pin!(work);
    let mut has_ended = false;
    poll_fn(|cx| {
        let worked = work.as_mut().poll(cx).map(drop);
        // What has ended is not asked again.
        has_ended = has_ended || Pin::new(&mut *helper).poll(cx).is_ready();
        worked
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
