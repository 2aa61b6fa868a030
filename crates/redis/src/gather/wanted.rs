//! An answer that somebody waits for; what comes of it if that somebody goes away.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::group::Waiter;
use super::{Answer, Gather};
use crate::failure::StoreError;

/// An answer, or that there is none in time.
pub(super) async fn answer_within(wanted: Wanted, within: Option<Duration>) -> Answer {
    let Some(within) = within else { return wanted.await };
    // Seldom, and large: all others need not carry it along.
    let answer = Box::pin(tokio::time::timeout(within, wanted)).await;
    answer.unwrap_or_else(|_| Err(StoreError::Unknown("no answer within the deadline".into())))
}

/// An answer that is wanted. If that is a permit and it comes too late, it is given back.
pub(super) struct Wanted {
    /// Only where permits are lent.
    gather: Option<Arc<Gather>>,
    waiter: Waiter,
    is_heard: bool,
}

impl Wanted {
    pub(super) fn new(waiter: Waiter, gather: Option<Arc<Gather>>) -> Wanted {
        Wanted { gather, waiter, is_heard: false }
    }
}

impl Future for Wanted {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let answer = ready!(Pin::new(&mut self.waiter).poll(context));
        self.is_heard = true;
        Poll::Ready(answer)
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        if self.is_heard {
            return;
        }
        // From here on, the side that answers it gives it back.
        if let (Some(answer), Some(gather)) = (self.waiter.leave(), &self.gather) {
            gather.give_back(self.waiter.request().clone(), answer);
        }
    }
}
