//! Decisions in this process: sync, infallible, one lock for each key.

use std::sync::Arc;

use arrayvec::ArrayVec;
use tidegate_config::{Asks, Facts, KeySource, Planned, Request, Rules, Who};
use tidegate_core::{Decision, Kind, Span, Tick, Verdict};
use tidegate_store::{Charge, Key, MemoryStore};

use crate::admission::{Admission, Charged, Judged, Reason};
use crate::apart::Lease;
use crate::gate::Gate;
use crate::generation::{Generation, Present};
use crate::turn::{Patience, Turning};

/// Where a limit is kept, and under which key.
pub(crate) type Place<'g> = (Present<'g>, Key);

/// Where limits that are judged together are kept, in their order. More are refused before they
/// are asked.
type Places<'g> = ArrayVec<Place<'g>, { Rules::LIMITS_MAX }>;

/// There is room for so many limits from the start: few requests have more.
const LIMITS_USUAL: usize = 4;

/// What a request is judged by, as it is found.
struct Found<'g, 'f> {
    places: Places<'g>,
    /// Asked after the others, one by one.
    shadow: Vec<Planned<'f>>,
    is_too_long: bool,
    /// The key that was made last: that of the next rule, more often than not.
    made: Option<(KeySource, Key)>,
}

impl Gate {
    pub(crate) fn decide_here(
        &self,
        store: &MemoryStore,
        generation: &Arc<Lease>,
        request: &dyn Request,
        patience: Patience,
    ) -> Result<Box<Admission>, Turning> {
        let now = self.0.clock.now();
        let facts = generation.rules.facts(request, now);
        if generation.holds_back
            && let Some(patience) = request.patience()
            && let Some(refused) = self.too_late_here(store, generation, &facts, patience)
        {
            return Ok(refused);
        }
        let admission = self.judged_here(store, generation, &facts, true);
        admission.count();
        if generation.shares.is_empty() || !admission.verdict.passes() {
            return Ok(admission);
        }
        match generation.begin(&facts, admission.route_cost, patience) {
            Some(begun) => admission.begun(begun),
            None => Ok(admission),
        }
    }

    /// A request that would have to wait for longer than its caller does. It is looked at before
    /// anything is taken: a place in a queue that is taken in vain may be lost to everybody.
    #[cold]
    fn too_late_here(
        &self,
        store: &MemoryStore,
        generation: &Arc<Lease>,
        facts: &Facts<'_, '_>,
        patience: Span,
    ) -> Option<Box<Admission>> {
        let mut admission = self.judged_here(store, generation, facts, false);
        let is_too_late = admission.delay().is_some_and(|by| patience < by);
        is_too_late.then(|| {
            admission.too_late(patience);
            admission.count();
            admission
        })
    }

    /// What is said of a request; whether it is charged is for the caller to say.
    pub(crate) fn judged_here(
        &self,
        store: &MemoryStore,
        generation: &Arc<Lease>,
        facts: &Facts<'_, '_>,
        charges: bool,
    ) -> Box<Admission> {
        // Where it will stay: it is too large to be moved about.
        let mut admission = Box::new(Admission::new(generation, facts.now()));
        if generation.rules.rules().is_empty() {
            admission.route_cost = generation.rules.route_cost(facts);
            return admission;
        }
        admission.each.reserve_exact(LIMITS_USUAL);
        let mut found =
            Found { places: Places::new(), shadow: Vec::new(), is_too_long: false, made: None };
        let outline = generation.rules.walk(facts, |asks, who| {
            if asks.is_shadow {
                found.shadow.push(Planned { asks, key: who.parts.clone() });
                return;
            }
            match found.key(store, who) {
                Some(key) => {
                    self.ask_here(generation, &asks, key, &mut admission, &mut found.places);
                }
                None => found.is_too_long = true,
            }
        });
        admission.outline(&outline);
        if !matches!(admission.reason, Reason::Judged | Reason::Unlimited) {
            admission.each.clear();
        } else if found.is_too_long {
            admission.each.clear();
            admission.never(Reason::KeyTooLong);
        } else {
            self.judge_here(store, generation, &found, &mut admission, charges);
        }
        admission
    }

    fn judge_here(
        &self,
        store: &MemoryStore,
        generation: &Generation,
        found: &Found<'_, '_>,
        admission: &mut Admission,
        charges: bool,
    ) {
        let mut verdict = Verdict::Allow;
        if !found.places.is_empty() {
            verdict = judge(store, &found.places, admission.now, &mut admission.each, charges);
            admission.conclude(verdict);
        }
        // A request that is refused is charged to nothing, not even in shadow.
        let charges = charges && verdict.passes();
        for planned in &found.shadow {
            let Ok(key) = store.key(&planned.key[..]) else { continue };
            let (before, mut places) = (admission.each.len(), Places::new());
            self.ask_here(generation, planned, key, admission, &mut places);
            let each = &mut admission.each[before..];
            let _ = judge(store, &places, admission.now, each, charges);
        }
    }

    /// Adds the limits of a rule.
    fn ask_here<'g>(
        &self,
        generation: &'g Generation,
        asks: &Asks<'_>,
        key: Key,
        admission: &mut Admission,
        places: &mut Places<'g>,
    ) {
        self.limits_here(generation, asks, key, admission.now, |place, judged| {
            // There is no room for what is more than can be judged together: nothing is, then.
            if places.try_push(place).is_ok() {
                admission.each.push(judged);
            }
        });
    }

    /// Every limit of a rule for `key`.
    pub(crate) fn limits_here<'g>(
        &self,
        generation: &'g Generation,
        asks: &Asks<'_>,
        key: Key,
        now: Tick,
        mut each: impl FnMut(Place<'g>, Judged),
    ) {
        let variant = &asks.rule.variants()[asks.variant];
        let limits = generation.limits(asks.number, asks.variant).iter();
        for (part, (limit, timed)) in (0..).zip(limits.zip(variant.policies())) {
            let place = (limit.present(timed, &self.0.store, now), key);
            each(place, judged(asks, (part, timed.kind()), Charged::here(key, None)));
        }
    }
}

impl Found<'_, '_> {
    /// The key of whom a rule counts; `None` if it is too long.
    #[inline]
    fn key(&mut self, store: &MemoryStore, who: Who<'_, '_>) -> Option<Key> {
        match self.made {
            Some((source, key)) if source.is_shared_with(who.source) => Some(key),
            _ => {
                let key = store.key(&who.parts[..]).ok()?;
                self.made = Some((who.source, key));
                Some(key)
            }
        }
    }
}

/// A limit that has not said anything yet.
pub(crate) fn judged(asks: &Asks<'_>, (part, kind): (u8, Kind), charged: Charged) -> Judged {
    let word = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Judged {
        rule: word(asks.number),
        variant: word(asks.variant),
        part,
        is_shadow: asks.is_shadow,
        is_open: asks.is_open,
        is_shown: asks.rule.is_shown(),
        has_own_cost: asks.rule.has_own_cost(),
        is_permit: kind == Kind::Concurrency,
        is_charged: false,
        is_shared: false,
        cost: asks.cost,
        decision: Decision::of_no_limit(Verdict::Allow),
        settled_at: None,
        charged,
    }
}

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
    let charges = places.iter().zip(&*each).map(|((present, key), judged)| {
        let rule = present.here().expect("a rule of this store");
        Charge { rule, key: *key, cost: judged.cost }
    });
    let charges: ArrayVec<Charge<'_>, { Rules::LIMITS_MAX }> = charges.collect();
    let mut each = each.iter_mut();
    store.decide_all(&charges, now, |decision, receipt| {
        if let Some(judged) = each.next() {
            judged.decision = decision;
            judged.is_charged = receipt.is_some();
            judged.charged.add(receipt);
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
