//! What is true of a gate whatever its store. Each store has these modules once: the module that
//! they are in says by `with_store` how a gate comes to it. What `overrides.rs` and `reload.rs` say
//! is true where a store also takes over what a key had consumed under other limits.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_gate::{Gate, GateBuilder};
use tidegate_store::{Clock, ManualClock};

use crate::stand::{Folder, START, Still, clock_at, rules};

mod calendar;
mod credits;
mod decisions;
mod model;
mod plain;
mod queue;
mod renew;
mod settle;
mod together;

/// A gate whose time stands still, and its clock.
#[track_caller]
pub(super) fn gate(policy: &str) -> (Still, Arc<ManualClock>) {
    gate_at(START, policy)
}

#[track_caller]
fn gate_at(seconds: u64, policy: &str) -> (Still, Arc<ManualClock>) {
    static PLACES: AtomicU64 = AtomicU64::new(0);
    let clock = clock_at(seconds);
    let place = PLACES.fetch_add(1, Ordering::Relaxed);
    (open(place, builder(policy, &clock), &clock), clock)
}

/// The gate once its process has been started again.
#[track_caller]
fn restarted(gate: &Still, policy: &str, clock: &Arc<ManualClock>) -> Still {
    let folder = Folder::new();
    let snapshot = folder.join("snapshot");
    gate.save(&snapshot).unwrap();
    open(gate.place, builder(policy, clock).restore(snapshot), clock)
}

fn builder(policy: &str, clock: &Arc<ManualClock>) -> GateBuilder {
    Gate::builder().rules(rules(policy)).clock(Arc::clone(clock) as Arc<dyn Clock>)
}

#[track_caller]
fn open(place: u64, builder: GateBuilder, clock: &Arc<ManualClock>) -> Still {
    let builder = super::with_store(builder, place, clock);
    Still { gate: builder.open().unwrap(), place }
}

/// So many turns of a test with random numbers, or fewer where each asks another process.
pub(super) fn turns(most: u32) -> u32 {
    most / super::FEWER
}
