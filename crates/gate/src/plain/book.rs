//! The plain limits of a gate by their names.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tidegate_config::WithoutStore;
use tidegate_core::{Policy, Tick};

use super::{Kept, PlainLimit};
use crate::store::{AnyStore, StoreFailure};

/// All plain limits. Written when a new one is asked for; read otherwise.
#[derive(Debug, Default)]
pub(crate) struct Book(RwLock<HashMap<Box<str>, PlainLimit>>);

impl Book {
    /// The limit of this name: as it is, as it becomes, or a new one.
    pub(super) fn limit(
        &self,
        name: &str,
        policy: Policy,
        without: WithoutStore,
        store: &AnyStore,
        now: impl FnOnce() -> Tick,
    ) -> Result<PlainLimit, StoreFailure> {
        let is_it = |limit: &&PlainLimit| limit.0.policy == policy && limit.0.without == without;
        let limits = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(limit) = limits.get(name).filter(is_it) {
            return Ok(limit.clone());
        }
        drop(limits);
        let mut limits = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let rule = match limits.get(name) {
            Some(limit) if is_it(&limit) => return Ok(limit.clone()),
            Some(before) => store.change(&before.0.rule, policy, without, now())?,
            None if PlainLimit::NAME_BYTES_MAX < name.len() => {
                let (bytes, max) = (name.len(), PlainLimit::NAME_BYTES_MAX);
                let message = format!("the name has {bytes} bytes: at most {max} are accepted");
                return Err(StoreFailure::new(message));
            }
            None if PlainLimit::LIMITS_MAX <= limits.len() => {
                let max = PlainLimit::LIMITS_MAX;
                let message = format!("there are {max} plain limits already: use one of them");
                return Err(StoreFailure::new(message));
            }
            // No rule of a policy has a name that begins like this.
            None => store.rule(&format!("/plain/{name}"), policy, without)?,
        };
        let limit = PlainLimit(Arc::new(Kept { name: name.into(), policy, without, rule }));
        limits.insert(name.into(), limit.clone());
        Ok(limit)
    }
}
