//! The shaper of a fleet: slots are handed out by Redis, so that the sum of all nodes is smooth.
//!
//! A slot is told as a wait from the moment at which the script decided. It begins to run here when
//! the answer is there, so no call is ever sent early, whatever clocks say.

mod build;
mod held;
mod until;

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Span, Tick};
use tidegate_store::{By, Clock, NoSlot, Slot};

pub use self::build::FleetShaperBuilder;
use self::held::Held;
use self::until::Until;
use crate::fleet::{Fleet, FleetDecided, SharedCharge, SharedRule};
use tidegate_store::{KeyPart, TextKey as FleetKey};

/// Sends the calls of a whole fleet out at a constant rate, for each key by itself. Clones are the
/// same shaper.
///
/// Every node that has the same name, the same quota and the same Redis takes its slots from one
/// queue there. The burst of the quota is that queue: how many cells it holds at most, with that
/// which is just going out.
///
/// ```no_run
/// use std::time::Duration;
/// use tidegate_core::Quota;
/// use tidegate_redis::{FleetShaper, WithoutStore};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let shaper = FleetShaper::builder("webhooks", Quota::per_second(10).burst(50))
///     .longest_wait(Duration::from_secs(3))
///     // While Redis does not answer, each of three nodes goes on at a third of the rate.
///     .without_store(WithoutStore::Local { nodes: 3 })
///     .connect("redis://127.0.0.1:6379")
///     .await?;
///
/// shaper.acquire("partner", 1).await?;
/// // Now send it.
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FleetShaper {
    inner: Arc<Inner>,
}

struct Inner {
    fleet: Fleet,
    rule: SharedRule,
    longest_wait: Span,
    /// As long as anybody can wait in a full queue.
    fullest: Span,
    /// By which we wait.
    clock: Arc<dyn Clock>,
}

impl FleetShaper {
    /// A shaper that is not connected yet. Nodes agree on its name and its quota.
    pub fn builder(name: &str, quota: tidegate_core::Quota) -> FleetShaperBuilder {
        FleetShaperBuilder::new(name, quota)
    }

    /// Waits for a slot, for at most the shaper's longest wait.
    ///
    /// A call of several cells is sent in one, and the next waits for all of them. What finds no
    /// room, or would wait for too long, is refused at once.
    ///
    /// Dropped before its slot has come, it gives the slot back if that is the last that was handed
    /// out. An earlier one stays empty: whoever stands behind it, on any node, has been told when
    /// to start. So calls that are given up make the output slower, and never faster.
    pub fn acquire<K: KeyPart>(
        &self,
        key: K,
        cost: u32,
    ) -> impl Future<Output = Result<Slot, NoSlot>> + Send + use<K> {
        self.acquire_within(key, cost, self.inner.longest_wait)
    }

    /// The same for at most `within`, or the shaper's longest wait if that is shorter. It counts
    /// from when the future is first polled.
    pub fn acquire_within<K: KeyPart, W: Into<Span>>(
        &self,
        key: K,
        cost: u32,
        within: W,
    ) -> impl Future<Output = Result<Slot, NoSlot>> + Send + use<K, W> {
        let (shaper, key) = (self.clone(), FleetKey::new(key));
        let within = within.into().min(self.inner.longest_wait);
        async move {
            let key = key.map_err(|_| NoSlot::Never)?;
            shaper.wait(key, cost, within).await
        }
    }

    /// How long such a call would wait if it came now; takes no slot.
    pub fn peek<K: KeyPart>(
        &self,
        key: K,
        cost: u32,
    ) -> impl Future<Output = Result<Span, NoSlot>> + Send + use<K> {
        let (shaper, key) = (self.clone(), FleetKey::new(key));
        async move {
            let key = key.map_err(|_| NoSlot::Never)?;
            let Inner { longest_wait, .. } = *shaper.inner;
            shaper.inner.look(&key, cost, longest_wait).await
        }
    }

    /// What it stands on: its counts, its health, and its store.
    pub fn fleet(&self) -> &Fleet {
        &self.inner.fleet
    }

    async fn wait(&self, key: FleetKey, cost: u32, within: Span) -> Result<Slot, NoSlot> {
        let inner = &self.inner;
        let asked = inner.now();
        let deadline = asked.after(within);
        // Most that is refused is refused here: a slot that is taken and given back may be one that
        // others stand behind already.
        if within < inner.fullest {
            inner.look(&key, cost, within).await?;
        }
        let held = self.take(key, cost, deadline).await?;
        Until::new(Arc::clone(&inner.clock), held.until()).await;
        let by = held.start();
        Ok(Slot::new(inner.now().since(asked), by))
    }

    /// Takes a slot, in a task of its own: whoever stops waiting meanwhile loses it for nobody.
    async fn take(&self, key: FleetKey, cost: u32, deadline: Tick) -> Result<Held, NoSlot> {
        let inner = Arc::clone(&self.inner);
        let taken = tokio::spawn(async move {
            let charge = SharedCharge { rule: &inner.rule, key: &key, cost };
            let decided = inner.fleet.decide(&[charge]).await;
            let now = inner.now();
            let by = NoSlot::judge(decided.decision(), deadline.since(now), decided.by);
            let FleetDecided { receipts, by: decided_by, .. } = decided;
            // Held before it is judged: what comes too late is given back by dropping it.
            let held = Held::new(Arc::clone(&inner), receipts, decided_by);
            by.map(|by| held.until_after(now, by))
        });
        match taken.await {
            Ok(taken) => taken,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime ends, and with it whoever waits.
            Err(_) => Err(NoSlot::Refused { retry_after: Span::from_secs(1), by: By::Closed }),
        }
    }
}

impl Inner {
    fn now(&self) -> Tick {
        self.clock.now()
    }

    async fn look(&self, key: &FleetKey, cost: u32, within: Span) -> Result<Span, NoSlot> {
        let decided = self.fleet.peek(&[SharedCharge { rule: &self.rule, key, cost }]).await;
        NoSlot::judge(decided.decision(), within, decided.by)
    }
}

impl fmt::Debug for FleetShaper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("FleetShaper");
        debug.field("name", &self.inner.rule.name()).field("policy", &self.inner.rule.policy());
        debug.field("fleet", &self.inner.fleet).finish_non_exhaustive()
    }
}
