//! envoyproxy/ratelimit's own configuration, read as it is: one file for each domain.
//!
//! A domain has a tree of descriptors. Per level the exact value comes first, then values with `*`
//! in the order of the file, then the key alone; a limit counts only where a request's descriptor
//! ends. Nothing is tried twice: a level that was entered is not left for another.

mod read;
mod rules;
mod tables;

use std::time::Duration;

pub use self::read::EnvoyLoaded;
pub use self::rules::EnvoyRules;

/// A limit of a descriptor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EnvoyLimit {
    /// Its place in the file, as text that no other place has: domain, keys and values.
    pub path: Box<str>,
    /// What the file calls it; others may replace it by that name.
    pub name: Option<Box<str>>,
    /// How many in each unit; zero blocks.
    pub requests_per_unit: u32,
    /// Nothing: whatever comes passes, and is not counted.
    pub unit: Option<EnvoyUnit>,
    /// The names of limits that it takes the place of, where both match.
    pub replaces: Box<[Box<str>]>,
    /// Whether it is judged and counted, but does not refuse.
    pub is_shadow: bool,
    /// Whether it refuses only if all such limits of a request do.
    pub is_quota: bool,
    /// Whether its metrics tell values apart.
    pub has_detailed_metric: bool,
    /// For each entry of a descriptor the pattern that all values share a count under, if they do.
    pub shared: Box<[Option<Box<str>>]>,
    /// What the file says about it for those who ask.
    pub metadata: serde_json::Map<String, serde_json::Value>,
}

impl EnvoyLimit {
    /// Whether everything passes, uncounted.
    pub fn is_unlimited(&self) -> bool {
        self.unit.is_none()
    }
}

/// The time that a limit is for. Windows start at its multiples since the epoch.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum EnvoyUnit {
    /// One second.
    Second,
    /// 60 seconds.
    Minute,
    /// 60 minutes.
    Hour,
    /// 24 hours.
    Day,
    /// 7 days.
    Week,
    /// 30 days.
    Month,
    /// 365 days.
    Year,
}

impl EnvoyUnit {
    /// All of them, the shortest first.
    pub const ALL: [EnvoyUnit; 7] = [
        EnvoyUnit::Second,
        EnvoyUnit::Minute,
        EnvoyUnit::Hour,
        EnvoyUnit::Day,
        EnvoyUnit::Week,
        EnvoyUnit::Month,
        EnvoyUnit::Year,
    ];

    /// As it is written in a file.
    pub const fn name(self) -> &'static str {
        match self {
            EnvoyUnit::Second => "second",
            EnvoyUnit::Minute => "minute",
            EnvoyUnit::Hour => "hour",
            EnvoyUnit::Day => "day",
            EnvoyUnit::Week => "week",
            EnvoyUnit::Month => "month",
            EnvoyUnit::Year => "year",
        }
    }

    /// How long it is.
    pub const fn duration(self) -> Duration {
        const DAY: u64 = 24 * 60 * 60;
        Duration::from_secs(match self {
            EnvoyUnit::Second => 1,
            EnvoyUnit::Minute => 60,
            EnvoyUnit::Hour => 60 * 60,
            EnvoyUnit::Day => DAY,
            EnvoyUnit::Week => 7 * DAY,
            EnvoyUnit::Month => 30 * DAY,
            EnvoyUnit::Year => 365 * DAY,
        })
    }
}

#[cfg(test)]
mod tests;
