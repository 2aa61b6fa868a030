//! Envoy's rate limit service over real connections.

mod attacks;
mod envoy;
mod files;
mod modes;
mod policy;
mod proxy;
mod stand;
mod stores;
mod wire;
