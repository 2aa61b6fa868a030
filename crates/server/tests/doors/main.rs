//! All doors of a server together: they agree, they stay open whatever is thrown at them, and TLS
//! is the same at each.

#[path = "../world/mod.rs"]
mod world;

mod asked;
mod deadlines;
mod three_doors;
mod throttle;
mod tls;
