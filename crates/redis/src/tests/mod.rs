//! Tests that look inside: scripts beside the core, on real servers.

mod behind;
mod bench_server;
mod differential;
mod lifetimes;
mod one_call;
