//! What a gate holds, and what it has seen of its store, in numbers: for metrics.

use tidegate_store::MemoryStats;

use crate::gate::Gate;
use crate::shares::ShareStats;
use crate::store::AnyStore;

#[cfg(feature = "redis")]
pub use tidegate_redis::StoreStats;

/// What is known of a store elsewhere. Without the feature `redis` there is none.
#[cfg(not(feature = "redis"))]
#[derive(Clone, Debug)]
pub enum StoreStats {}

/// What a gate holds in this process, and what it has seen of a store elsewhere.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GateStats {
    /// States that are kept in this process. Where a fleet shares them in Redis, those that were
    /// made without it.
    pub keys: usize,
    /// Bytes that they have in use; see [`MemoryStats::bytes`].
    pub bytes: usize,
    /// Requests of keys that there was no room for, since the start; see [`MemoryStats::crowded`].
    pub crowded: u64,
    /// States that were forgotten as fresh, since the start.
    pub forgotten: u64,
    /// What was seen of Redis; nothing where states are kept in this process.
    pub store: Option<StoreStats>,
    /// What tenants share, in the order of the policy. Every process has shares of its own, also
    /// where states are in Redis.
    pub shares: Vec<ShareStats>,
}

impl Gate {
    /// How the connections to Redis are; nothing where states are kept in this process.
    #[cfg(feature = "redis")]
    pub fn store_health(&self) -> Option<tidegate_redis::Health> {
        match &self.0.store {
            AnyStore::Fleet(fleet) => Some(fleet.health()),
            AnyStore::Here(_) => None,
        }
    }

    /// What it holds, and what it has seen of its store. It goes through all that is kept here: for
    /// a metrics page, not for every request.
    pub fn stats(&self) -> GateStats {
        let (memory, store) = match &self.0.store {
            #[cfg(feature = "redis")]
            AnyStore::Fleet(fleet) => (fleet.local_stats(), Some(fleet.stats())),
            AnyStore::Here(store) => (store.stats(), None),
        };
        let MemoryStats { keys, bytes, crowded, forgotten, .. } = memory;
        GateStats { keys, bytes, crowded, forgotten, store, shares: self.share_stats() }
    }

    /// How many keys each rule holds in this process while others find no room, in the order of the
    /// rules; none as long as there is room for all.
    pub fn crowds(&self) -> Vec<(String, usize)> {
        let generation = self.0.generation();
        let names = generation.rules.rules().iter().map(|rule| rule.name().to_owned());
        let Some(store) = self.0.store.here() else { return names.map(|name| (name, 0)).collect() };
        let (mut of, mut limits) = (Vec::new(), Vec::new());
        for at in 0..names.len() {
            limits.extend(generation.rules_here(at));
            of.resize(limits.len(), at);
        }
        let mut crowds: Vec<(String, usize)> = names.map(|name| (name, 0)).collect();
        for (at, keys) in of.into_iter().zip(store.crowds(&limits)) {
            crowds[at].1 += keys;
        }
        crowds
    }
}
