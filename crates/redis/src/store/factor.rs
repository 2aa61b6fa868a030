//! What is left of limits that follow the load, as the nodes of a fleet tell each other.

use tidegate_core::Span;
use tidegate_core::adapt::Fraction;

use super::RedisStore;
use crate::failure::StoreError;
use crate::flat::Sink as _;
use crate::script::FACTOR;
use crate::wire::{Item, ScriptCall, slot_of};

/// How many nodes are remembered. More are heard, but not kept.
const NODES_MAX: u64 = 1_024;

impl RedisStore {
    /// Tells the fleet what is left by this node, if it knows, and says the smallest that nodes
    /// told lately; the whole if none knows anything.
    ///
    /// What this node says counts for `lease`, by the server's clock. `node` tells nodes apart.
    pub async fn share_factor(
        &self,
        node: u64,
        own: Option<Fraction>,
        lease: Span,
    ) -> Result<Fraction, StoreError> {
        // No tenant is called that: in a text the mark is followed by two digits.
        let name = format!("{}{{%%}}factor", self.prefix());
        let slot = if self.gather.wire().is_cluster() { slot_of(name.as_bytes()) } else { 0 };
        let mut call = ScriptCall::new(&FACTOR, slot, 1, name.len() + 64);
        call.push(name.as_bytes());
        call.push(format!("{node:016x}").as_bytes());
        match own {
            Some(factor) => call.number(factor.get().into()),
            None => call.push(b""),
        }
        call.number((lease.get() / 1_000).max(1));
        call.number(NODES_MAX);
        let lane = self.gather.wire().lane_of(slot);
        let reply = self.gather.run(lane, call, self.deadline()).await;
        let reply = reply.map_err(|error| StoreError::from(&error))?;
        let damaged = || StoreError::Damaged("a factor".into());
        match reply.items().next() {
            Some(Item::Bytes(b"")) => Ok(Fraction::WHOLE),
            Some(Item::Bytes(text)) => read(text).ok_or_else(damaged),
            _ => Err(damaged()),
        }
    }
}

/// A factor between nothing and the whole.
fn read(text: &[u8]) -> Option<Fraction> {
    let millionths: u32 = str::from_utf8(text).ok()?.parse().ok()?;
    Some(Fraction::from_millionths(millionths).min(Fraction::WHOLE))
}
