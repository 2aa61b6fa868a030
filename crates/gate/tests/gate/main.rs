//! Everything about a gate that does not need a process of its own, in one program: to link one
//! takes as long as to run it.

#[path = "../stand/mod.rs"]
mod stand;

mod adaptive;
mod adaptive_fleet;
mod api_keys;
mod bodies;
mod calendar;
mod credits;
mod decisions;
mod fleet;
mod fleet_differs;
mod fleet_queue;
mod fleet_reload;
mod fleet_returns;
mod fleet_several;
mod fleet_shares;
mod in_flight;
mod key_secret;
mod keys;
mod look;
mod model;
mod namespace;
mod nodes;
mod on_redis;
mod one_step;
mod overrides;
mod plain;
mod queue;
mod reload;
mod renew;
mod settle;
mod shares;
mod snapshot;
mod stats;
mod together;
