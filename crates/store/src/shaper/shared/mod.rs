//! The shaper on any store: slots are handed out there, so that the sum of all processes is smooth.
//!
//! A slot is said as a wait from the moment at which the store decided. It begins to run here when
//! the answer is there, so no call is ever sent early, whatever clocks say.

mod held;
mod until;

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use tidegate_core::{Grains, Policy, Span, Tick, WithoutStore};

use self::held::Asking;
use self::until::Until;
use super::{NoSlot, Slot};
use crate::clock::Clock;
use crate::key::KeyTooLong;
use crate::later::Later;
use crate::limiter::BuildError;
use crate::store::{Judgment, LimitCharge, Place, Store, StoreKey, StoreLimit, Verb, WantedLimit};
use crate::text_key::{KeyPart, TextKey};

/// Sends the calls of all processes out at a constant rate, for each key by itself. Clones are the
/// same shaper.
///
/// Built by [`ShaperBuilder::build_on`](super::ShaperBuilder::build_on). Every process that has the
/// same name, the same quota and the same shared store takes its slots from one queue there. The
/// burst of the quota is that queue: how many cells it holds at most, with that which is just going
/// out.
#[derive(Clone)]
pub struct SharedShaper {
    inner: Arc<Inner>,
}

struct Inner {
    name: Box<str>,
    policy: Policy,
    limit: StoreLimit,
    store: Arc<dyn Store>,
    longest_wait: Span,
    /// As long as anybody can wait in a full queue.
    fullest: Span,
    /// By which we wait.
    clock: Arc<dyn Clock>,
}

impl SharedShaper {
    pub(super) fn new(
        (name, policy, without): (&str, Policy, WithoutStore),
        store: Arc<dyn Store>,
        (longest_wait, clock): (Span, Arc<dyn Clock>),
    ) -> Result<SharedShaper, BuildError> {
        let wanted = WantedLimit::new(name, (policy, without), None);
        let made = store.put_all(&[wanted], &*clock).map_err(BuildError::Store)?;
        let limit = made.into_iter().next().ok_or(BuildError::NoRules)?;
        let (name, fullest) = (name.into(), policy.grains().map_or(Span::MAX, fills));
        let inner = Inner { name, policy, limit, store, longest_wait, fullest, clock };
        Ok(SharedShaper { inner: Arc::new(inner) })
    }

    /// Waits for a slot, for at most the shaper's longest wait.
    ///
    /// A call of several cells is sent in one, and the next waits for all of them. What finds no
    /// room, or would wait for too long, is refused at once.
    ///
    /// Dropped before its slot has come, it gives the slot back if that is the last that was handed
    /// out. An earlier one stays empty: the calls behind it, in any process, know already when they
    /// start. So calls that are given up make the output slower, and never faster.
    pub fn acquire<K: KeyPart + Hash>(
        &self,
        key: K,
        cost: u32,
    ) -> impl Future<Output = Result<Slot, NoSlot>> + Send + use<K> {
        self.acquire_within(key, cost, self.inner.longest_wait)
    }

    /// Waits for at most `within`, or the shaper's longest wait if that is shorter. It counts from
    /// when the future is first polled.
    pub fn acquire_within<K: KeyPart + Hash, W: Into<Span>>(
        &self,
        key: K,
        cost: u32,
        within: W,
    ) -> impl Future<Output = Result<Slot, NoSlot>> + Send + use<K, W> {
        let (inner, key) = (Arc::clone(&self.inner), self.inner.key(&key));
        let within = within.into().min(inner.longest_wait);
        async move {
            let key = key.map_err(|_| NoSlot::Never)?;
            inner.wait(key, cost, within).await
        }
    }

    /// How long such a call would wait if it came now; takes no slot.
    pub fn peek<K: KeyPart + Hash>(
        &self,
        key: K,
        cost: u32,
    ) -> impl Future<Output = Result<Span, NoSlot>> + Send + use<K> {
        let (inner, key) = (Arc::clone(&self.inner), self.inner.key(&key));
        async move {
            let key = key.map_err(|_| NoSlot::Never)?;
            inner.look(&key, cost, inner.longest_wait).await
        }
    }

    /// The store that it asks: its numbers, and how it is.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }
}

impl Inner {
    fn now(&self) -> Tick {
        self.clock.now()
    }

    fn key(&self, key: &(impl KeyPart + Hash)) -> Result<StoreKey, KeyTooLong> {
        self.store.key_form().key(|keys| keys.key(key), || TextKey::new(key))
    }

    fn place<'a>(&'a self, key: &'a StoreKey) -> Place<'a> {
        Place { limit: &self.limit, key }
    }

    async fn wait(
        self: Arc<Inner>,
        key: StoreKey,
        cost: u32,
        within: Span,
    ) -> Result<Slot, NoSlot> {
        let asked = self.now();
        let deadline = asked.after(within);
        // Most that is refused is refused here: a slot that is taken and given back may be one that
        // others stand behind already.
        if within < self.fullest {
            self.look(&key, cost, within).await?;
        }
        let judging = self.judge(&key, cost, Verb::Decide);
        let (decision, held) = Asking::new(Arc::clone(&self), key, judging).await;
        let now = self.now();
        // Held before it is judged: what comes too late is given back by dropping it.
        let by = NoSlot::judge(decision, deadline.since(now), held.by())?;
        let held = held.until_after(now, by);
        Until::new(Arc::clone(&self.clock), held.until()).await;
        let by = held.start();
        Ok(Slot::new(self.now().since(asked), by))
    }

    async fn look(&self, key: &StoreKey, cost: u32, within: Span) -> Result<Span, NoSlot> {
        let judgment = self.judge(key, cost, Verb::Peek).await;
        NoSlot::judge(judgment.decision(), within, judgment.by)
    }

    fn judge(&self, key: &StoreKey, cost: u32, verb: Verb) -> Later<Judgment> {
        let charge = LimitCharge { at: self.place(key), cost };
        self.store.judge(&[charge], verb, self.store.now(&*self.clock))
    }
}

/// How long a full queue takes to empty.
fn fills(grains: &Grains) -> Span {
    let burst = u128::from(grains.burst()) * u128::from(grains.cell());
    Span::from_micros(u64::try_from(burst.div_ceil(grains.tick().into())).unwrap_or(u64::MAX))
}

impl fmt::Debug for SharedShaper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SharedShaper");
        debug.field("name", &self.inner.name).field("policy", &self.inner.policy);
        debug.finish_non_exhaustive()
    }
}
