//! A policy file and a store: what decides about a request, for every door alike.
//!
//! ```
//! use tidegate_gate::{Gate, Sample};
//!
//! let gate = Gate::from_text(
//!     "rules: [{ name: per-client, key: client, limit: 2/min }]",
//! )?;
//! let request = Sample::new("GET /").from_peer("192.0.2.1".parse()?);
//! for passes in [true, true, false] {
//!     assert_eq!(gate.decide(&request).verdict().passes(), passes);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod adhoc;
mod admission;
mod answer;
mod build;
mod counts;
mod gate;
mod headers;
mod holds;
mod in_force;
mod joint;
mod judge;
mod kept;
mod later;
mod load;
mod orphans;
mod per_core;
mod problem;
pub mod ratelimit_field;
mod reload;
mod renew;
mod renewal_timer;
mod reset;
mod secret;
mod settle;
mod shares;
mod snapshot;
mod stamp;
mod stats;
mod suite;
mod taken_over;
mod text_key;
mod turn;
mod wait;

pub use tidegate_config::{
    Attribute, FallbackHeader, Format, Headers, Length, LoadError, Loaded, Report, Request,
    Response, Rule, Rules, Sample, SharedCapacity, Suite, Test, Unit, without_port,
};
pub use tidegate_core::{WithoutStore, adapt};
pub use tidegate_fair::Reason as CrowdedBy;
pub use tidegate_store::{By, RemoteStats, SnapshotError, Store, StoreFailure};

pub use crate::adhoc::{AdhocCharge, AdhocDecided, AdhocLimit, DecideAdhoc};
pub use crate::admission::{Admission, Reason};
pub use crate::answer::Answer;
pub use crate::build::{GateBuilder, OpenError};
pub use crate::counts::RuleCounts;
pub use crate::gate::{Admit, Gate};
pub use crate::joint::{AdmitJointly, Joint};
pub use crate::load::{InFlight, Load, LoadReading, LoadRefused, Pressure};
pub use crate::ratelimit_field::Field;
pub use crate::reload::{Reloaded, Watch};
pub use crate::renew::Renewing;
pub use crate::renewal_timer::{RenewalPlan, RenewalTimer};
pub use crate::reset::Resetting;
pub use crate::secret::KeySecret;
pub use crate::settle::Settling;
pub use crate::shares::ShareStats;
pub use crate::snapshot::{SaveError, SnapshotProblem, SnapshotRestored, SnapshotSaved};
pub use crate::stats::GateStats;
pub use crate::suite::{Tryout, Unmet};
pub use crate::wait::Start;

/// The examples on the documentation's page, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/snapshots.md")]
struct Snapshots;

/// The examples on the page about adaptive limits, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adaptive.md")]
struct Adaptive;
