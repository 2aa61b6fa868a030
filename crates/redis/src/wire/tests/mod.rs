//! The wire against real servers: what is sent is counted where it arrives.

mod cluster;
mod faults;
mod refusals;
mod secured;
mod sentinel;
mod stand;
mod start_up;
