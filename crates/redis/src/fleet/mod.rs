//! Redis, and what to do without it, for rules that are chosen request by request.

mod census;
mod charged;
mod counts;
mod decided;
mod finish;
mod judge;
mod owed;
mod permits;
mod put;
mod receipts;
mod repay;
mod returns;
mod rule;
mod seam;
mod settlement;
mod stats;
mod without;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use tidegate_core::{Debited, Policy, Tick, WithoutStore};
use tidegate_store::{ChangeError, Clock as _, DecisionCounts, MemoryStore, SystemClock};

use self::counts::Counts;
use self::decided::Decisions;
pub use self::decided::FleetDecided;
use self::judge::Part;
use self::owed::Owed;
pub use self::put::WantedRule;
pub use self::receipts::FleetReceipts;
use self::repay::Repaying;
use self::returns::Returns;
pub use self::rule::SharedRule;
use self::rule::share;
use crate::error::ConnectError;
use crate::failure::StoreError;
use crate::rule::FleetRule;
use crate::store::RedisStore;
use tidegate_store::TextKey as FleetKey;

/// Decides for a whole fleet, by rules that are chosen request by request and may come, go and
/// change meanwhile. Clones are the same fleet.
///
/// It is a [`Store`](tidegate_store::Store), on which a
/// [`SharedLimiter`](tidegate_store::SharedLimiter) stands, whose rules are given once. Like it, it
/// always answers: where Redis does not, each rule says what to do.
///
/// ```no_run
/// use tidegate_core::{Policy, Quota};
/// use tidegate_redis::{Fleet, FleetKey, SharedCharge, WithoutStore};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let fleet = Fleet::connect("redis://127.0.0.1:6379").await?;
/// let requests = Policy::token_bucket(Quota::per_minute(100))?;
/// let requests = fleet.rule("requests", requests, WithoutStore::Local { nodes: 4 })?;
/// let bytes = Policy::token_bucket(Quota::per_minute(1_000_000))?;
/// let bytes = fleet.rule("bytes", bytes, WithoutStore::Open)?;
///
/// let key = FleetKey::new("ada")?;
/// let mut decided = fleet
///     .decide(&[
///         SharedCharge { rule: &requests, key: &key, cost: 1 },
///         SharedCharge { rule: &bytes, key: &key, cost: 4_096 },
///     ])
///     .await;
/// if decided.verdict.passes() {
///     // It was shorter than it might have been.
///     fleet.refund(decided.receipts.take_cells(1, 1_096)).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Fleet {
    inner: Arc<Inner>,
}

struct Inner {
    store: RedisStore,
    /// Where rules count while Redis does not answer.
    local: Arc<MemoryStore>,
    owed: Owed,
    repaying: Repaying,
    returns: Returns,
    clock: SystemClock,
    counts: Counts,
    /// Held while rules turn into others; a request that is under way waits for that.
    turning: RwLock<()>,
    /// How many rules there have been.
    rules: AtomicU64,
    /// How many nodes are known to share the quota.
    nodes: AtomicU32,
}

/// One of the limits that a request has to pass.
#[derive(Clone, Copy, Debug)]
pub struct SharedCharge<'a> {
    /// By which rule.
    pub rule: &'a SharedRule,
    /// Which key it counts.
    pub key: &'a FleetKey,
    /// How many cells; with zero, it only looks.
    pub cost: u32,
}

/// What came of a debit.
#[derive(Debug)]
pub struct FleetDebited {
    /// What was charged: to be given back if it turns out to have been less. Its place is zero.
    pub receipts: FleetReceipts,
    /// How many cells were more than the state remembers, rounded up: they are not owed.
    pub forgiven: u32,
}

impl Fleet {
    /// Keys that are counted here while Redis does not answer, unless a store is given for it.
    pub const LOCAL_KEYS_MAX: usize = 1_000_000;

    /// Connects to `url`, with everything else as it usually is.
    pub async fn connect(url: &str) -> Result<Fleet, ConnectError> {
        RedisStore::connect(url).await.map(Fleet::new)
    }

    /// A fleet on a store that is connected already.
    pub fn new(store: RedisStore) -> Fleet {
        Fleet::with_local(store, MemoryStore::with_keys_max(Fleet::LOCAL_KEYS_MAX))
    }

    /// As [`Fleet::new`], counting in `local` while Redis does not answer.
    pub fn with_local(store: RedisStore, local: MemoryStore) -> Fleet {
        Fleet::over(store, Arc::new(local))
    }

    fn over(store: RedisStore, local: Arc<MemoryStore>) -> Fleet {
        let (clock, counts, repaying) =
            (SystemClock::new(), Counts::default(), Repaying::default());
        let (owed, rules) = (Owed::new(local.keys_max()), AtomicU64::new(0));
        let (nodes, returns) = (AtomicU32::new(1), Returns::default());
        let turning = RwLock::default();
        let inner =
            Inner { store, local, owed, repaying, returns, clock, counts, turning, rules, nodes };
        Fleet { inner: Arc::new(inner) }
    }

    /// A fleet on the same connections and the same memory, for a policy of this name, which may
    /// have none: see [`RedisStore::for_policy`]. It counts its decisions by itself, and knows no
    /// rule yet.
    #[must_use]
    pub fn for_policy(&self, name: Option<&str>) -> Fleet {
        let store = self.inner.store.for_policy(name);
        if store.prefix() == self.inner.store.prefix() {
            return self.clone();
        }
        Fleet::over(store, Arc::clone(&self.inner.local))
    }

    /// A rule, from now on until it is dropped. Nodes agree on its name and its policy.
    ///
    /// Two rules with one name and one policy are one limit in Redis, but have a share each
    /// without it: keep a rule, and clone it.
    pub fn rule(
        &self,
        name: &str,
        policy: Policy,
        without: WithoutStore,
    ) -> Result<SharedRule, ChangeError> {
        self.rule_of(self.inner.store.rule(name, policy), without)
    }

    /// As [`Fleet::rule`], for a rule of the store of which more was said: see
    /// [`FleetRule::remember_refusals`] and [`FleetRule::formerly`].
    pub fn rule_of(
        &self,
        rule: FleetRule,
        without: WithoutStore,
    ) -> Result<SharedRule, ChangeError> {
        let number = self.inner.rules.fetch_add(1, Ordering::Relaxed);
        let share = share(rule.policy(), self.among_all(without));
        let share = share.map_err(ChangeError::Quota)?;
        SharedRule::new(rule, (number, without), share, (&self.inner.local, &self.inner.owed))
    }

    /// How many nodes are known to share the quota; one unless somebody said.
    pub fn nodes(&self) -> u32 {
        self.inner.nodes.load(Ordering::Relaxed)
    }

    /// Says how many nodes there are: rules that are made or [put](Fleet::put) from now on have the
    /// share of one of so many, or of as many as [`WithoutStore::Local`] says if that is more.
    pub fn set_nodes(&self, nodes: u32) {
        self.inner.nodes.store(nodes.max(1), Ordering::Relaxed);
    }

    /// What a rule does without Redis, with all nodes that are known.
    fn among_all(&self, without: WithoutStore) -> WithoutStore {
        match without {
            WithoutStore::Local { nodes } => WithoutStore::Local { nodes: nodes.max(self.nodes()) },
            other => other,
        }
    }

    /// Changes the policy of a rule, for all its clones: what was consumed is kept.
    ///
    /// Every node has to be told. Until all are, those with the old policy and those with the new
    /// one count apart: at most what both allow together passes.
    pub fn change(&self, rule: &SharedRule, policy: Policy) -> Result<(), ChangeError> {
        let (name, without, before) = (rule.name(), rule.without(), Some(rule));
        let (limit, whole) = (name, policy);
        let wanted = WantedRule { name, limit, policy, whole, without, before, others: &[] };
        self.put(&[wanted]).map(drop)
    }

    /// Gives back all that was charged, as if it had never been asked; see
    /// [`FleetReceipts::refund`].
    pub async fn refund(&self, receipts: FleetReceipts) -> Result<(), StoreError> {
        receipts.refund().await
    }

    /// Charges what has happened in full, also beyond the limit: see [`Policy::debit`].
    ///
    /// Where Redis does not answer, it is charged to this node's share, and to Redis when that is
    /// back; a rule without a share counts nothing then, and says why.
    pub async fn debit(&self, charge: SharedCharge<'_>) -> Result<FleetDebited, StoreError> {
        if charge.cost == 0 {
            return Ok(FleetDebited { receipts: FleetReceipts::default(), forgiven: 0 });
        }
        if charge.cost == 0 {
            return Ok(FleetDebited { receipts: FleetReceipts::default(), forgiven: 0 });
        }
        let part = Part::new(&charge);
        let run = self.inner.store.run_now();
        let done = self.inner.store.debit_by(part.wanted(), self.inner.store.deadline()).await;
        match done {
            Ok(Debited { receipt, forgiven }) => {
                let receipt = std::iter::once(Some(receipt));
                let receipts = FleetReceipts::of_store(self, &[part], run, receipt);
                Ok(FleetDebited { receipts, forgiven })
            }
            Err(error @ StoreError::NothingToDebit(_)) => Err(error),
            Err(_) if charge.rule.is_local() => Ok(self.debit_share(&part)),
            Err(error) => Err(error),
        }
    }

    /// Makes a key fresh under a rule, for the whole fleet.
    ///
    /// Nodes that remember a refusal of it let it pass a quarter of a second later at most.
    pub async fn reset(&self, rule: &SharedRule, key: &FleetKey) -> Result<(), StoreError> {
        let part = Part::new(&SharedCharge { rule, key, cost: 0 });
        if let Some(key) = part.local_key(&self.inner.local) {
            self.inner.local.reset(&part.present.local, key);
        }
        if let Some((key, _)) = self.inner.owed.look(&part, self.now()) {
            self.inner.owed.clear(&part.present.owed, key);
        }
        let done = self.inner.store.reset(&part.present.rule, key).await;
        if done.is_ok() {
            self.inner.returns.forget(rule, key);
        }
        done
    }

    /// The store that it asks.
    pub fn store(&self) -> &RedisStore {
        &self.inner.store
    }

    /// How many decisions were made by what, since it was made.
    pub fn counts(&self) -> DecisionCounts {
        let (written_off, not_returned) =
            (self.inner.owed.written_off(), self.inner.returns.dropped());
        let mut counts = self.inner.counts.read();
        (counts.written_off, counts.not_returned) = (written_off, not_returned);
        counts
    }

    /// The server's clock, as far as it is known here.
    pub fn server_now(&self) -> Tick {
        self.inner.store.server_now()
    }

    /// Our own clock, by which this node's share is counted.
    fn now(&self) -> Tick {
        self.inner.clock.now()
    }
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("store", &self.inner.store).finish_non_exhaustive()
    }
}
