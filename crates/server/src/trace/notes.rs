//! What is noted of the decisions about a traced request.
//!
//! Several decisions in one request, as in a batch, are noted as one: the strictest.

use tidegate_core::{Decision, Verdict};
use tidegate_gate::{Admission, By};

use crate::answer::{reason_name, words};
use crate::limits::TRACE_RULES_MAX;

/// What was decided about a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noted {
    /// Names of limits that were asked, each once, up to a bound.
    pub(super) rules: Vec<String>,
    pub(super) said: Option<Said>,
    pub(super) decisions: u64,
    pub(super) cost: u64,
}

/// The strictest decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    verdict: Verdict,
    /// As doors say it.
    pub(super) words: [(&'static str, &'static str); 3],
}

/// Where to note; for a request that is not traced, nowhere.
#[derive(Debug, Default)]
pub(crate) struct Notes<'t>(Option<&'t mut Noted>);

impl<'t> Notes<'t> {
    pub(crate) fn new(noted: Option<&'t mut Noted>) -> Notes<'t> {
        Notes(noted)
    }

    /// Whether anything is noted.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// What a policy said.
    #[inline]
    pub(crate) fn admission(&mut self, admission: &Admission) {
        if let Some(noted) = &mut self.0 {
            noted.admission(admission);
        }
    }

    /// What one limit said that is in no policy.
    #[inline]
    pub(crate) fn plain(&mut self, limit: &str, decision: &Decision, by: By, cost: u32) {
        if let Some(noted) = &mut self.0 {
            noted.rule(limit);
            noted.decided(decision.verdict, "judged", by, cost);
        }
    }

    /// The name of a limit that was asked.
    pub(crate) fn rule(&mut self, name: &str) {
        if let Some(noted) = &mut self.0 {
            noted.rule(name);
        }
    }

    /// What several limits said together.
    pub(crate) fn decided(&mut self, verdict: Verdict, by: By, cost: u32) {
        if let Some(noted) = &mut self.0 {
            noted.decided(verdict, "judged", by, cost);
        }
    }
}

impl Noted {
    fn admission(&mut self, admission: &Admission) {
        admission.each().for_each(|limit| self.rule(&limit.name()));
        admission.stopped_by().into_iter().for_each(|rule| self.rule(rule));
        let cost = admission.each().map(|limit| limit.cost).max().unwrap_or(0);
        let (reason, by) = (reason_name(admission.reason()), admission.by());
        self.decided(admission.verdict(), reason, by, cost);
    }

    fn rule(&mut self, name: &str) {
        if self.rules.len() < TRACE_RULES_MAX && !self.rules.iter().any(|it| it == name) {
            self.rules.push(name.to_owned());
        }
    }

    fn decided(&mut self, verdict: Verdict, reason: &'static str, by: By, cost: u32) {
        self.decisions += 1;
        self.cost = self.cost.saturating_add(cost.into());
        if self.said.is_none_or(|said| severity(said.verdict) < severity(verdict)) {
            self.said = Some(Said { verdict, words: words(verdict, reason, by) });
        }
    }
}

const fn severity(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Allow => 0,
        Verdict::Delay { .. } => 1,
        Verdict::Deny { .. } => 2,
        Verdict::Never => 3,
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Span;

    use super::*;

    fn decision(verdict: Verdict) -> Decision {
        Decision { verdict, limit: 1, remaining: 0, reset_after: Span::ZERO }
    }

    #[test]
    fn of_several_decisions_the_strictest_is_told() {
        let mut kept = Noted::default();
        let mut notes = Notes::new(Some(&mut kept));
        notes.plain("a", &decision(Verdict::Allow), By::Store, 2);
        notes.plain("b", &decision(Verdict::Deny { retry_after: Span::ZERO }), By::Local, 3);
        notes.plain("a", &decision(Verdict::Allow), By::Store, 4);
        let said = kept.said.unwrap();
        assert_eq!(said.words.map(|(_, word)| word), ["deny", "judged", "local"]);
        assert_eq!((kept.decisions, kept.cost), (3, 9));
        assert_eq!(kept.rules, ["a", "b"]);
    }

    #[test]
    fn names_are_bounded() {
        let mut kept = Noted::default();
        let mut notes = Notes::new(Some(&mut kept));
        (0..2 * TRACE_RULES_MAX).for_each(|at| notes.rule(&at.to_string()));
        assert_eq!(kept.rules.len(), TRACE_RULES_MAX);
    }
}
