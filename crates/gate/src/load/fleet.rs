//! A fleet's nodes tell each other what is left, through Redis.
//!
//! They guard the same service, so the smallest factor counts: whoever sees it overloaded has seen
//! something, and nodes that have not are no evidence against it. Those that know nothing say
//! nothing. A node that is gone is forgotten with its lease; a rule's floor bounds what one that is
//! wrong can do.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use tidegate_core::Span;
use tidegate_core::adapt::Share;
use tokio::runtime::Handle;

use crate::gate::Gate;
use crate::store::AnyStore;

/// How long a node's factor counts unless it is told again: a few of the seconds in which it is.
const LEASE: Span = Span::from_secs(5);

/// Who tells the fleet.
#[derive(Debug)]
pub(super) struct Teller {
    /// Tells nodes of a fleet apart.
    node: u64,
    runtime: Option<Handle>,
}

impl Gate {
    /// Tells the fleet, and hears from it: beside the requests, which do not wait for it.
    pub(super) fn tell_fleet(&self, own: Option<Share>) {
        let AnyStore::Fleet(fleet) = &self.0.store else { return };
        let teller = &self.0.adapt.teller;
        // Whoever watches the policy has no runtime; the gate was opened in one.
        let Some(runtime) = Handle::try_current().ok().or_else(|| teller.runtime.clone()) else {
            return;
        };
        let (store, gate) = (fleet.store().clone(), Arc::downgrade(&self.0));
        let node = teller.node;
        runtime.spawn(async move {
            let said = store.share_factor(node, own, LEASE).await;
            let Some(gate) = gate.upgrade() else { return };
            match said {
                Ok(factor) => {
                    let now = gate.clock.now();
                    gate.adapt.state().fleet_said(factor, now.after(LEASE));
                    gate.adapt.look_at(now);
                }
                // What was heard last counts until its lease is over; then its own does.
                Err(error) => tracing::debug!(%error, "the fleet's factor is not known"),
            }
        });
    }
}

impl Teller {
    pub(super) fn new() -> Teller {
        // A number that no other node has.
        let node = RandomState::new().hash_one("node");
        Teller { node, runtime: Handle::try_current().ok() }
    }
}
