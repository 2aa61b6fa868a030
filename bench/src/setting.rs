//! What a subject is built for: how many keys, under which quota.
//!
//! A quota that lasts refills slowly and allows huge bursts, so that a key which was used once
//! owes something to the end of the run. Under a brief one it owes nothing any more when it comes
//! back, as most keys of most services do.

use std::time::Duration;

/// One cell every `per`, `burst` at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quota {
    pub(crate) per: Duration,
    pub(crate) burst: u32,
}

impl Quota {
    /// Admits all that one key is asked in a run: it would take a billion decisions to drain.
    pub(crate) const HOT: Self = Self { per: Duration::from_secs(1), burst: 1_000_000_000 };

    /// Admits all, and keeps a key live for ten minutes after a single decision.
    pub(crate) const MANY: Self = Self { per: Duration::from_mins(10), burst: 4_000_000 };

    /// Admits all, and has every debt paid before the key comes back: a client far below its limit.
    pub(crate) const BRIEF: Self = Self { per: Duration::from_micros(1), burst: 1_000_000 };

    /// Refuses all after two decisions. Not after one: throttlecrab 0.4 gives a first decision
    /// under a burst of one a time to live of zero, and never refuses.
    pub(crate) const REFUSING: Self = Self { per: Duration::from_hours(10), burst: 2 };
}

/// What a subject is told when it is built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// How many keys will come. Only for those that cannot grow; all others start empty.
    pub(crate) keys: u64,
    pub(crate) quota: Quota,
    pub(crate) form: Form,
}

/// What keys are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    /// Words. Only the subjects of the usual case are built for them.
    Number,
}

/// How much work to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    Full,
    /// A twentieth: shows that the benchmark runs, not how fast anything is.
    Quick,
}

impl Effort {
    pub(crate) fn of(self, work: u64) -> u64 {
        match self {
            Self::Full => work,
            Self::Quick => (work / 20).max(1),
        }
    }

    pub(crate) fn of_time(self, time: Duration) -> Duration {
        match self {
            Self::Full => time,
            Self::Quick => time / 20,
        }
    }
}
