//! Decisions in this process: sync, infallible, one lock for each key.

use std::cell::OnceCell;
use std::sync::Arc;

use arrayvec::ArrayVec;
use tidegate_config::{Asks, Facts, KeySource, Outline, Planned, Request, Rules, Who};
use tidegate_core::{Decision, Kind, Receipt, Span, Tick, Verdict};
use tidegate_store::{Charge, Key, MemoryStore};

use crate::admission::{Admission, Charged, Each, Judged, Reason};
use crate::apart::Lease;
use crate::gate::{Gate, Home};
use crate::generation::{Generation, Limit, Present};
use crate::store::StoreRule;
use crate::turn::{Patience, Turning};

/// Where a limit is kept, and under which key.
pub(crate) type Place<'g> = (Present<'g>, Key);

/// A limit that a request is judged by.
struct Asked<'g> {
    charge: Charge<'g>,
    limit: &'g Limit,
    rule: u32,
    variant: u32,
    part: u8,
    is_open: bool,
    is_shadow: bool,
}

/// Limits that are judged together, in their order. More are refused before they are asked.
type AskedTogether<'g> = ArrayVec<Asked<'g>, { Rules::LIMITS_MAX }>;

/// Limits of calendars as they are now, by their places; most requests have none.
#[derive(Default)]
struct Windows<'p>(OnceCell<Box<[OnceCell<Present<'p>>; Rules::LIMITS_MAX]>>);

/// Whom is asked, and when.
struct Asking<'g, 'p> {
    home: &'g Home,
    store: &'g MemoryStore,
    generation: &'p Generation,
    now: Tick,
    windows: &'g Windows<'p>,
}

/// What a request is judged by, as it is found.
#[derive(Default)]
struct Found<'g, 'f> {
    asked: AskedTogether<'g>,
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
    ) -> Result<Box<Admission>, Box<Turning>> {
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
        let mut admission = Box::write(Box::new_uninit(), Admission::new(generation, facts.now()));
        if generation.rules.rules().is_empty() {
            admission.route_cost = generation.rules.route_cost(facts);
            return admission;
        }
        let (windows, mut found) = (Windows::default(), Found::default());
        let home = &*self.0.home;
        let asking = Asking { home, store, generation, now: facts.now(), windows: &windows };
        let outline = match generation.rules.known(facts) {
            Some(mut known) => {
                while let Some((asks, who)) = known.next(facts) {
                    found.add(&asking, &asks, who);
                }
                known.outline()
            }
            None => found.look(&asking, facts, &generation.rules),
        };
        admission.outline(&outline);
        if matches!(admission.reason, Reason::Judged | Reason::Unlimited) {
            if found.is_too_long {
                admission.never(Reason::KeyTooLong);
            } else {
                self.judge_here(store, generation, &found, &mut admission, charges);
            }
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
        if !found.asked.is_empty() {
            verdict = judge_asked(store, &found.asked, admission.now, &mut admission.each, charges);
            admission.conclude(verdict);
        }
        if !found.shadow.is_empty() {
            // A request that is refused is charged to nothing, not even in shadow.
            let charges = charges && verdict.passes();
            self.judge_shadow(store, generation, &found.shadow, admission, charges);
        }
    }

    /// Kept out of the way of requests that are in nobody's shadow: it needs room of its own.
    #[inline(never)]
    fn judge_shadow(
        &self,
        store: &MemoryStore,
        generation: &Generation,
        shadow: &[Planned<'_>],
        admission: &mut Admission,
        charges: bool,
    ) {
        for planned in shadow {
            let Ok(key) = store.key(&planned.key[..]) else { continue };
            let (home, now) = (&*self.0.home, admission.now);
            let (windows, mut asked) = (Windows::default(), AskedTogether::new());
            let asking = Asking { home, store, generation, now, windows: &windows };
            asking.ask(&planned.asks, key, &mut asked);
            let _ = judge_asked(store, &asked, admission.now, &mut admission.each, charges);
        }
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

impl<'g, 'p: 'g> Asking<'g, 'p> {
    /// Adds the limits of a rule.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call costs half as much as what is done")]
    fn ask(&self, asks: &Asks<'_>, key: Key, asked: &mut AskedTogether<'g>) {
        for (part, limit) in (0..).zip(self.generation.limits(asks.number, asks.variant)) {
            // There is no room for what is more than can be judged together: nothing is, then.
            if asked.is_full() {
                return;
            }
            let rule = limit.always().unwrap_or_else(|| {
                let timed = &asks.rule.variants()[asks.variant].policies()[usize::from(part)];
                self.windows.hold(asked.len(), limit.present(timed, &self.home.store, self.now))
            });
            let rule = rule.here().expect("a rule of this store");
            asked.push(Asked {
                charge: Charge { rule, key, cost: asks.cost },
                limit,
                rule: word(asks.number),
                variant: word(asks.variant),
                part,
                is_open: asks.is_open,
                is_shadow: asks.is_shadow,
            });
        }
    }
}

impl<'g, 'f> Found<'g, 'f> {
    /// Looks for what is not known by the request's route.
    #[inline(never)]
    fn look<'p: 'g>(
        &mut self,
        asking: &Asking<'g, 'p>,
        facts: &'f Facts<'_, '_>,
        rules: &'f Rules,
    ) -> Outline<'f> {
        rules.walk(facts, |asks, who| {
            if asks.is_shadow {
                self.shadow.push(Planned { asks, key: who.parts.clone() });
            } else {
                self.add(asking, &asks, who);
            }
        })
    }

    /// Adds the limits of a rule that counts `who`.
    #[inline]
    fn add<'p: 'g>(&mut self, asking: &Asking<'g, 'p>, asks: &Asks<'_>, who: Who<'_, '_>) {
        match self.key(asking.store, who) {
            Some(key) => asking.ask(asks, key, &mut self.asked),
            None => self.is_too_long = true,
        }
    }

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

impl<'p> Windows<'p> {
    /// Keeps the limit at `place` for as long as it is asked.
    #[inline(never)]
    fn hold(&self, place: usize, present: Present<'p>) -> &StoreRule {
        self.0.get_or_init(Box::default)[place].get_or_init(|| present)
    }
}

impl<'g> AsRef<Charge<'g>> for Asked<'g> {
    #[inline]
    fn as_ref(&self) -> &Charge<'g> {
        &self.charge
    }
}

impl Asked<'_> {
    #[inline]
    fn judged(&self, decision: Decision, receipt: Option<Receipt>) -> Judged {
        Judged {
            rule: self.rule,
            variant: self.variant,
            part: self.part,
            is_shadow: self.is_shadow,
            is_open: self.is_open,
            is_shown: self.limit.is_shown,
            has_own_cost: self.limit.has_own_cost,
            is_permit: self.limit.is_permit,
            is_charged: receipt.is_some(),
            is_shared: false,
            cost: self.charge.cost,
            decision,
            settled_at: None,
            charged: Charged::here(self.charge.key, receipt),
        }
    }
}

fn word(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Judges all together, and charges all or none if that is wanted. What each says is added.
fn judge_asked(
    store: &MemoryStore,
    asked: &[Asked<'_>],
    now: Tick,
    each: &mut Each,
    charges: bool,
) -> Verdict {
    if !charges {
        return asked.iter().fold(Verdict::Allow, |verdict, one| {
            let Charge { rule, key, cost } = one.charge;
            let decision = store.peek(rule, key, now, cost);
            each.push(one.judged(decision, None));
            verdict.and(decision.verdict)
        });
    }
    let mut asking = asked.iter();
    store.decide_all(asked, now, |decision, receipt| {
        if let Some(one) = asking.next() {
            each.push(one.judged(decision, receipt));
        }
    })
}

/// A limit that has not said anything yet.
pub(crate) fn judged(asks: &Asks<'_>, (part, kind): (u8, Kind), charged: Charged) -> Judged {
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
