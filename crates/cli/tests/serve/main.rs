//! `tidegate serve` as it is run: started, reloaded, attacked, stopped, killed and started again.
#![expect(clippy::unwrap_used, reason = "tests")]

mod admin;
mod calm;
mod crash;
mod files;
mod fleet;
mod hostile;
mod http2;
mod openapi;
mod responses;
mod settings;
mod snapshot;
mod stand;
mod stop;
mod untaken;
