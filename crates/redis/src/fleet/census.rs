//! How many nodes share the quota while Redis does not answer: those that say so every few seconds.
//!
//! More nodes count at once. Fewer do only when they have been fewer for long, and Redis has
//! answered all the while: after an outage the first to be back hears of nobody else, and would
//! take the share of all.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use tidegate_core::Span;
use tidegate_store::FollowsNodes;
use tokio::time::{MissedTickBehavior, interval};

use super::Fleet;

/// For how long a node counts that has said that it is there: one that is slow for a few beats has
/// not left.
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

impl Fleet {
    /// Says every so often that this node is there, for as long as somebody follows.
    pub(super) fn take_census(&self, every: Duration, follower: Box<dyn FollowsNodes>) {
        let fleet = self.clone();
        // A number that no other node has.
        let node = RandomState::new().hash_one("node");
        let mut census = Census::new(fleet.nodes());
        drop(self.runtime().spawn(async move {
            let mut beats = interval(every);
            beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut is_logged = false;
            loop {
                beats.tick().await;
                if follower.is_over() {
                    return;
                }
                let heard = fleet.store().count_nodes(node, LEASE).await;
                if follower.is_over() {
                    return;
                }
                if let Err(error) = &heard
                    && !std::mem::replace(&mut is_logged, true)
                {
                    tracing::warn!(%error, "nodes are not counted: the last known number goes on");
                }
                is_logged &= heard.is_err();
                fleet.share_among(census.hear(heard.ok()), &*follower);
            }
        }));
    }

    /// Gives this node the share of one of so many.
    fn share_among(&self, nodes: u32, follower: &dyn FollowsNodes) {
        let before = self.nodes();
        if before == nodes {
            return;
        }
        self.set_nodes(nodes);
        tracing::info!(nodes, before, "so many nodes share the quota while Redis is away");
        if let Err(error) = follower.follow() {
            // Tried again with the next beat.
            self.set_nodes(before);
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
        // A gate's, unless it says otherwise.
        let beat = Duration::from_secs(3);
        let beats = beat * (FEWER_AFTER - 1);
        assert!(Duration::from_micros(LEASE.get()) < beats && beat * 3 < beats);
    }
}
