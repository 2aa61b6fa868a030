//! What several rules said together.

use arrayvec::ArrayVec;
use tidegate_core::{Decision, Span, Verdict};

use super::{Limiter, MemoryStore, NamedRule};

/// The answer to one request by every rule of a limiter.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    limiter: &'a Limiter,
    each: ArrayVec<Decision, { MemoryStore::LIMITS_MAX }>,
    /// What overrules the numbers of the rules: a verdict that none of them gave by itself.
    refused: Option<Decision>,
}

impl<'a> Answer<'a> {
    pub(super) fn new(limiter: &'a Limiter) -> Answer<'a> {
        Answer { limiter, each: ArrayVec::new(), refused: None }
    }

    pub(super) fn add(&mut self, decision: Decision) {
        self.each.push(decision);
    }

    pub(super) fn refuse(&mut self, decision: Decision) {
        self.refused = Some(decision);
    }

    /// Notes what the store said of all together, where no rule said so: it had no room.
    pub(super) fn conclude(&mut self, verdict: Verdict) {
        if !verdict.passes() && self.violated().next().is_none() {
            self.refuse(Decision::of_no_limit(verdict));
        }
    }

    /// All in one: the verdict of all together, with the numbers of the rule that is closest to
    /// refusing, or that refused for longest.
    pub fn decision(&self) -> Decision {
        if let Some(refused) = self.refused {
            return refused;
        }
        let together = self.each.iter().fold(Verdict::Allow, |all, it| all.and(it.verdict));
        let speaks = self.each.iter().min_by_key(|it| (it.verdict != together, it.remaining));
        let numbers = speaks.copied().unwrap_or(Decision {
            verdict: together,
            limit: 0,
            remaining: 0,
            reset_after: Span::ZERO,
        });
        Decision { verdict: together, ..numbers }
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
