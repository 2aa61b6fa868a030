#![doc = include_str!("../../../docs/fleet.md")]

mod breaker;
mod call;
mod error;
mod failure;
mod flat;
mod fleet;
mod found;
mod gather;
mod plan;
mod refusals;
mod rule;
mod script;
mod settings;
mod store;
mod tally;
mod value;
mod wire;

pub use tidegate_core::WithoutStore;
pub use tidegate_store::{
    By, DecisionCounts, ErrorCounts, Health, KeyPart, KeyText, NodeHealth, RemoteStats, RoundTrips,
    TextKey as FleetKey,
};

pub use crate::error::ConnectError;
pub use crate::failure::StoreError;
pub use crate::fleet::{
    Fleet, FleetDebited, FleetDecided, FleetReceipts, SharedCharge, SharedRule, WantedRule,
};
pub use crate::rule::FleetRule;
pub use crate::settings::{ClientCertificate, Credentials, Protocol, Settings};
pub use crate::store::{FleetCharge, Judged, RedisStore, StoreBuilder};

#[cfg(test)]
mod tests;
