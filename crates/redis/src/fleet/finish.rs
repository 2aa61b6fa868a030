//! Work that is finished by a task of its own if nobody waits for it any more.

use std::pin::Pin;
use std::task::{Context, Poll};

use tidegate_store::{Later, Work};
use tokio::runtime::Handle;

/// What is charged in the end does not depend on who still waits for it, nor on the thread that
/// stops waiting.
struct Finish<T: Send + 'static> {
    /// Nothing once it is done.
    work: Option<Work<T>>,
    runtime: Handle,
}

/// The answer of `work`, which is done whether or not somebody waits for it.
pub(super) fn finished<T: Send + Unpin + 'static>(
    runtime: &Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> Later<T> {
    Later::pending(Finish { work: Some(Box::pin(work)), runtime: runtime.clone() })
}

impl<T: Send + 'static> Future for Finish<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let work = self.work.as_mut().expect("not polled after it was done");
        let answer = std::task::ready!(work.as_mut().poll(context));
        self.work = None;
        Poll::Ready(answer)
    }
}

impl<T: Send + 'static> Drop for Finish<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            // Not as a `Finish`: a runtime that ends drops it, which would start another.
            drop(self.runtime.spawn(async move { drop(work.await) }));
        }
    }
}
