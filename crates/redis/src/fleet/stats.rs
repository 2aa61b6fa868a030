//! What a fleet has seen of Redis, in numbers: for metrics, and for a person in a hurry.

use tidegate_store::{Health, MemoryStats, RemoteStats};

use super::Fleet;

impl Fleet {
    /// What it has seen of Redis so far.
    pub fn stats(&self) -> RemoteStats {
        let store = &self.inner.store;
        let mut stats = RemoteStats::default();
        stats.decisions = self.counts();
        stats.calls = store.tally().calls();
        stats.round_trips = store.tally().round_trips();
        stats.errors = store.tally().errors();
        stats.resting = store.resting();
        stats.health = store.health();
        stats
    }

    /// How the connections to Redis are.
    pub fn health(&self) -> Health {
        self.inner.store.health()
    }

    /// What is kept in this process of what was decided without Redis. What Redis has not been told
    /// of yet is kept beside it, for as many keys.
    pub fn local_stats(&self) -> MemoryStats {
        self.inner.local.stats()
    }
}
