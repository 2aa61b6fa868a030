#![doc = include_str!("../../../docs/fleet.md")]

mod breaker;
mod call;
mod digest;
mod error;
mod failure;
mod flat;
mod fleet;
mod gather;
mod health;
mod key;
mod limiter;
mod plan;
mod refusals;
mod rule;
mod script;
mod settings;
mod shaper;
mod store;
mod tally;
mod told;
mod value;
mod wire;

pub use tidegate_store::By;

pub use crate::error::ConnectError;
pub use crate::failure::StoreError;
pub use crate::fleet::{
    Fleet, FleetChangeError, FleetCounts, FleetDebited, FleetDecided, FleetReceipts, SharedCharge,
    SharedRule, StoreStats, WantedRule, WithoutStore,
};
pub use crate::health::{Health, NodeHealth};
pub use crate::key::{FleetKey, KeyPart, KeyText};
pub use crate::limiter::{
    FleetAnswer, FleetAsk, FleetBuildError, FleetLimiter, FleetLimiterBuilder, FleetPass,
};
pub use crate::rule::FleetRule;
pub use crate::settings::{ClientCertificate, Credentials, Protocol, Settings};
pub use crate::shaper::{FleetShaper, FleetShaperBuilder};
pub use crate::store::{FleetCharge, Judged, RedisStore, StoreBuilder};
pub use crate::tally::{ErrorCounts, RoundTrips};

#[cfg(test)]
mod tests;
