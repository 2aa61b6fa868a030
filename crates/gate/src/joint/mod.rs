//! Several requests decided as one: all limits of all of them let it pass, or none is charged.
//!
//! A rule that several of them meet with one key is asked once, for the highest cost; the one that
//! brought that cost holds the charge, and only it can give it back.

mod portions;

use std::sync::Arc;

use tidegate_config::{Facts, Plan, Request};
use tidegate_core::Verdict;
use tidegate_store::{By, Later, Verb, at_once};

use self::portions::Portions;
use crate::admission::{Admission, Judged};
use crate::gate::Gate;
use crate::judge::{judge, unsaid};
use crate::later::later;

/// What was decided about several requests as one.
#[derive(Debug)]
pub struct Joint {
    /// The verdict over all of them.
    pub verdict: Verdict,
    /// One for each request, in order. Its verdict is that of its own limits: where all of it was
    /// refused, those that would pass by themselves say so, and nothing was charged to them.
    pub each: Vec<Admission>,
}

later! {
    /// A decision about several requests that is being made. In this process it is there at once.
    AdmitJointly -> Joint
}

impl Gate {
    /// Decides about several requests as one: all limits of all of them let it pass, or none is
    /// charged. One admission for each, in order.
    ///
    /// A limit that several of them share under one key is charged once, by the highest cost; the
    /// first that has this cost holds the charge, and is the one to settle, refund or drop. More
    /// than [`Rules::LIMITS_MAX`](tidegate_config::Rules::LIMITS_MAX) limits together never pass.
    pub fn admit_jointly(&self, requests: &[&dyn Request]) -> AdmitJointly {
        self.advance();
        loop {
            let current = self.0.current.load();
            let in_force = current.mine();
            let now = self.now();
            let facts = requests.iter().map(|request| in_force.rules.facts(*request, now));
            let facts: Vec<Facts<'_, '_>> = facts.collect();
            let plans = facts.iter().map(|facts| in_force.rules.plan(facts));
            let plans: Vec<Plan<'_>> = plans.collect();
            let home = &self.0.home;
            let (portions, once) = Portions::new(in_force, &plans, now, |parts| home.key(parts));
            let limits = once.iter().flat_map(|one| unsaid(in_force, one.planned, &one.key));
            let mut each: Vec<Judged> = limits.collect();
            let verb = if portions.pass_so_far() { Verb::Decide } else { Verb::Peek };
            if home.store.answers_at_once() {
                match at_once(judge(in_force, &mut each, verb, now)) {
                    Some((_, by)) => {
                        let together = portions.hand_out(by, each.into_iter());
                        return AdmitJointly(Later::Ready(together));
                    }
                    // Another policy comes into force just now: it judges from the start.
                    None => self.wait_for_turn(),
                }
            } else {
                let in_force = Arc::clone(in_force);
                return AdmitJointly(Later::pending(async move {
                    let now = in_force.home.now();
                    let judged = judge(&in_force, &mut each, verb, now).await;
                    let by = judged.map_or(By::Store, |(_, by)| by);
                    portions.hand_out(by, each.into_iter())
                }));
            }
        }
    }
}
