//! What may pass beyond the policy when something fails: a test for each row of the table in
//! `docs/fleet.md`, named as the row is.

#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../stand/mod.rs"]
mod stand;

mod data;
mod outage;
mod weather;
