//! The algorithms by name.

use core::fmt;
use core::str::FromStr;

/// The algorithms by name.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// At most so many at the same time, each for at most a lease.
    Concurrency,
    /// A count that starts again at every boundary.
    FixedWindow,
    /// The token bucket, told by the time of the next arrival.
    Gcra,
    /// The token bucket, told by how full it is.
    LeakyBucket,
    /// What finds a debt waits for its turn: evenly spaced output.
    LeakyQueue,
    /// Exact over every span, by remembering every event.
    SlidingLog,
    /// Two windows, the older fading out.
    SlidingWindow,
    /// A burst at once, then the quota's rate.
    TokenBucket,
}

impl Kind {
    /// Every algorithm, buckets first.
    pub const ALL: [Kind; 8] = [
        Kind::TokenBucket,
        Kind::Gcra,
        Kind::LeakyBucket,
        Kind::LeakyQueue,
        Kind::FixedWindow,
        Kind::SlidingWindow,
        Kind::SlidingLog,
        Kind::Concurrency,
    ];

    /// Its name in files, on the command line and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Concurrency => "concurrency",
            Kind::FixedWindow => "fixed-window",
            Kind::Gcra => "gcra",
            Kind::LeakyBucket => "leaky-bucket",
            Kind::LeakyQueue => "leaky-queue",
            Kind::SlidingLog => "sliding-log",
            Kind::SlidingWindow => "sliding-window",
            Kind::TokenBucket => "token-bucket",
        }
    }

    /// Whether the algorithm is a bucket, which has a burst of its own.
    pub const fn has_burst(self) -> bool {
        matches!(self, Kind::Gcra | Kind::LeakyBucket | Kind::LeakyQueue | Kind::TokenBucket)
    }

    /// Whether finished work can be charged to it: all but concurrency, which holds what is under
    /// way.
    pub const fn has_debits(self) -> bool {
        !matches!(self, Kind::Concurrency)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Kind, UnknownKind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or(UnknownKind)
    }
}

/// A name that is no algorithm's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnknownKind;

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such algorithm: choose one of")?;
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            write!(f, "{}{kind}", if index == 0 { " " } else { ", " })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownKind {}
