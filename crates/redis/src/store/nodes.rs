//! How many nodes there are: each says every few seconds that it is there.

use tidegate_core::Span;

use super::RedisStore;
use crate::failure::StoreError;
use crate::flat::Sink as _;
use crate::script::NODES;
use crate::wire::{Item, ScriptCall, slot_of};

/// How many nodes are counted. A fleet of more says so by `nodes` in its policy.
const NODES_MAX: u64 = 1_024;

impl RedisStore {
    /// Says that this node is there, for as long as `lease`, and hears how many are, itself
    /// included: all that told the same server so under the same prefix. `node` tells nodes apart.
    ///
    /// It takes one text, and the commands that decisions take: a client that may write these keys
    /// can claim to be many nodes, and nobody else can.
    pub async fn count_nodes(&self, node: u64, lease: Span) -> Result<u32, StoreError> {
        // No tenant is called that: in a text the mark is followed by two digits.
        let name = format!("{}{{%%}}nodes", self.prefix());
        let slot = if self.gather.wire().is_cluster() { slot_of(name.as_bytes()) } else { 0 };
        let mut call = ScriptCall::new(&NODES, slot, 1, name.len() + 64);
        call.push(name.as_bytes());
        call.push(format!("{node:016x}").as_bytes());
        call.number((lease.get() / 1_000).max(1));
        call.number(NODES_MAX);
        let lane = self.gather.wire().lane_of(slot);
        let reply = self.gather.run(lane, call, self.deadline()).await;
        let reply = reply.map_err(|error| StoreError::from(&error))?;
        match reply.items().next() {
            Some(Item::Number(nodes)) => u32::try_from(nodes).ok().filter(|nodes| 0 < *nodes),
            _ => None,
        }
        .ok_or_else(|| StoreError::Damaged("a number of nodes".into()))
    }
}
