//! Turns of connections that always have something more to be answered.
//!
//! Who was waited for is answered at once. Who sends without a pause stands in line behind all
//! others that do, and only a few of them are let to the threads' own queues at a time: so it is no
//! matter to a client that asks now and then how many they are.
//!
//! Who has just come waits in a line of its own, behind others of its address: a storm of newcomers
//! is in the way of itself.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::yield_now;

use crate::caller::Caller;
use crate::parts::{Part, Parts};

/// The line of those who go on.
#[derive(Debug)]
pub(crate) struct Turns(Semaphore);

impl Default for Turns {
    /// A turn for each processor but one, which is left to clients that ask now and then.
    fn default() -> Turns {
        Turns::at_once(processors_but_one())
    }
}

fn processors_but_one() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    processors.saturating_sub(1).max(1)
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

/// The line of those who have just come.
#[derive(Debug)]
pub(crate) struct Newcomers {
    turns: Turns,
    /// Of each address, so many are in it as have their turn at once.
    each: Arc<Parts>,
}

/// A turn, which is over when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'t> {
    _turn: SemaphorePermit<'t>,
    /// The place of its address.
    part: Option<Part>,
}

impl Default for Newcomers {
    fn default() -> Newcomers {
        Newcomers::at_once(processors_but_one())
    }
}

impl Newcomers {
    pub(crate) fn at_once(most: usize) -> Newcomers {
        Newcomers { turns: Turns::at_once(most), each: Parts::new(most) }
    }

    /// Waits for its turn, behind those of its own address, then behind few of each other.
    pub(crate) async fn next(&self, of: Option<Caller>) -> Option<Turn<'_>> {
        let part = of.map(|of| self.each.of(of));
        let own = match &part {
            Some(part) => Some(part.left().acquire().await.ok()?),
            None => None,
        };
        let turn = self.turns.next().await?;
        // It is given back with the turn.
        own.into_iter().for_each(SemaphorePermit::forget);
        Some(Turn { _turn: turn, part })
    }
}

impl<'t> From<SemaphorePermit<'t>> for Turn<'t> {
    fn from(turn: SemaphorePermit<'t>) -> Turn<'t> {
        Turn { _turn: turn, part: None }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            part.left().add_permits(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether its turn has come.
    async fn has_come(mut turn: std::pin::Pin<&mut impl Future>) -> bool {
        for _ in 0..8 {
            tokio::select! {
                biased;
                _ = turn.as_mut() => return true,
                () = yield_now() => {}
            }
        }
        false
    }

    #[tokio::test]
    async fn a_newcomer_waits_behind_its_own_address_only() {
        let newcomers = Newcomers::at_once(1);
        let at = |host| Some(Caller::at([192, 0, 2, host].into()));
        let first = newcomers.next(at(1)).await;
        let mut same: Vec<_> = (0..9).map(|_| Box::pin(newcomers.next(at(1)))).collect();
        for turn in &mut same {
            assert!(!has_come(turn.as_mut()).await);
        }
        let mut other = Box::pin(newcomers.next(at(2)));
        assert!(!has_come(other.as_mut()).await);
        drop(first);
        assert!(has_come(other.as_mut()).await, "those before it wait for each other");
        drop((same, other));
        assert_eq!(newcomers.each.count(), 0, "nothing is kept of those that have gone");
    }
}
