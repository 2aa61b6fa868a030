#![doc = include_str!("../../../docs/library.md")]

pub use tidegate_core::{
    Credits, Decision, Grains, Kind, Limit, Policy, Quota, QuotaError, Receipt, Span, State, Tick,
    UnknownKind, Verdict, WithoutStore, decide_all,
};
pub use tidegate_store::{
    Acquire, AcquireSlot, Answer, Ask, BuildError, By, ChangeError, Charge, Clock, Key, KeyPart,
    KeyTooLong, Keys, Limiter, LimiterBuilder, ManualClock, MemoryStore, NoSlot, Pass, Rule,
    Shaper, ShaperBuilder, SharedAsk, SharedLimiter, SharedPass, SharedShaper, Slot, Store,
    SystemClock, ToPolicy, TooManyRules, UnknownRule, WakeId,
};

/// Shares what there is: requests wait, and tenants are served by weight.
pub use tidegate_fair as fair;

/// Decisions by a policy file.
#[cfg(feature = "policy")]
pub use tidegate_gate as policy;
/// A policy file in front of a tower service: axum, tonic, hyper.
#[cfg(feature = "tower")]
pub use tidegate_tower as tower;

/// The decisions of this crate for a fleet, on Redis or Valkey.
#[cfg(feature = "redis")]
pub use tidegate_redis as redis;

/// The examples of the page about shaping, compiled and run.
#[cfg(all(doctest, feature = "redis"))]
#[doc = include_str!("../../../docs/shaping.md")]
struct Shaping;

/// The README's program, compiled; a test of its own runs it.
#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
