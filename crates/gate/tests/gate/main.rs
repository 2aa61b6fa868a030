//! Everything about a gate that does not need a process of its own, in one program: to link one
//! takes as long as to run it.

#![allow(clippy::duplicate_mod, reason = "laws are there once for each store")]

#[path = "../stand/mod.rs"]
mod stand;

mod adaptive;
mod adaptive_fleet;
mod api_keys;
mod bodies;
mod calendar;
mod fleet;
mod fleet_differs;
mod fleet_queue;
mod fleet_reload;
mod fleet_renew;
mod fleet_returns;
mod fleet_several;
mod fleet_shares;
mod in_flight;
mod in_memory;
mod key_secret;
mod keys;
mod look;
mod namespace;
mod nodes;
mod on_redis;
mod on_third;
mod one_step;
mod overrides;
mod queue;
mod reload;
mod renew;
mod shares;
mod snapshot;
mod stats;
mod third_store;
