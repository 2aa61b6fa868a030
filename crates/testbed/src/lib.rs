//! Real servers for tests and measurements: Redis and Valkey, alone, in a cluster, under sentinels.
//!
//! Every server has a folder and a port of its own and ends with its owner: dropped, panicked or
//! killed. Nothing here is async, so that a test can break a server from outside any runtime.

mod certificates;
mod cluster;
mod flavor;
mod folder;
mod guard;
mod migration;
mod port;
mod proxy;
mod pump;
mod resp;
mod sentinels;
mod server;
mod settings;
mod slot;
mod view;
mod wait;

pub use certificates::Certificates;
pub use cluster::Cluster;
pub use flavor::{Flavor, Version};
pub use proxy::Proxy;
pub use resp::Reply;
pub use sentinels::Sentinels;
pub use server::Server;
pub use settings::ServerBuilder;
pub use slot::{SLOTS, key_in, slot_of};
pub use wait::until;
