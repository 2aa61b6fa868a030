//! Shares capacity: requests wait their turn, and tenants are served by weight.
//!
//! A [`FairQueue`] stands before whatever is scarce: so many at a time, or so many a second. Who
//! wants it [asks](FairQueue::of) in somebody's name and waits, for at most as long as it says.
//! While there is enough, nobody waits. While there is not, one tenant's thousand requests do not
//! keep another's one waiting.
//!
//! ```
//! use std::time::Duration;
//! use tidegate_fair::{FairQueue, Reason};
//!
//! # fn block_on<T>(future: impl Future<Output = T>) -> T {
//! #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! #     let mut future = std::pin::pin!(future);
//! #     loop {
//! #         if let std::task::Poll::Ready(done) = future.as_mut().poll(&mut context) {
//! #             break done;
//! #         }
//! #         std::thread::yield_now();
//! #     }
//! # }
//! # block_on(async {
//! let queue = FairQueue::in_flight(2).build();
//! let patience = Duration::from_millis(10);
//!
//! let first = queue.of("acme").acquire(patience).await?;
//! let second = queue.of("acme").acquire(patience).await?;
//! // Both places are taken, and nobody gives one back in time.
//! let refused = queue.of("zeta").weight(3).acquire(patience).await.unwrap_err();
//! assert_eq!(refused.reason, Reason::Expired);
//!
//! drop(first);
//! let third = queue.of("zeta").weight(3).acquire(patience).await?;
//! // It took more than the one cell that it was taken for.
//! third.complete(5);
//! # drop(second);
//! # Ok::<(), tidegate_fair::Refused>(())
//! # }).unwrap();
//! ```
//!
//! It needs no particular runtime and starts no task. To order things without waiting, use
//! [`order::Queue`], which this is built on.

mod acquire;
mod ask;
mod build;
mod permit;
mod refused;
mod resource;
mod shared;
mod slot;
mod stats;
mod wanted;

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use tidegate_core::Policy;

use crate::shared::Shared;

pub use crate::acquire::{Acquire, Begun};
pub use crate::ask::Ask;
pub use crate::build::{FairQueueBuilder, NotARate};
pub use crate::permit::Permit;
pub use crate::refused::Refused;
pub use crate::stats::Stats;
/// How much there is, where nobody knows: found from what comes of requests.
pub use tidegate_core::adapt;
/// The order alone, without waiting: a caller that has a clock and knows what is free asks it who
/// is next.
pub use tidegate_core::fair as order;
pub use tidegate_core::fair::{Class, Reason, Settings, Shed, Weight};

/// Whatever is scarce, and who waits for it. Clones are the same queue.
#[derive(Clone, Debug)]
pub struct FairQueue {
    shared: Arc<Shared>,
}

impl FairQueue {
    /// So many cells at a time.
    pub fn in_flight(limit: u32) -> FairQueueBuilder {
        FairQueueBuilder::in_flight(limit)
    }

    /// So many cells by a policy: each that it lets pass goes to the next request.
    pub fn rate(policy: Policy) -> Result<FairQueueBuilder, NotARate> {
        FairQueueBuilder::rate(policy)
    }

    /// As many requests at a time as are found to be right, from what comes of them: tell it by
    /// [`Permit::complete`] or [`Permit::finish`]. Costs count for the order alone.
    pub fn adaptive(settings: adapt::Settings) -> Result<FairQueueBuilder, adapt::SettingsError> {
        FairQueueBuilder::adaptive(settings)
    }

    /// Asks in the name of a tenant, or of anything else that shares with others.
    pub fn of(&self, name: impl Hash) -> Ask<'_> {
        Ask::new(self, self.name(name))
    }

    /// Changes how many cells there are at a time. Fewer than are out takes nothing from anybody:
    /// places that come back are not handed out again until there are few enough.
    pub fn set_limit(&self, limit: u32) {
        self.shared.set_limit(limit);
    }

    /// Changes the policy of a rate; what was used stays used. Says whether it is a rate at all.
    pub fn set_policy(&self, policy: Policy) -> Result<(), NotARate> {
        self.shared.set_policy(policy)
    }

    /// Changes the bounds within which it finds out how much there is; what it has found stays.
    /// Does nothing for a queue that finds out nothing.
    pub fn set_adaptive(&self, settings: adapt::Settings) -> Result<(), adapt::SettingsError> {
        self.shared.with_controller(|it, now| it.set(settings, now)).unwrap_or(Ok(()))
    }

    /// Hears from the service how loaded it is; see [`adapt::Controller::load`].
    pub fn load(&self, load: adapt::Fraction) {
        self.shared.with_controller(|it, now| it.load(now, load));
    }

    /// Hears how much of the time its host waits; see [`adapt::Controller::pressure`].
    pub fn pressure(&self, waiting: adapt::Fraction) {
        self.shared.with_controller(|it, now| it.pressure(now, waiting));
    }

    /// What the queue has found out; `None` if it was given its limit or rate.
    pub fn reading(&self) -> Option<adapt::Reading> {
        self.shared.with_controller(|it, now| {
            it.advance(now);
            it.reading()
        })
    }

    /// Changes bounds, shedding and newest-first from now on; levels and floors stay as they are.
    pub fn set_bounds(&self, settings: Settings) {
        self.shared.set_bounds(settings);
    }

    /// Lets everybody pass from now on, those who wait first: what was scarce is not any more.
    pub fn let_go(&self) {
        self.shared.let_go();
    }

    /// How many wait, how many are out, and what became of the others.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    fn name(&self, name: impl Hash) -> u64 {
        self.shared.hasher.hash_one(name)
    }
}
