//! Tests that look inside: scripts beside the core, on real servers.

mod bench_server;
mod differential;
mod one_call;
