//! Decisions in this process: sync, infallible, one lock for each key.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_config::{Plan, Planned, Request};
use tidegate_core::{Decision, Kind, Tick, Verdict};
use tidegate_store::{By, Charge, Key, MemoryStore};

use crate::admission::{Admission, Charged, Judged, Reason};
use crate::gate::Gate;
use crate::generation::{Generation, Present};
use crate::turn::{Patience, Turning};

/// Where a limit is kept, and under which key.
pub(crate) type Place<'g> = (Present<'g>, Key);

/// Where the limits of an admission are kept, in their order.
type Places<'g> = SmallVec<[Place<'g>; 4]>;

impl Gate {
    pub(crate) fn decide_here(
        &self,
        store: &MemoryStore,
        generation: &Arc<Generation>,
        request: &dyn Request,
        patience: Patience,
    ) -> Result<Box<Admission>, Turning> {
        let now = self.0.clock.now();
        let facts = generation.rules.facts(request, now);
        let plan = generation.rules.plan(&facts);
        let admission = self.judged_here(store, generation, &plan, now, true);
        admission.count();
        if generation.shares.is_empty() || !admission.verdict.passes() {
            return Ok(admission);
        }
        match generation.begin(&facts, &plan, patience) {
            Some(begun) => admission.begun(begun),
            None => Ok(admission),
        }
    }

    /// What is said of a request; whether it is charged is for the caller to say.
    pub(crate) fn judged_here(
        &self,
        store: &MemoryStore,
        generation: &Arc<Generation>,
        plan: &Plan<'_>,
        now: Tick,
        charges: bool,
    ) -> Box<Admission> {
        // Where it will stay: it is too large to be moved about.
        let mut admission = Box::new(self.unjudged(generation, plan, now));
        let is_judged = matches!(admission.reason, Reason::Judged | Reason::Unlimited);
        if is_judged && !plan.charges.is_empty() {
            self.judge_here(store, generation, plan, &mut admission, charges);
        }
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
            turn: None,
        }
    }

    fn judge_here(
        &self,
        store: &MemoryStore,
        generation: &Generation,
        plan: &Plan<'_>,
        admission: &mut Admission,
        charges: bool,
    ) {
        let mut places = Places::new();
        for planned in plan.charges.iter().filter(|planned| !planned.is_shadow) {
            if !self.ask_here(store, generation, planned, admission, &mut places) {
                admission.each.clear();
                admission.never(Reason::KeyTooLong);
                return;
            }
        }
        let verdict = judge(store, &places, admission.now, &mut admission.each, charges);
        admission.conclude(verdict);
        // A request that is refused is charged to nothing, not even in shadow.
        let charges = charges && verdict.passes();
        for planned in plan.charges.iter().filter(|planned| planned.is_shadow) {
            let (before, mut places) = (admission.each.len(), Places::new());
            if !self.ask_here(store, generation, planned, admission, &mut places) {
                admission.each.truncate(before);
                continue;
            }
            let each = &mut admission.each[before..];
            let _ = judge(store, &places, admission.now, each, charges);
        }
    }

    /// Adds the limits of a rule; `false` if its key is too long.
    fn ask_here<'g>(
        &self,
        store: &MemoryStore,
        generation: &'g Generation,
        planned: &Planned<'_>,
        admission: &mut Admission,
        places: &mut Places<'g>,
    ) -> bool {
        let Ok(key) = store.key(&planned.key[..]) else { return false };
        self.limits_here(generation, planned, key, admission.now, |place, judged| {
            places.push(place);
            admission.each.push(judged);
        });
        true
    }

    /// Every limit of a rule for `key`.
    pub(crate) fn limits_here<'g>(
        &self,
        generation: &'g Generation,
        planned: &Planned<'_>,
        key: Key,
        now: Tick,
        mut each: impl FnMut(Place<'g>, Judged),
    ) {
        let variant = &generation.rule(planned.number).variants()[planned.variant];
        let limits = generation.limits(planned.number, planned.variant).iter();
        for (part, (limit, timed)) in (0..).zip(limits.zip(variant.policies())) {
            let place = (limit.present(timed, &self.0.store, now), key);
            each(place, judged(planned, (part, timed.kind()), Charged::here(key, None)));
        }
    }
}

/// A limit that has not said anything yet.
pub(crate) fn judged(planned: &Planned<'_>, (part, kind): (u8, Kind), charged: Charged) -> Judged {
    let word = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Judged {
        rule: word(planned.number),
        variant: word(planned.variant),
        part,
        is_shadow: planned.is_shadow,
        is_open: planned.is_open,
        has_own_cost: planned.rule.has_own_cost(),
        is_permit: kind == Kind::Concurrency,
        is_charged: false,
        is_shared: false,
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

/// Judges all together, and charges all or none if that is wanted.
pub(crate) fn judge(
    store: &MemoryStore,
    places: &[Place<'_>],
    now: Tick,
    each: &mut [Judged],
    charges: bool,
) -> Verdict {
    if charges { decide(store, places, now, each) } else { peek(store, places, now, each) }
}

fn decide(store: &MemoryStore, places: &[Place<'_>], now: Tick, each: &mut [Judged]) -> Verdict {
    let mut charges: SmallVec<[Charge<'_>; 4]> = SmallVec::new();
    for ((present, key), judged) in places.iter().zip(&*each) {
        let rule = present.here().expect("a rule of this store");
        charges.push(Charge { rule, key: *key, cost: judged.cost });
    }
    let mut answers = each.iter_mut().zip(places);
    store.decide_all(&charges, now, |decision, receipt| {
        if let Some((judged, (_, key))) = answers.next() {
            judged.decision = decision;
            judged.is_charged = receipt.is_some();
            judged.charged = Charged::here(*key, receipt);
        }
    })
}

fn peek(store: &MemoryStore, places: &[Place<'_>], now: Tick, each: &mut [Judged]) -> Verdict {
    let mut verdict = Verdict::Allow;
    for ((present, key), judged) in places.iter().zip(each) {
        if let Some(rule) = present.here() {
            judged.decision = store.peek(rule, *key, now, judged.cost);
            verdict = verdict.and(judged.decision.verdict);
        }
    }
    verdict
}
