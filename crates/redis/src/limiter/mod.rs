//! The limiter of a fleet: rules, Redis, and what to do without it.

mod answer;
mod ask;
mod build;
mod counts;
mod pass;
mod repay;
mod rule;
mod without;

use std::sync::Arc;

use tidegate_core::{Policy, Span, Tick};
use tidegate_store::{Clock, MemoryStore, SystemClock, ToPolicy};

pub use self::answer::{By, FleetAnswer};
pub use self::ask::FleetAsk;
pub use self::build::{FleetBuildError, FleetLimiterBuilder};
use self::counts::Counts;
pub use self::counts::FleetCounts;
pub use self::pass::FleetPass;
use self::repay::Repaying;
use self::rule::NamedRule;
pub use self::rule::{FleetChangeError, WithoutStore};
use crate::failure::StoreError;
use crate::key::KeyPart;
use crate::store::RedisStore;

/// Decides for a whole fleet: every node that has the same rules and the same Redis shares them.
///
/// It always answers: where Redis does not, each rule says what to do
/// ([`WithoutStore`]), and the answer says so ([`FleetAnswer::by`]). Clones are the same limiter.
///
/// ```no_run
/// use tidegate_core::Quota;
/// use tidegate_redis::{FleetLimiter, WithoutStore};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = FleetLimiter::builder()
///     .each("per-client", Quota::per_minute(100).burst(20))
///     .without_store(WithoutStore::Local { nodes: 4 })
///     .all("everyone", Quota::per_second(10_000))
///     .without_store(WithoutStore::Open)
///     .connect("redis://127.0.0.1:6379")
///     .await?;
///
/// let answer = limiter.decide("ada").await;
/// println!("{:?}, {} left, by {}", answer.verdict(), answer.decision().remaining, answer.by());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FleetLimiter {
    inner: Arc<Inner>,
}

struct Inner {
    store: RedisStore,
    rules: Vec<NamedRule>,
    /// Where rules count while Redis does not answer.
    local: MemoryStore,
    repaying: Repaying,
    clock: SystemClock,
    counts: Counts,
}

impl FleetLimiter {
    /// A limiter without rules yet.
    pub fn builder() -> FleetLimiterBuilder {
        FleetLimiterBuilder::new()
    }

    /// Decides one request of one cell, and charges it if it passes.
    pub async fn decide(&self, key: impl KeyPart) -> FleetAnswer<'_> {
        self.key(key).decide().await
    }

    /// A request for `key`, to say more about before it is decided.
    pub fn key(&self, key: impl KeyPart) -> FleetAsk<'_> {
        FleetAsk::new(self, key)
    }

    /// Makes `key` fresh under every rule that counts each key, for the whole fleet.
    ///
    /// Nodes that remember a refusal of it let it pass a quarter of a second later at most.
    pub async fn reset(&self, key: impl KeyPart) -> Result<(), StoreError> {
        self.key(key).reset().await
    }

    /// Changes the policy of a rule: what was consumed is kept.
    ///
    /// Every node has to be told. Until all are, those with the old policy and those with the new
    /// one count apart: at most what both allow together passes.
    pub fn change(&self, rule: &str, policy: impl ToPolicy) -> Result<(), FleetChangeError> {
        let policy: Policy = policy.to_policy().map_err(FleetChangeError::Quota)?;
        let named = self.inner.rules.iter().find(|named| named.name() == rule);
        let named = named.ok_or(FleetChangeError::UnknownRule)?;
        named.change(&self.inner.local, policy, self.inner.store.server_now())
    }

    /// The store that it asks.
    pub fn store(&self) -> &RedisStore {
        &self.inner.store
    }

    /// How many decisions were made by what, since it was built.
    pub fn counts(&self) -> FleetCounts {
        self.inner.counts.read()
    }

    fn now(&self) -> Tick {
        self.inner.clock.now()
    }
}

/// When to come back, where nobody can say: Redis may be there again in a second.
const COME_BACK_AFTER: Span = Span::from_secs(1);

impl std::fmt::Debug for FleetLimiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.inner.rules.iter().map(NamedRule::name).collect();
        let mut debug = f.debug_struct("FleetLimiter");
        debug.field("rules", &names).field("store", &self.inner.store).finish_non_exhaustive()
    }
}
