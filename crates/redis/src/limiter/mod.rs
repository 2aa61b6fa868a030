//! The limiter of a fleet: rules that are given once, on a [`Fleet`].

mod answer;
mod ask;
mod build;
mod pass;
mod rule;

use std::sync::Arc;

use tidegate_core::Policy;
use tidegate_store::ToPolicy;

pub use self::answer::FleetAnswer;
pub use self::ask::FleetAsk;
pub use self::build::{FleetBuildError, FleetLimiterBuilder};
pub use self::pass::FleetPass;
use self::rule::NamedRule;
use crate::failure::StoreError;
use crate::fleet::{Fleet, FleetChangeError};
use crate::store::RedisStore;
use tidegate_store::DecisionCounts;
use tidegate_store::KeyPart;

/// Decides for a whole fleet: every node that has the same rules and the same Redis shares them.
///
/// It always answers: where Redis does not, each rule says what to do
/// ([`WithoutStore`](crate::WithoutStore)), and the answer says so ([`FleetAnswer::by`]). Clones
/// are the same limiter.
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
    fleet: Fleet,
    rules: Arc<[NamedRule]>,
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
        let named = self.rules.iter().find(|named| named.name() == rule);
        let named = named.ok_or(FleetChangeError::UnknownRule)?;
        self.fleet.change(&named.shared, policy)
    }

    /// The store that it asks.
    pub fn store(&self) -> &RedisStore {
        self.fleet.store()
    }

    /// What it stands on: for requests by other rules, which may come and go.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// How many decisions were made by what, since it was built.
    pub fn counts(&self) -> DecisionCounts {
        self.fleet.counts()
    }
}

impl std::fmt::Debug for FleetLimiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.rules.iter().map(NamedRule::name).collect();
        let mut debug = f.debug_struct("FleetLimiter");
        debug.field("rules", &names).field("store", self.fleet.store()).finish_non_exhaustive()
    }
}
