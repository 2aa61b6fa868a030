//! Where Tidegate remembers.
//!
//! A store keeps states and applies the core's transitions to them, one at a time per key. The
//! memory store does it in this process, in nanoseconds, without ever failing.

mod alarm;
// For those who count elsewhere what every request writes to.
mod by;
mod clock;
mod key;
mod later;
mod limiter;
mod memory;
#[doc(hidden)]
pub mod per_core;
mod shaper;
mod snapshot;
mod stats;
mod store;
mod sync;
#[doc(hidden)]
pub mod text_key;

pub use crate::by::By;
pub use crate::clock::{Clock, ManualClock, SystemClock, WakeId};
pub use crate::key::{Key, KeyTooLong, Keys};
// For those who wait elsewhere as a limiter does here.
pub use crate::later::{Later, Work, all, at_once};
#[doc(hidden)]
pub use crate::limiter::block_on;
pub use crate::limiter::{
    Acquire, Answer, Ask, BuildError, ChangeError, Limiter, LimiterBuilder, Pass, SharedAsk,
    SharedLimiter, SharedPass, ToPolicy, UnknownRule,
};
pub use crate::memory::{
    Charge, MemoryStats, MemoryStore, PreparedRules, Rule, TooManyRules, Wanted,
};
pub use crate::shaper::{AcquireSlot, NoSlot, Shaper, ShaperBuilder, SharedShaper, Slot};
pub use crate::snapshot::{Exported, NamedRule, Restored, RestoredRule, SnapshotError};
pub use crate::stats::{
    DecisionCounts, ErrorCounts, Health, NodeHealth, RemoteStats, RoundTrips, StoreStats,
};
pub use crate::store::{
    AtOnce, Charged, FollowsNodes, HearsFactor, Judgment, KeyForm, Left, LimitCharge, MemoryCharge,
    OtherCharge, OtherLimit, Place, PreparedLimits, Standing, Store, StoreFailure, StoreKey,
    StoreLimit, Verb, WantedLimit,
};
pub use crate::text_key::{KeyPart, KeyText, TextKey};
