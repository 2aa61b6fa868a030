//! Envoy's rate limit service over real connections.

mod envoy;
mod files;
mod modes;
mod policy;
mod stand;
mod wire;
