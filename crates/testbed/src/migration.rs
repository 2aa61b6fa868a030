//! Moves a slot from one node of a cluster to another, step by step, as its tools do.

use anyhow::Result;

use crate::{Cluster, Reply, Server};

impl Cluster {
    /// Opens the move: keys that `from` no longer has are asked of `to` from here on.
    pub fn begin_migration(&self, slot: u16, from: usize, to: usize) -> Result<()> {
        let (slot, source, target) = (slot.to_string(), self.id_of(from)?, self.id_of(to)?);
        self.nodes[to].must(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source])?;
        self.nodes[from].must(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target])?;
        Ok(())
    }

    /// Moves every key of the slot, and says how many there were.
    pub fn migrate_keys(&self, slot: u16, from: usize, to: usize) -> Result<usize> {
        let (source, target) = (&self.nodes[from], &self.nodes[to]);
        let mut moved = 0;
        loop {
            let call = ["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), AT_ONCE];
            let keys = source.must(&call)?;
            if keys.items().is_empty() {
                return Ok(moved);
            }
            send(source, target, keys.items())?;
            moved += keys.items().len();
        }
    }

    /// Closes the move: the slot belongs to `to`, and every primary learns so.
    pub fn end_migration(&self, slot: u16, from: usize, to: usize) -> Result<()> {
        let (slot, target) = (slot.to_string(), self.id_of(to)?);
        let call = ["CLUSTER", "SETSLOT", &slot, "NODE", &target];
        // The new owner first: it takes a new epoch, and clients that ask in between
        // are sent there.
        self.nodes[to].must(&call)?;
        self.nodes[from].must(&call)?;
        let others = (0..self.nodes.len()).filter(|&index| index != from && index != to);
        for node in others.map(|index| &self.nodes[index]).filter(|node| node.is_up()) {
            // Replicas refuse, and hear of it from their primaries.
            node.run(&call)?;
        }
        Ok(())
    }
}

fn send(source: &Server, target: &Server, keys: &[Reply]) -> Result<()> {
    let port = target.port().to_string();
    let head = ["MIGRATE", "127.0.0.1", &port, "", "0", WITHIN_MS, "REPLACE", "KEYS"];
    let mut call: Vec<&[u8]> = head.iter().map(|arg| arg.as_bytes()).collect();
    call.extend(keys.iter().map(Reply::bytes));
    source.must_bytes(&call)?;
    Ok(())
}

const AT_ONCE: &str = "100";
const WITHIN_MS: &str = "4000";
