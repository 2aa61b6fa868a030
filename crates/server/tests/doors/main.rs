//! All doors of a server together: they agree, they stay open whatever is thrown at them, and TLS
//! is the same at each.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "../world/mod.rs"]
mod world;

mod administration;
mod asked;
mod crowded;
mod deadlines;
mod handshakes;
mod held;
mod odd_bytes;
mod three_doors;
mod throttle;
mod tls;
