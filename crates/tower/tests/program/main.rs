//! A program of axum that is attacked over real connections, by clients that keep to nothing.
//!
//! Whatever they do: no permit and no place of a share is lost or given twice, what was charged is
//! what was begun, and what was refused consumed nothing. Time stands still, so that nothing comes
//! back by lapsing.

#![allow(clippy::unwrap_used, reason = "a test ends where it is wrong")]
#![allow(unreachable_pub, reason = "modules of one test")]

#[path = "../support/mod.rs"]
mod support;
#[path = "../wire/mod.rs"]
mod wire;

mod bodies;
mod hang_ups;
mod panics;
mod stacked;
mod stage;
mod streams;
mod threads;
mod two;
mod upgrades;
