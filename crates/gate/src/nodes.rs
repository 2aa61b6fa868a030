//! How many nodes share the quota while Redis does not answer: those that say so every few seconds.
//!
//! More nodes count at once. Fewer do only when they have been fewer for long, and Redis has
//! answered all the while: after an outage the first to be back hears of nobody else, and would
//! take the share of all.

use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Span;
use tidegate_store::SnapshotError;
use tokio::runtime::Handle;
use tokio::time::{MissedTickBehavior, interval};

use crate::gate::Gate;
use crate::snapshot::{NODES, SnapshotProblem};
use crate::store::AnyStore;

/// How often a node says that it is there.
const BEAT: Duration = Duration::from_secs(3);

/// The same, if another was chosen; or never.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beat(pub(crate) Option<Duration>);

impl Default for Beat {
    fn default() -> Beat {
        Beat(Some(BEAT))
    }
}

/// For how long that counts: whoever is slow for a few beats has not left.
const LEASE: Span = Span::from_secs(12);

/// For how many beats in a row there have to be fewer: more than one lease.
const FEWER_AFTER: u32 = 10;

/// What was heard of the number of nodes.
#[derive(Debug)]
struct Census {
    /// How many share the quota.
    nodes: u32,
    /// For how many beats in a row there were fewer, and how many at most.
    fewer: (u32, u32),
}

impl Census {
    fn new(nodes: u32) -> Census {
        Census { nodes, fewer: (0, 1) }
    }

    /// Hears a number, or that there was no answer; the number that counts from now on.
    fn hear(&mut self, heard: Option<u32>) -> u32 {
        let (beats, most) = self.fewer;
        self.fewer = match heard {
            Some(nodes) if nodes < self.nodes => (beats + 1, most.max(nodes)),
            _ => (0, 1),
        };
        match (heard, self.fewer) {
            (_, (FEWER_AFTER.., most)) => (self.nodes, self.fewer) = (most, (0, 1)),
            (Some(nodes), _) => self.nodes = self.nodes.max(nodes),
            (None, _) => {}
        }
        self.nodes
    }
}

/// Begins with the number that a file says, if there is one.
pub(crate) fn restore(path: &Path, store: &AnyStore) -> Result<(), SnapshotProblem> {
    let AnyStore::Fleet(fleet) = store else { return Ok(()) };
    let problem = |error| SnapshotProblem::new(path, error);
    let mut text = String::new();
    match File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::InvalidData => {}
        read => drop(read.map_err(|error| problem(SnapshotError::Io(error)))?),
    }
    let digits = text.strip_prefix(NODES).and_then(|rest| rest.strip_suffix('\n'));
    let nodes = digits.and_then(|digits| digits.parse().ok()).filter(|nodes| 0 < *nodes);
    fleet.set_nodes(nodes.ok_or_else(|| problem(SnapshotError::NotASnapshot))?);
    Ok(())
}

/// Longer than any such file.
const FILE_BYTES_MAX: u64 = 64;

impl Gate {
    /// Says every so often that this node is there, for as long as the gate is.
    pub(crate) fn count_nodes(&self, every: Duration) {
        let AnyStore::Fleet(fleet) = &self.0.store else { return };
        // The connections need one as well; without it nothing is asked.
        let Ok(runtime) = Handle::try_current() else { return };
        let (store, inner) = (fleet.store().clone(), Arc::downgrade(&self.0));
        // A number that no other node has.
        let node = RandomState::new().hash_one("node");
        let mut census = Census::new(fleet.nodes());
        runtime.spawn(async move {
            let mut beats = interval(every);
            beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut is_told = false;
            loop {
                beats.tick().await;
                if inner.strong_count() == 0 {
                    return;
                }
                let heard = store.count_nodes(node, LEASE).await;
                let Some(inner) = inner.upgrade() else { return };
                if let Err(error) = &heard
                    && !std::mem::replace(&mut is_told, true)
                {
                    tracing::warn!(%error, "nodes are not counted: the last known number goes on");
                }
                is_told &= heard.is_err();
                Gate(inner).share_among(census.hear(heard.ok()));
            }
        });
    }

    /// Gives this node the share of one of so many.
    fn share_among(&self, nodes: u32) {
        let AnyStore::Fleet(fleet) = &self.0.store else { return };
        let before = fleet.nodes();
        if before == nodes {
            return;
        }
        fleet.set_nodes(nodes);
        tracing::info!(nodes, before, "so many nodes share the quota while Redis is away");
        if let Err(error) = self.scale() {
            // Tried again with the next beat.
            fleet.set_nodes(before);
            tracing::error!(%error, "limits cannot follow the number of nodes");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_count_at_once_and_fewer_when_it_is_certain() {
        let mut census = Census::new(1);
        assert_eq!(census.hear(Some(3)), 3);
        for _ in 1..FEWER_AFTER {
            assert_eq!(census.hear(Some(1)), 3);
        }
        // Nobody knows what happened meanwhile.
        assert_eq!(census.hear(None), 3);
        for _ in 1..FEWER_AFTER {
            assert_eq!(census.hear(Some(1)), 3, "the first that is back hears of nobody else");
        }
        assert_eq!(census.hear(Some(4)), 4);
        for _ in 1..FEWER_AFTER {
            assert_eq!(census.hear(Some(2)), 4);
        }
        assert_eq!(census.hear(Some(1)), 2, "the most that were heard of");
        for _ in 0..100 {
            assert_eq!(census.hear(None), 2, "an outage changes nothing");
        }
    }

    #[test]
    fn a_lease_is_over_before_fewer_are_believed() {
        let beats = BEAT * (FEWER_AFTER - 1);
        assert!(Duration::from_micros(LEASE.get()) < beats && BEAT * 3 < beats);
    }
}
