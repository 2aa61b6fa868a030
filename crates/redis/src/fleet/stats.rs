//! What a fleet has seen of Redis, in numbers: for metrics, and for a person in a hurry.

use tidegate_store::MemoryStats;

use super::{Fleet, FleetCounts};
use crate::health::Health;
use crate::tally::{ErrorCounts, RoundTrips};

/// What a fleet has seen of Redis since it was made.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StoreStats {
    /// How many decisions were made by what.
    pub decisions: FleetCounts,
    /// Calls of scripts that were sent; many requests may travel in one.
    pub calls: u64,
    /// How long answers took.
    pub round_trips: RoundTrips,
    /// Requests that Redis did not answer, by the reason; refunds and renewals included.
    pub errors: ErrorCounts,
    /// Servers that are left alone just now, because they failed several times in a row: how many
    /// circuit breakers are open.
    pub resting: usize,
    /// How the connections are, and whether a server may evict our keys.
    pub health: Health,
}

impl Fleet {
    /// What it has seen of Redis so far.
    pub fn stats(&self) -> StoreStats {
        let store = &self.inner.store;
        StoreStats {
            decisions: self.counts(),
            calls: store.tally().calls(),
            round_trips: store.tally().round_trips(),
            errors: store.tally().errors(),
            resting: store.resting(),
            health: store.health(),
        }
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
