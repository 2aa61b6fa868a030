//! What several rules said together.

use arrayvec::ArrayVec;
use tidegate_core::{Decision, Verdict};

use crate::by::By;
use crate::memory::MemoryStore;
use crate::store::in_one;

/// The answer to one request by every rule of a limiter.
#[derive(Clone, Debug)]
#[must_use]
pub struct Answer<'a> {
    names: &'a [Box<str>],
    verdict: Verdict,
    by: By,
    /// Nothing where the request could not even be asked.
    each: ArrayVec<Decision, { MemoryStore::LIMITS_MAX }>,
}

impl<'a> Answer<'a> {
    /// The answer to a request that is not even asked about: it never passes.
    pub(super) fn never(names: &'a [Box<str>]) -> Answer<'a> {
        Answer { names, verdict: Verdict::Never, by: By::Store, each: ArrayVec::new() }
    }

    pub(super) fn new(
        names: &'a [Box<str>],
        (verdict, by): (Verdict, By),
        each: impl IntoIterator<Item = Decision>,
    ) -> Answer<'a> {
        let each = each.into_iter().take(MemoryStore::LIMITS_MAX).collect();
        Answer { names, verdict, by, each }
    }

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
        in_one(self.verdict, self.each.iter())
    }

    /// What each rule said, in the order in which they were added.
    pub fn each(&self) -> impl Iterator<Item = (&'a str, Decision)> {
        self.names.iter().map(|name| &**name).zip(self.each.iter().copied())
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
