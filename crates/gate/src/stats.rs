//! What a gate holds, and what it has seen of its store, in numbers: for metrics.

use tidegate_store::{Health, MemoryStats, RemoteStats, StoreStats};

use crate::gate::Gate;
use crate::shares::ShareStats;

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
    /// What was seen of servers elsewhere; nothing where states are kept in this process.
    pub store: Option<RemoteStats>,
    /// What tenants share, in the order of the policy. Every process has shares of its own, also
    /// where states are in Redis.
    pub shares: Vec<ShareStats>,
}

impl Gate {
    /// How the connections to servers elsewhere are; nothing where states are kept in this process.
    pub fn store_health(&self) -> Option<Health> {
        self.0.store.health()
    }

    /// What it holds, and what it has seen of its store. It goes through all that is kept here: for
    /// a metrics page, not for every request.
    pub fn stats(&self) -> GateStats {
        let StoreStats { memory, remote: store, .. } = self.0.store.stats();
        let MemoryStats { keys, bytes, crowded, forgotten, .. } = memory;
        GateStats { keys, bytes, crowded, forgotten, store, shares: self.share_stats() }
    }

    /// How many keys each rule holds in this process while others find no room, in the order of the
    /// rules; none as long as there is room for all.
    pub fn crowds(&self) -> Vec<(String, usize)> {
        let in_force = self.0.in_force();
        let names = in_force.rules.rules().iter().map(|rule| rule.name().to_owned());
        let Some(store) = self.0.store.memory() else {
            return names.map(|name| (name, 0)).collect();
        };
        let (mut of, mut limits) = (Vec::new(), Vec::new());
        for at in 0..names.len() {
            limits.extend(in_force.rules_here(at));
            of.resize(limits.len(), at);
        }
        let mut crowds: Vec<(String, usize)> = names.map(|name| (name, 0)).collect();
        for (at, keys) in of.into_iter().zip(store.crowds(&limits)) {
            crowds[at].1 += keys;
        }
        crowds
    }
}
