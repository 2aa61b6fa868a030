//! What a fleet's limiter says of a request.

use tidegate_core::{Decision, Verdict};
use tidegate_store::By;

use super::FleetLimiter;
use super::rule::NamedRule;
use crate::fleet::{Decisions, in_one};

/// The answer to one request by every rule of a fleet's limiter.
#[derive(Clone, Debug)]
#[must_use]
pub struct FleetAnswer<'a> {
    pub(super) limiter: &'a FleetLimiter,
    pub(super) verdict: Verdict,
    pub(super) by: By,
    /// Nothing where the request could not even be asked.
    pub(super) each: Decisions,
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
        in_one(self.verdict, &self.each)
    }

    /// What each rule said, in the order in which they were added.
    pub fn each(&self) -> impl Iterator<Item = (&'a str, Decision)> {
        self.limiter.rules.iter().map(NamedRule::name).zip(self.each.iter().copied())
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
