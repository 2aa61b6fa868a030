//! Several requests decided as one: all limits of all of them let it pass, or none is charged.
//!
//! A rule that several of them meet with one key is asked once, for the highest cost; the one that
//! brought that cost holds the charge, and only it can give it back.

mod share;

use tidegate_config::{Facts, Plan, Request};
use tidegate_core::Verdict;
use tidegate_store::Verb;

use self::share::Shares;
use crate::admission::{Admission, Judged};
use crate::gate::Gate;
use crate::judge::{judge, unsaid};
use crate::later::later;

/// What was decided about several requests as one.
#[derive(Debug)]
pub struct Together {
    /// The verdict over all of them.
    pub verdict: Verdict,
    /// One for each request, in order. Its verdict is that of its own limits: where all of it was
    /// refused, those that would pass by themselves say so, and nothing was charged to them.
    pub each: Vec<Admission>,
}

later! {
    /// A decision about several requests that is being made. In this process it is there at once.
    AdmitTogether -> Together
}

impl Gate {
    /// Decides about several requests as one: all limits of all of them let it pass, or none is
    /// charged. One admission for each, in order.
    ///
    /// A limit that several of them share under one key is charged once, by the highest cost; the
    /// first that has this cost holds the charge, and is the one to settle, refund or drop. More
    /// than [`Rules::LIMITS_MAX`](tidegate_config::Rules::LIMITS_MAX) limits together never pass.
    pub fn admit_together(&self, requests: &[&dyn Request]) -> AdmitTogether {
        self.advance();
        let current = self.0.current.load();
        let generation = current.mine();
        let now = self.now();
        let facts = requests.iter().map(|request| generation.rules.facts(*request, now));
        let facts: Vec<Facts<'_, '_>> = facts.collect();
        let plans: Vec<Plan<'_>> = facts.iter().map(|facts| generation.rules.plan(facts)).collect();
        let home = &self.0.home;
        let (shares, once) = Shares::new(generation, &plans, now, |parts| home.key(parts));
        let limits = once.iter().flat_map(|one| unsaid(generation, one.planned, &one.key));
        let mut each: Vec<Judged> = limits.collect();
        let generation = std::sync::Arc::clone(generation);
        AdmitTogether(home.later(async move {
            let verb = if shares.pass_so_far() { Verb::Decide } else { Verb::Peek };
            let now = generation.home.judges_at(now);
            let (_, by) = judge(&generation, &mut each, verb, now).await;
            shares.hand_out(by, each.into_iter())
        }))
    }
}
