//! The limiter on any store: its answers are awaited.

mod ask;
mod pass;

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use tidegate_core::{Kind, Policy, WithoutStore};

pub use self::ask::SharedAsk;
pub use self::pass::SharedPass;
use super::answer::Answer;
use super::build::{BuildError, Planned, ToPolicy};
use super::rule::{ChangeError, LimiterRule, Rules, Scope};
use crate::clock::Clock;
use crate::store::{Store, StoreFailure, StoreKey, StoreLimit, WantedLimit};
use crate::text_key::{KeyPart, TextKey};

/// Decides by a store of any kind: every process that has the same rules and the same shared store
/// counts together.
///
/// Built by [`LimiterBuilder::build_on`](crate::LimiterBuilder::build_on). It always answers: while
/// the store does not, each rule says what to do ([`WithoutStore`]), and the answer says so
/// ([`Answer::by`](crate::Answer::by)). Clones are the same limiter.
///
/// A key is a text, a number, or a tuple of them: what means the same in every process.
#[derive(Clone)]
pub struct SharedLimiter {
    inner: Arc<Inner>,
}

struct Inner {
    rules: Rules<SharedRule>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

/// A rule as its store keeps it.
struct SharedRule {
    limit: StoreLimit,
    kind: Kind,
    without: WithoutStore,
    /// The key of everybody, where that is what it counts.
    everybody: Option<StoreKey>,
}

impl SharedLimiter {
    pub(super) fn new(
        planned: Vec<Planned>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Result<SharedLimiter, BuildError> {
        let form = store.key_form();
        let everybody = |planned: &Planned| match planned.scope {
            Scope::Each => Ok(None),
            Scope::All => {
                let text = || TextKey::new(("all", &*planned.name));
                form.key(|keys| keys.key(()), text).map(Some).map_err(BuildError::NameTooLong)
            }
        };
        let everybody = planned.iter().map(everybody).collect::<Result<Vec<_>, _>>()?;
        let wanted: Vec<WantedLimit<'_>> =
            planned.iter().map(|it| wanted(&it.name, it.policy, it.without, None)).collect();
        let limits = store.put_all(&wanted, &*clock).map_err(BuildError::Store)?;
        let made = planned.into_iter().zip(limits).zip(everybody);
        let rules = made.map(|((planned, limit), everybody)| {
            planned.formerly.iter().for_each(|policy| store.formerly(&limit, *policy));
            if let Some(yes) = planned.remembers_refusals {
                store.remember_refusals(&limit, yes);
            }
            let (kind, without) = (planned.policy.kind(), planned.without);
            let rule = SharedRule { limit, kind, without, everybody };
            (planned.name, LimiterRule::new(planned.scope, rule))
        });
        let rules = rules.collect();
        Ok(SharedLimiter { inner: Arc::new(Inner { rules, store, clock }) })
    }

    /// Decides one request of one cell, and charges it if it passes.
    ///
    /// Permits of concurrency last for their lease; use [`SharedAsk::enter`] to give them back
    /// earlier.
    pub async fn decide(&self, key: impl KeyPart + Hash) -> Answer<'_> {
        self.key(key).decide().await
    }

    /// A request for `key`, to say more about before it is decided.
    pub fn key(&self, key: impl KeyPart + Hash) -> SharedAsk<'_> {
        SharedAsk::new(self, key)
    }

    /// Makes `key` fresh under every rule that counts each key, for all processes.
    ///
    /// One that remembers a refusal of it lets it pass a little later.
    pub async fn reset(&self, key: impl KeyPart + Hash) -> Result<(), StoreFailure> {
        self.key(key).reset().await
    }

    /// Changes the policy of a rule: what was consumed is kept.
    ///
    /// Every process has to change it. Until all have, those with the old policy and those with the
    /// new one count apart: at most what both allow together passes.
    pub fn change(&self, rule: &str, policy: impl ToPolicy) -> Result<(), ChangeError> {
        let policy = policy.to_policy().map_err(ChangeError::Quota)?;
        let Inner { rules, store, clock } = &*self.inner;
        let changed = rules.get(rule).ok_or(ChangeError::UnknownRule)?;
        changed.change(|present| {
            let SharedRule { limit, without, everybody, .. } = present;
            let wanted = wanted(rule, policy, *without, Some(limit));
            let made = store.put_all(&[wanted], &**clock).map_err(ChangeError::Store)?;
            let limit = made.into_iter().next().unwrap_or_else(|| limit.clone());
            let (kind, without, everybody) = (policy.kind(), *without, everybody.clone());
            Ok(SharedRule { limit, kind, without, everybody })
        })
    }

    /// The store that it asks: its numbers, and how it is.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }
}

fn wanted<'a>(
    name: &str,
    policy: Policy,
    without: WithoutStore,
    before: Option<&'a StoreLimit>,
) -> WantedLimit<'a> {
    WantedLimit::new(name, (policy, without), before)
}

impl fmt::Debug for SharedLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SharedLimiter");
        debug.field("rules", &self.inner.rules.names).finish_non_exhaustive()
    }
}
