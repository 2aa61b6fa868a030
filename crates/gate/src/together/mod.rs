//! Several requests decided as one: all limits of all of them let it pass, or none is charged.
//!
//! A rule that several of them meet with one key is asked once, for the highest cost; the one that
//! brought that cost holds the charge, and only it can give it back.

mod share;

use std::sync::Arc;

use tidegate_config::{Facts, Plan, Request};
use tidegate_core::Verdict;
use tidegate_store::{By, Later, Verb, at_once};

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
        loop {
            let current = self.0.current.load();
            let generation = current.mine();
            let now = self.now();
            let facts = requests.iter().map(|request| generation.rules.facts(*request, now));
            let facts: Vec<Facts<'_, '_>> = facts.collect();
            let plans = facts.iter().map(|facts| generation.rules.plan(facts));
            let plans: Vec<Plan<'_>> = plans.collect();
            let home = &self.0.home;
            let (shares, once) = Shares::new(generation, &plans, now, |parts| home.key(parts));
            let limits = once.iter().flat_map(|one| unsaid(generation, one.planned, &one.key));
            let mut each: Vec<Judged> = limits.collect();
            let verb = if shares.pass_so_far() { Verb::Decide } else { Verb::Peek };
            if home.store.answers_at_once() {
                match at_once(judge(generation, &mut each, verb, now)) {
                    Some((_, by)) => {
                        let together = shares.hand_out(by, each.into_iter());
                        return AdmitTogether(Later::Ready(together));
                    }
                    // Another policy comes into force just now: it judges from the start.
                    None => self.wait_for_turn(),
                }
            } else {
                let generation = Arc::clone(generation);
                return AdmitTogether(Later::pending(async move {
                    let now = generation.home.now();
                    let judged = judge(&generation, &mut each, verb, now).await;
                    let by = judged.map_or(By::Store, |(_, by)| by);
                    shares.hand_out(by, each.into_iter())
                }));
            }
        }
    }
}
