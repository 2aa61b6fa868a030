//! Turns of connections that always have something more to be answered.
//!
//! Who was waited for is answered at once. Who sends without a pause stands in line behind all
//! others that do, and only a few of them are let to the threads' own queues at a time: so it is no
//! matter to a client that asks now and then how many they are.

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::yield_now;

/// The line of those who go on.
#[derive(Debug)]
pub(crate) struct Turns(Semaphore);

impl Default for Turns {
    /// A turn for each processor but one, which is left to clients that ask now and then.
    fn default() -> Turns {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Turns::at_once(processors.saturating_sub(1).max(1))
    }
}

impl Turns {
    pub(crate) fn at_once(most: usize) -> Turns {
        Turns(Semaphore::new(most))
    }

    /// Lets others have theirs, and waits for the next. The turn is over when this is dropped.
    pub(crate) async fn next(&self) -> Option<SemaphorePermit<'_>> {
        match self.0.try_acquire() {
            Ok(turn) => {
                yield_now().await;
                Some(turn)
            }
            // It is never closed.
            Err(_) => self.0.acquire().await.ok(),
        }
    }
}
