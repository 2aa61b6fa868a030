//! What a fleet's limiter says of a request, and by what it was decided.

use std::fmt;

use smallvec::SmallVec;
use tidegate_core::{Decision, Span, Verdict};

use super::FleetLimiter;
use super::rule::NamedRule;

/// By what a request was decided.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum By {
    /// By Redis.
    Store,
    /// By a refusal of Redis that is remembered here: only time can change it.
    Remembered,
    /// Without Redis: let through.
    Open,
    /// Without Redis: by this node's share of the quota.
    Local,
    /// Without Redis: refused.
    Closed,
}

impl By {
    /// Whether Redis had no say in it.
    pub const fn is_fallback(self) -> bool {
        matches!(self, By::Open | By::Local | By::Closed)
    }

    /// The name in metrics and headers.
    pub const fn name(self) -> &'static str {
        match self {
            By::Store => "store",
            By::Remembered => "remembered",
            By::Open => "open",
            By::Local => "local",
            By::Closed => "closed",
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The answer to one request by every rule of a fleet's limiter.
#[derive(Clone, Debug)]
#[must_use]
pub struct FleetAnswer<'a> {
    pub(super) limiter: &'a FleetLimiter,
    pub(super) verdict: Verdict,
    pub(super) by: By,
    /// Nothing where the request could not even be asked.
    pub(super) each: SmallVec<[Decision; 1]>,
}

impl<'a> FleetAnswer<'a> {
    /// The verdict of all rules together.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// By what it was decided. Where rules differ, by what weighs most: a refusal, then a share.
    pub fn by(&self) -> By {
        self.by
    }

    /// All in one: the verdict of all together, with the numbers of the rule that is closest to
    /// refusing, or that refused for longest.
    pub fn decision(&self) -> Decision {
        let speaks = self.each.iter().min_by_key(|it| (it.verdict != self.verdict, it.remaining));
        let nothing =
            Decision { verdict: self.verdict, limit: 0, remaining: 0, reset_after: Span::ZERO };
        Decision { verdict: self.verdict, ..speaks.copied().unwrap_or(nothing) }
    }

    /// What each rule said, in the order in which they were added.
    pub fn each(&self) -> impl Iterator<Item = (&'a str, Decision)> {
        self.limiter.inner.rules.iter().map(NamedRule::name).zip(self.each.iter().copied())
    }

    /// What one rule said.
    pub fn of(&self, rule: &str) -> Option<Decision> {
        self.each().find(|(name, _)| *name == rule).map(|(_, decision)| decision)
    }

    /// The rules that refused.
    pub fn violated(&self) -> impl Iterator<Item = (&'a str, Decision)> {
        self.each().filter(|(_, decision)| !decision.verdict.passes())
    }
}
