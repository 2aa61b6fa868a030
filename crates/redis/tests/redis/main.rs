//! Everything that does not need a process of its own, in one program: to link one takes as long as
//! to run it.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../stand/mod.rs"]
mod stand;

mod across;
mod budgets;
mod coalescing;
mod conformance;
mod credits;
mod examples;
mod fleet;
mod found;
mod keys;
mod leaving;
mod limiter;
mod refusals;
mod renew;
mod shaper;
mod stats;
