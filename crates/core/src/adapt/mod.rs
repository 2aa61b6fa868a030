//! Adaptive limits: how much a service can take, found from what comes of its requests.
//!
//! A [`Controller`] moves a concurrency limit, and a factor for rates. It learns from the rate at
//! which requests are served and from the time that they take; failures, the host's pressure and
//! what the service says about itself are brakes. A request that was refused here is never heard
//! of: only [`Controller::start`] makes a [`Started`], and only a `Started` can finish.

mod brake;
mod capacity;
mod climb;
mod controller;
mod estimate;
mod fraction;
mod ratio;
mod round;
mod settings;
mod signals;

use crate::tick::{Span, Tick};

pub use self::controller::Controller;
pub use self::fraction::Fraction;
pub use self::settings::{Settings, SettingsError};

/// A request that is in flight. Hand it to [`Controller::finish`] when it has left the service;
/// one that is lost without that is counted as in flight for ever.
#[derive(Debug)]
#[must_use = "hand it to `Controller::finish`, or it is in flight for ever"]
pub struct Started {
    at: Tick,
}

/// What came of a request that the service was given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It was served. That may be with a client's error; it is the service that matters.
    Served,
    /// The service failed.
    Failed,
    /// The service did not answer in time.
    TimedOut,
    /// Nobody waited for the answer any longer. Says nothing about the service.
    Abandoned,
}

/// What a controller has come to, for metrics.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reading {
    /// How many requests may be in flight.
    pub limit: u32,
    /// How many are.
    pub in_flight: u32,
    /// What is left of rates marked `adaptive`.
    pub factor: Fraction,
    /// What brakes leave of the limit that was learned.
    pub brake: Fraction,
    /// A running mean of the time that requests take in the service.
    pub latency: Span,
    /// What they take with nothing queued; zero while unknown.
    pub latency_base: Span,
}
