//! Building a shaper.

use std::sync::Arc;

use tidegate_core::{Kind, Policy, Quota, Span, WithoutStore};

use super::line::Lines;
use super::{Shaper, SharedShaper};
use crate::clock::{Clock, SystemClock};
use crate::key::Keys;
use crate::limiter::BuildError;
use crate::store::Store;
use crate::sync::Mutex;

/// Builds a [`Shaper`], or a [`SharedShaper`] on any other store.
#[derive(Debug)]
#[must_use]
pub struct ShaperBuilder {
    quota: Quota,
    longest_wait: Span,
    keys_max: usize,
    without: WithoutStore,
    clock: Option<Arc<dyn Clock>>,
}

impl ShaperBuilder {
    /// More partners than anybody has.
    const KEYS_MAX: usize = 65_536;

    pub(super) fn new(quota: Quota) -> ShaperBuilder {
        let (keys_max, without) = (ShaperBuilder::KEYS_MAX, WithoutStore::Closed);
        ShaperBuilder { quota, longest_wait: Span::MAX, keys_max, without, clock: None }
    }

    /// How long a call waits at most; what would wait for longer is refused at once. Without it,
    /// for as long as the queue is.
    pub fn longest_wait(mut self, wait: impl Into<Span>) -> ShaperBuilder {
        self.longest_wait = wait.into();
        self
    }

    /// How many keys have calls in the queue, or had until lately, at most; 65,536 unless set. A
    /// new key above that is refused until one of the others is done. A store of its own has a
    /// bound of its own.
    pub fn keys_max(mut self, keys: usize) -> ShaperBuilder {
        self.keys_max = keys;
        self
    }

    /// What is done while a store elsewhere does not answer. Without it, calls are refused: nobody
    /// then knows what the other processes send.
    pub fn without_store(mut self, without: WithoutStore) -> ShaperBuilder {
        self.without = without;
        self
    }

    /// The clock to go by: a [`ManualClock`](crate::ManualClock) in tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> ShaperBuilder {
        self.clock = Some(clock);
        self
    }

    /// The shaper in this process, or what is wrong with its quota.
    pub fn build(self) -> Result<Shaper, BuildError> {
        let policy = self.policy("shaper")?;
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let lines = Mutex::new(Lines::new(self.keys_max));
        let (longest_wait, keys) = (self.longest_wait, Keys::new());
        Ok(Shaper { policy, longest_wait, keys, clock, lines })
    }

    /// The shaper on any store, or what is wrong with its quota: processes that share the store
    /// agree on its name and its quota, and send together what one would.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate_core::{Quota, WithoutStore};
    /// use tidegate_store::{MemoryStore, NoSlot, Shaper};
    ///
    /// // In production this may be a store in Redis.
    /// let store = Arc::new(MemoryStore::new());
    /// let shaper = Shaper::builder(Quota::per_second(10).burst(50))
    ///     // While the store does not answer, each of three nodes goes on at a third of the rate.
    ///     .without_store(WithoutStore::Local { nodes: 3 })
    ///     .build_on("webhooks", store)?;
    /// # let sent = async {
    /// shaper.acquire("partner", 1).await?;
    /// // Now send it.
    /// # Ok::<(), NoSlot>(())
    /// # };
    /// # drop(sent);
    /// # Ok::<(), tidegate_store::BuildError>(())
    /// ```
    pub fn build_on(self, name: &str, store: Arc<dyn Store>) -> Result<SharedShaper, BuildError> {
        let policy = self.policy(name)?;
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        SharedShaper::new((name, policy, self.without), store, (self.longest_wait, clock))
    }

    fn policy(&self, name: &str) -> Result<Policy, BuildError> {
        let policy = Policy::new(Kind::LeakyQueue, self.quota);
        policy.map_err(|error| BuildError::Quota { name: name.into(), error })
    }
}
