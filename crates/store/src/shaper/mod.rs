//! The shaper: calls go out at a constant rate, each in its turn.
//!
//! What it hands out are slots in time. A call that leaves before its slot has come lets all calls
//! behind it move up; a slot whose time has come is used, or lost.

mod acquire;
mod build;
mod line;
mod shared;
mod slot;

use std::hash::Hash;
use std::sync::Arc;

use tidegate_core::{Policy, Quota, Span, Tick};

pub use self::acquire::AcquireSlot;
pub use self::build::ShaperBuilder;
use self::line::Lines;
pub use self::shared::SharedShaper;
pub use self::slot::{NoSlot, Slot};
use crate::clock::Clock;
use crate::key::Keys;
use crate::limiter::BuildError;
use crate::sync::{Mutex, lock};

/// Sends calls out at a constant rate, for each key by itself: for partners and other services that
/// take so many a second and no more.
///
/// The burst of its quota is the queue: how many cells it holds at most, with that which is just
/// going out. Share it by reference or in an `Arc`; every method takes `&self`. It needs no
/// particular runtime, and starts nothing but the one thread that wakes waiting calls.
///
/// ```
/// use tidegate_core::Quota;
/// use tidegate_store::{NoSlot, Shaper};
///
/// // Fifty a second, and at most a hundred in the queue.
/// let shaper = Shaper::new(Quota::per_second(50).burst(100))?;
/// # let sent = async {
/// shaper.acquire("partner", 1).await?;
/// // Now send it.
/// # Ok::<(), NoSlot>(())
/// # };
/// # drop(sent);
/// # Ok::<(), tidegate_store::BuildError>(())
/// ```
#[derive(Debug)]
pub struct Shaper {
    policy: Policy,
    longest_wait: Span,
    keys: Keys,
    clock: Arc<dyn Clock>,
    lines: Mutex<Lines>,
}

impl Shaper {
    /// A shaper for each key, by the system's clock.
    pub fn new(quota: Quota) -> Result<Shaper, BuildError> {
        Shaper::builder(quota).build()
    }

    /// A shaper of which more is to be said.
    pub fn builder(quota: Quota) -> ShaperBuilder {
        ShaperBuilder::new(quota)
    }

    /// Waits for a slot, for at most the shaper's longest wait.
    ///
    /// A call of several cells is sent in one, and the next waits for all of them. What finds no
    /// room, or would wait for too long, is refused at once. Dropped before its slot has come, the
    /// future leaves the queue, and the calls behind it move up.
    pub fn acquire(&self, key: impl Hash, cost: u32) -> AcquireSlot<'_> {
        self.acquire_within(key, cost, self.longest_wait)
    }

    /// As [`Shaper::acquire`], for at most `within`, or the shaper's longest wait if that is
    /// shorter. It counts from when the future is first polled.
    pub fn acquire_within(
        &self,
        key: impl Hash,
        cost: u32,
        within: impl Into<Span>,
    ) -> AcquireSlot<'_> {
        let within = within.into().min(self.longest_wait);
        AcquireSlot::new(self, self.keys.key(key).ok(), cost, within)
    }

    /// Waits as [`Shaper::acquire_within`] does, for code that is not async: blocks the thread.
    pub fn acquire_blocking(
        &self,
        key: impl Hash,
        cost: u32,
        within: impl Into<Span>,
    ) -> Result<Slot, NoSlot> {
        crate::limiter::block_on(self.acquire_within(key, cost, within))
    }

    /// How long such a call would wait if it came now; takes no slot.
    pub fn peek(&self, key: impl Hash, cost: u32) -> Result<Span, NoSlot> {
        let key = self.keys.key(key).map_err(|_| NoSlot::Never)?;
        let now = self.now();
        lock(&self.lines).peek(&self.policy, key, now, (cost, self.longest_wait))
    }

    /// How many wait for their slot.
    pub fn waiting(&self) -> usize {
        lock(&self.lines).waiting()
    }

    /// The present tick of the shaper's clock.
    pub fn now(&self) -> Tick {
        self.clock.now()
    }
}
