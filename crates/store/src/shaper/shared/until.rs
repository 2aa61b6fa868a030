//! Waiting for a tick of a clock: exact to the microsecond, and still in tests.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate_core::Tick;

use crate::clock::{Clock, WakeId};

/// Ready once its tick has come.
pub(super) struct Until {
    clock: Arc<dyn Clock>,
    at: Tick,
    wake: Option<WakeId>,
}

impl Until {
    pub(super) fn new(clock: Arc<dyn Clock>, at: Tick) -> Until {
        Until { clock, at, wake: None }
    }
}

impl Future for Until {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(wake) = self.wake.take() {
            self.clock.cancel(wake);
        }
        if self.at <= self.clock.now() {
            return Poll::Ready(());
        }
        self.wake = Some(self.clock.wake_at(self.at, context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Until {
    fn drop(&mut self) {
        if let Some(wake) = self.wake.take() {
            self.clock.cancel(wake);
        }
    }
}
