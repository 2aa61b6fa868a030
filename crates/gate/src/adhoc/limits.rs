//! The plain limits of a gate by their names.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tidegate_core::{Policy, Tick, WithoutStore};
use tidegate_store::{RestoredRule, Store, StoreFailure, StoreLimit, WantedLimit};

use super::{AdhocLimit, Kept};
use crate::in_force::memory_rule;
use crate::orphans::OrphanLimits;

/// All plain limits. Written when a new one is asked for; read otherwise.
#[derive(Debug, Default)]
pub(crate) struct AdhocLimits(RwLock<HashMap<Box<str>, AdhocLimit>>);

impl AdhocLimits {
    /// The limit of this name: as it is, as it becomes, or a new one.
    pub(super) fn limit(
        &self,
        name: &str,
        policy: Policy,
        without: WithoutStore,
        (store, restored): (&dyn Store, &OrphanLimits),
        now: impl Fn() -> Tick,
    ) -> Result<AdhocLimit, StoreFailure> {
        let is_it = |limit: &&AdhocLimit| limit.0.policy == policy && limit.0.without == without;
        let limits = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(limit) = limits.get(name).filter(is_it) {
            return Ok(limit.clone());
        }
        drop(limits);
        let mut limits = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut claimed = None;
        let limit = match limits.get(name) {
            Some(limit) if is_it(&limit) => return Ok(limit.clone()),
            Some(before) => {
                let name = kept_as(name);
                put(store, name, (policy, without), Some(&before.0.limit), now())?
            }
            None if AdhocLimit::NAME_BYTES_MAX < name.len() => {
                let (bytes, max) = (name.len(), AdhocLimit::NAME_BYTES_MAX);
                let message = format!("the name has {bytes} bytes: at most {max} are accepted");
                return Err(StoreFailure::new(message));
            }
            None if AdhocLimit::LIMITS_MAX <= limits.len() => {
                let max = AdhocLimit::LIMITS_MAX;
                let message = format!("there are {max} plain limits already: use one of them");
                return Err(StoreFailure::new(message));
            }
            None => {
                let kept = kept_as(name);
                let made = match restored.find(&kept, now()) {
                    Some(rule) => {
                        let before = StoreLimit::Memory(rule);
                        put(store, kept.clone(), (policy, without), Some(&before), now())?
                    }
                    None => put(store, kept.clone(), (policy, without), None, now())?,
                };
                claimed = Some(kept);
                made
            }
        };
        let limit = AdhocLimit(Arc::new(Kept { name: name.into(), policy, without, limit }));
        limits.insert(name.into(), limit.clone());
        // After that: a snapshot finds it here or there.
        restored.claimed(claimed.as_deref());
        Ok(limit)
    }

    /// Forgets a limit that only its caller has.
    pub(super) fn forget(&self, limit: &AdhocLimit) {
        let mut limits = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // One is ours, one the caller's.
        let is_it = |known: &AdhocLimit| {
            Arc::ptr_eq(&known.0, &limit.0) && Arc::strong_count(&known.0) <= 2
        };
        if limits.get(limit.name()).is_some_and(is_it) {
            limits.remove(limit.name());
        }
    }

    /// All of them, as a snapshot names them.
    pub(crate) fn named_rules(&self) -> Vec<RestoredRule> {
        let limits = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut named: Vec<RestoredRule> = limits
            .iter()
            .filter_map(|(name, limit)| {
                let rule = memory_rule(&limit.0.limit)?.clone();
                Some(RestoredRule { name: kept_as(name), limit: String::new(), rule })
            })
            .collect();
        named.sort_by(|one, other| one.name.cmp(&other.name));
        named
    }
}

/// The limit in the store: a new one, or what another becomes.
fn put(
    store: &dyn Store,
    name: String,
    (policy, without): (Policy, WithoutStore),
    before: Option<&StoreLimit>,
    now: Tick,
) -> Result<StoreLimit, StoreFailure> {
    let wanted = WantedLimit::new(name, (policy, without), before);
    let made = store.put(&[wanted], now)?.into_iter().next();
    made.ok_or_else(|| StoreFailure::new("no limit was made"))
}

/// Under which name a plain limit is kept. No rule of a policy has one that begins like this.
fn kept_as(name: &str) -> String {
    format!("/plain/{name}")
}
