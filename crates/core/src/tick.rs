//! Time, in whole ticks. One tick is one microsecond, the unit of Redis's own clock.

use core::fmt;
use core::time::Duration;

/// A point in time: ticks since the epoch of the owner of the clock.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Tick(u64);

/// A length of time, in ticks.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Span(u64);

impl Tick {
    /// The last tick: 2^53 - 1, which is as far as Lua can count, and is in the year 2255.
    pub const MAX: Tick = Tick((1 << 53) - 1);

    /// The tick `micros` after the epoch, or [`Tick::MAX`] if that is later still.
    pub const fn from_micros(micros: u64) -> Tick {
        if micros < Tick::MAX.0 { Tick(micros) } else { Tick::MAX }
    }

    /// Ticks since the epoch.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is. Zero when the clock has gone backwards.
    pub const fn since(self, earlier: Tick) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// The point `span` later, or [`Tick::MAX`].
    #[must_use]
    pub const fn after(self, span: Span) -> Tick {
        Tick::from_micros(self.0.saturating_add(span.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// Longer than any clock runs: what is promised for this long is promised for ever.
    pub const MAX: Span = Span(u64::MAX);

    /// A span of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Span {
        Span(micros)
    }

    /// A span of `millis` milliseconds.
    pub const fn from_millis(millis: u32) -> Span {
        Span(millis as u64 * 1_000)
    }

    /// A span of `secs` seconds.
    pub const fn from_secs(secs: u32) -> Span {
        Span(secs as u64 * 1_000_000)
    }

    /// Length in ticks.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Length in whole seconds, rounded up: a client that waits this long does not come too early.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }
}

impl From<Duration> for Span {
    /// Rounds up to whole ticks.
    fn from(duration: Duration) -> Span {
        Span(u64::try_from(duration.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX))
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Duration {
        Duration::from_micros(span.0)
    }
}

impl fmt::Display for Span {
    /// Writes the largest unit that keeps the number whole: `90s`, `250ms`, `7us`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 5] = [
            (86_400_000_000, "d"),
            (3_600_000_000, "h"),
            (60_000_000, "min"),
            (1_000_000, "s"),
            (1_000, "ms"),
        ];
        for (ticks, unit) in UNITS {
            if 0 < self.0 && self.0.is_multiple_of(ticks) {
                return write!(f, "{}{unit}", self.0 / ticks);
            }
        }
        write!(f, "{}us", self.0)
    }
}
