//! What `deploy/` ships, run by the programs it is for, in front of the real server.
//!
//! Each file is taken as it is but for its addresses.

mod application;
mod bytes;
mod container;
mod dashboard;
mod errors;
mod full;
mod prometheus;
mod proxies;
mod shipped;
mod stand;
mod systemd;
