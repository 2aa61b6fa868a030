//! Decisions in this process: sync, infallible, one lock for each key.

use std::sync::Arc;

use arrayvec::ArrayVec;
use smallvec::SmallVec;
use tidegate_config::{Plan, Planned, Request, Rules};
use tidegate_core::{Decision, Receipt, Tick, Verdict};
use tidegate_store::{Charge, Key, MemoryStore};

use crate::admission::{Admission, Charged, Judged, Reason};
use crate::by::By;
use crate::gate::Gate;
use crate::generation::{Generation, Present};

/// One limit to be judged.
struct Asked<'g> {
    present: Present<'g>,
    key: Key,
    judged: Judged,
}

type AskedLimits<'g> = ArrayVec<Asked<'g>, { Rules::LIMITS_MAX }>;

impl Gate {
    pub(crate) fn decide_here(
        &self,
        store: &MemoryStore,
        generation: &Arc<Generation>,
        request: &dyn Request,
    ) -> Admission {
        let now = self.0.clock.now();
        let facts = generation.rules.facts(request, now);
        let plan = generation.rules.plan(&facts);
        let mut admission = self.unjudged(generation, &plan, now);
        if admission.reason == Reason::Judged || admission.reason == Reason::Unlimited {
            self.judge_here(store, generation, &plan, &mut admission);
        }
        admission.count();
        admission
    }

    /// What a plan says before any limit is asked.
    pub(crate) fn unjudged(
        &self,
        generation: &Arc<Generation>,
        plan: &Plan<'_>,
        now: Tick,
    ) -> Admission {
        let (verdict, reason) = match plan.stopped {
            Some(stopped) if stopped.blocks => (Verdict::Never, Reason::Blocked),
            _ if plan.is_too_much => (Verdict::Never, Reason::TooManyLimits),
            Some(_) => (Verdict::Allow, Reason::Unlimited),
            None => (Verdict::Allow, Reason::Judged),
        };
        let stopped = plan.stopped.filter(|_| reason != Reason::TooManyLimits);
        Admission {
            gate: Arc::clone(&self.0),
            generation: Arc::clone(generation),
            now,
            verdict,
            reason,
            stopped_by: stopped.map(|stopped| stopped.number),
            route_cost: plan.route_cost,
            by: By::Store,
            each: SmallVec::new(),
            is_waiting: false,
        }
    }

    fn judge_here(
        &self,
        store: &MemoryStore,
        generation: &Generation,
        plan: &Plan<'_>,
        admission: &mut Admission,
    ) {
        let now = admission.now;
        let mut asked = AskedLimits::new();
        for planned in plan.charges.iter().filter(|planned| !planned.is_shadow) {
            if !self.ask_here(store, generation, planned, now, &mut asked) {
                admission.has_too_long_a_key();
                return;
            }
        }
        let verdict = decide(store, asked, now, &mut admission.each);
        admission.conclude(verdict);
        for planned in plan.charges.iter().filter(|planned| planned.is_shadow) {
            let mut asked = AskedLimits::new();
            if !self.ask_here(store, generation, planned, now, &mut asked) {
                continue;
            }
            // A request that is refused is charged to nothing, not even in shadow.
            if admission.verdict.passes() {
                let _ = decide(store, asked, now, &mut admission.each);
            } else {
                peek(store, asked, now, &mut admission.each);
            }
        }
    }

    /// Adds the limits of a rule; `false` if its key is too long.
    fn ask_here<'g>(
        &self,
        store: &MemoryStore,
        generation: &'g Generation,
        planned: &Planned<'_>,
        now: Tick,
        asked: &mut AskedLimits<'g>,
    ) -> bool {
        let Ok(key) = store.key(&planned.key[..]) else { return false };
        let variant = &generation.rule(planned.number).variants()[planned.variant];
        let limits = generation.limits(planned.number, planned.variant).iter();
        for (part, (limit, timed)) in (0..).zip(limits.zip(variant.policies())) {
            let present = limit.present(timed, &self.0.store, now);
            let judged = judged(planned, part, Charged::here(key, None));
            // A plan with more than there is room for has been refused before.
            if asked.try_push(Asked { present, key, judged }).is_err() {
                return false;
            }
        }
        true
    }
}

/// A limit that has not said anything yet.
pub(crate) fn judged(planned: &Planned<'_>, part: u8, charged: Charged) -> Judged {
    let word = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Judged {
        rule: word(planned.number),
        variant: word(planned.variant),
        part,
        is_shadow: planned.is_shadow,
        is_open: planned.is_open,
        has_own_cost: planned.rule.has_own_cost(),
        is_charged: false,
        cost: planned.cost,
        decision: NOTHING,
        charged,
    }
}

const NOTHING: Decision = Decision {
    verdict: Verdict::Allow,
    limit: 0,
    remaining: 0,
    reset_after: tidegate_core::Span::ZERO,
};

/// Charges all, or none.
fn decide(
    store: &MemoryStore,
    mut asked: AskedLimits<'_>,
    now: Tick,
    each: &mut SmallVec<[Judged; 3]>,
) -> Verdict {
    let mut answers: ArrayVec<(Decision, Option<Receipt>), { Rules::LIMITS_MAX }> = ArrayVec::new();
    let verdict = {
        let charges: ArrayVec<Charge<'_>, { Rules::LIMITS_MAX }> =
            asked.iter().filter_map(charge).collect();
        store.decide_all(&charges, now, |decision, receipt| answers.push((decision, receipt)))
    };
    for (asked, (decision, receipt)) in asked.iter_mut().zip(answers) {
        asked.judged.decision = decision;
        asked.judged.is_charged = verdict.passes();
        asked.judged.charged = Charged::here(asked.key, receipt);
    }
    each.extend(asked.into_iter().map(|asked| asked.judged));
    verdict
}

fn peek(store: &MemoryStore, asked: AskedLimits<'_>, now: Tick, each: &mut SmallVec<[Judged; 3]>) {
    for mut asked in asked {
        if let Some(Charge { rule, key, cost }) = charge(&asked) {
            asked.judged.decision = store.peek(rule, key, now, cost);
        }
        each.push(asked.judged);
    }
}

fn charge<'a>(asked: &'a Asked<'_>) -> Option<Charge<'a>> {
    let rule = asked.present.here()?;
    Some(Charge { rule, key: asked.key, cost: asked.judged.cost })
}
