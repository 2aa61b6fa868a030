//! Whether anything is asked on a connection: who stops waits for that, and not for silent peers.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::timeout;

use crate::limits;

/// How many requests of a connection are being answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Busy(Arc<AtomicUsize>);

/// A request that is being answered, until it is dropped.
#[derive(Debug)]
pub(crate) struct Answering(Arc<AtomicUsize>);

impl Busy {
    /// There is a request more.
    pub(crate) fn begin(&self) -> Answering {
        self.0.fetch_add(1, Ordering::Relaxed);
        Answering(Arc::clone(&self.0))
    }

    fn is_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Lets a connection that was told to end do so: all that was asked is answered, but for a peer
    /// that neither asks nor goes nobody waits for long.
    pub(crate) async fn finish<C: Future>(&self, mut connection: Pin<&mut C>) {
        let mut was_idle = false;
        loop {
            // Twice, so that an answer that is ready is also sent.
            let ended = timeout(limits::FAREWELL_TIME / 2, connection.as_mut()).await;
            let is_idle = self.is_idle();
            if ended.is_ok() || (was_idle && is_idle) {
                return;
            }
            was_idle = is_idle;
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
