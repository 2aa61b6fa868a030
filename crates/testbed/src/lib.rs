//! Real servers for tests and measurements: Redis and Valkey, alone, in a cluster, under sentinels;
//! proxies and anything else that listens; and the programs that talk to them.
//!
//! Every server has a folder and a port of its own and ends with its owner: dropped, panicked or
//! killed. Nothing here is async, so that a test can break a server from outside any runtime.

mod certificates;
mod cluster;
mod daemon;
mod flavor;
mod folder;
mod guard;
mod http;
mod http2;
mod installed;
mod migration;
mod port;
mod program;
mod proxy;
mod pump;
mod resp;
mod running;
mod sentinels;
mod server;
mod settings;
mod slot;
mod view;
mod wait;

pub use certificates::Certificates;
pub use cluster::Cluster;
pub use daemon::{Daemon, DaemonBuilder, Ready};
pub use flavor::{Flavor, Version};
pub use http::{Http, HttpAnswer};
pub use http2::{Frame, Http2};
pub use program::Program;
pub use proxy::Proxy;
pub use resp::{Reply, Resp};
pub use sentinels::Sentinels;
pub use server::Server;
pub use settings::ServerBuilder;
pub use slot::{SLOTS, key_in, slot_of};
pub use wait::until;
