//! The judge: what a request is to be judged by, and what its store says of that.
//!
//! A request, several requests as one, and limits that are in no policy are all judged by a
//! store's [`judge`](tidegate_store::Store::judge). The first two come by here: their limits are
//! laid down in an admission before any is asked, and [`judge`] fills in the answers.

use smallvec::SmallVec;
use tidegate_config::{Asks, Facts, KeySource, Part, Rules, Who};
use tidegate_core::{Decision, Span, Tick, Verdict};
use tidegate_store::{
    AtOnce, By, Charged, Judgment, KeyTooLong, Later, LimitCharge, Place, StoreKey, StoreLimit,
    Verb,
};

use crate::admission::{Admission, Each, Judged, Reason};
use crate::gate::Home;
use crate::in_force::{PolicyInForce, Present};
use crate::per_core::PolicyRef;
use crate::text_key::text_key;

/// How a request is judged.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub(crate) verb: Verb,
    /// How long its caller waits for a slot, if one of the limits hands out slots.
    pub(crate) patience: Option<Span>,
}

/// What came of judging a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    Judged,
    /// One of its limits has become that of another policy: nothing has happened.
    Changed,
}

/// What a request is judged by, as it is found.
struct Found<'a> {
    in_force: &'a PolicyInForce,
    enforced: &'a mut Each,
    /// Asked after the others; most requests are in nobody's shadow.
    shadow: Vec<Judged>,
    is_too_long: bool,
    /// The key that was made last: that of the next rule, more often than not.
    made: Option<(KeySource, StoreKey)>,
}

impl Home {
    /// The key of these parts, as the store wants it.
    #[inline]
    pub(crate) fn key(&self, parts: &[Part<'_>]) -> Result<StoreKey, KeyTooLong> {
        let text = || text_key(parts, self.secret.as_ref());
        self.store.key_form().key(|keys| keys.key(parts), text)
    }

    /// The tick by which the store counts.
    pub(crate) fn now(&self) -> Tick {
        self.store.now(&*self.clock)
    }

    /// The tick by which the store judges what has come at `now`.
    #[inline]
    pub(crate) fn judges_at(&self, now: Tick) -> Tick {
        if self.store.answers_at_once() { now } else { self.now() }
    }
}

impl Admission {
    /// A request with all limits that it is to be judged by, before any of them is asked.
    pub(crate) fn found(
        in_force: &std::sync::Arc<PolicyRef>,
        facts: &Facts<'_, '_>,
    ) -> Box<Admission> {
        // Where it will stay: it is too large to be moved about.
        let mut admission = Box::write(Box::new_uninit(), Admission::new(in_force, facts.now()));
        let rules = &in_force.rules;
        if rules.rules().is_empty() {
            admission.route_cost = rules.route_cost(facts);
            return admission;
        }
        let (enforced, shadow) = (&mut admission.each, Vec::new());
        let mut found = Found { in_force, enforced, shadow, is_too_long: false, made: None };
        let outline = rules.walk(facts, |asks, who| found.add(&asks, who));
        let Found { shadow, is_too_long, .. } = found;
        admission.outline(&outline);
        if is_too_long && matches!(admission.reason, Reason::Judged | Reason::Unlimited) {
            admission.never(Reason::KeyTooLong);
        }
        if matches!(admission.reason, Reason::Judged | Reason::Unlimited) {
            admission.each.extend(shadow);
        } else {
            admission.each.clear();
        }
        admission
    }

    /// Asks the store, and notes what it says.
    pub(crate) async fn judge(&mut self, how: How) -> Outcome {
        if let Some(patience) = how.patience {
            // A place that is taken in vain may be lost to everybody: so this looks first.
            if self.ask(Verb::Peek).await == Outcome::Changed {
                return Outcome::Changed;
            }
            if self.delay().is_some_and(|by| patience < by) {
                self.too_late(patience);
                self.count();
                return Outcome::Judged;
            }
        }
        let outcome = self.ask(how.verb).await;
        if how.verb == Verb::Decide && outcome == Outcome::Judged {
            self.count();
        }
        outcome
    }

    async fn ask(&mut self, verb: Verb) -> Outcome {
        if self.each.is_empty() {
            return Outcome::Judged;
        }
        let home = &self.in_force.home;
        let at_once = home.store.answers_at_once();
        let now = home.judges_at(self.now);
        let is_judged = self.each.first().is_some_and(|first| !first.is_shadow);
        let judged = judge(&self.in_force, &mut self.each, verb, now).await;
        let Some((verdict, by)) = judged else { return Outcome::Changed };
        if !at_once {
            // What is said of times is counted from when it was asked, and what is held back until
            // a slot must not start before it.
            self.now = self.in_force.home.clock.now();
        }
        self.by = by;
        if is_judged {
            self.conclude(verdict);
        }
        Outcome::Judged
    }
}

impl Found<'_> {
    /// Adds the limits of a rule that counts `who`.
    fn add(&mut self, asks: &Asks<'_>, who: Who<'_, '_>) {
        // What is more than can be judged together is refused before it is asked.
        if !asks.is_shadow && Rules::LIMITS_MAX <= self.enforced.len() {
            return;
        }
        let key = match &self.made {
            Some((source, key)) if source.is_shared_with(who.source) => key.clone(),
            _ => {
                let Ok(key) = self.in_force.home.key(who.parts) else {
                    self.is_too_long |= !asks.is_shadow;
                    return;
                };
                self.made = Some((who.source, key.clone()));
                key
            }
        };
        // Not by `extend`, which is made for many.
        for judged in unsaid(self.in_force, asks, &key) {
            if asks.is_shadow {
                self.shadow.push(judged);
            } else {
                self.enforced.push(judged);
            }
        }
    }
}

/// The limits of a rule for a key, before they have said anything.
#[inline]
pub(crate) fn unsaid<'a>(
    in_force: &'a PolicyInForce,
    asks: &Asks<'_>,
    key: &'a StoreKey,
) -> impl Iterator<Item = Judged> + 'a {
    let Asks { number, variant, cost, is_open, is_shadow, .. } = *asks;
    let limits = in_force.limits(number, variant).iter();
    let (number, variant) = (word(number), word(variant));
    (0..).zip(limits).map(move |(part, limit)| Judged {
        rule: number,
        variant,
        part,
        is_shadow,
        is_open,
        is_shown: limit.is_shown,
        has_own_cost: limit.has_own_cost,
        is_permit: limit.is_permit,
        is_charged: false,
        is_shared: false,
        cost,
        decision: Decision::of_no_limit(Verdict::Allow),
        settled_at: None,
        key: key.clone(),
        charged: Charged::Nothing,
    })
}

fn word(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Judges the limits that are enforced together, all or nothing, and then each rule in shadow by
/// itself. Those that are enforced come first. Nothing happens, and there is no answer, if one of
/// those has become a limit of another policy.
pub(crate) async fn judge(
    in_force: &PolicyInForce,
    each: &mut [Judged],
    verb: Verb,
    now: Tick,
) -> Option<(Verdict, By)> {
    let enforced = each.iter().position(|it| it.is_shadow).unwrap_or(each.len());
    let (enforced, shadow) = each.split_at_mut(enforced);
    let (mut verdict, mut by) = (Verdict::Allow, By::Store);
    if !enforced.is_empty() {
        (verdict, by) = judge_together(in_force, enforced, verb, now).await?;
    }
    if !shadow.is_empty() {
        // A request that is refused is charged to nothing, not even in shadow.
        let verb = if verdict.passes() { verb } else { Verb::Peek };
        let judgments = pose_each(in_force, shadow, verb, now).await;
        for (limits, judgment) in shadow.chunk_by_mut(Judged::is_beside).zip(judgments) {
            take_down(limits, judgment, verb);
        }
    }
    Some((verdict, by))
}

/// Judges limits together. A store that answers at once writes where the answers stay.
async fn judge_together(
    in_force: &PolicyInForce,
    limits: &mut [Judged],
    verb: Verb,
    now: Tick,
) -> Option<(Verdict, By)> {
    let store = &in_force.home.store;
    let asked = {
        let presents = presents(in_force, limits, now);
        let mut answers: SmallVec<[(&mut Decision, &mut Charged); 4]> = SmallVec::new();
        let mut charges: SmallVec<[LimitCharge<'_>; 4]> = SmallVec::new();
        for (judged, limit) in limits.iter_mut().zip(&presents) {
            let Judged { decision, charged, key, cost, .. } = judged;
            charges.push(LimitCharge { at: Place { limit, key }, cost: *cost });
            answers.push((decision, charged));
        }
        let mut answers = answers.iter_mut();
        let said = store.judge_at_once(&charges, verb, now, &mut |decision, charged| {
            if let Some(answer) = answers.next() {
                (*answer.0, *answer.1) = (decision, charged);
            }
        });
        match said {
            AtOnce::Judged(verdict) => Ok(verdict),
            AtOnce::Changed => return None,
            AtOnce::Later => Err(store.judge(&charges, verb, now)),
        }
    };
    match asked {
        Ok(verdict) => {
            let is_charged = verb == Verb::Decide && verdict.passes();
            for judged in limits {
                judged.is_charged = is_charged;
            }
            Some((verdict, By::Store))
        }
        Err(asked) => {
            let judgment = asked.await;
            let said = (judgment.verdict, judgment.by);
            take_down(limits, judgment, verb);
            Some(said)
        }
    }
}

/// Asks the store about rules that are judged each by itself.
fn pose_each(
    in_force: &PolicyInForce,
    limits: &[Judged],
    verb: Verb,
    now: Tick,
) -> Later<Vec<Judgment>> {
    let presents = presents(in_force, limits, now);
    let mut presents = presents.iter();
    let rules = limits.chunk_by(Judged::is_beside).map(|rule| {
        let limits = rule.iter().zip(&mut presents);
        limits.map(|(judged, limit)| charge(judged, limit)).collect()
    });
    let rules: Vec<SmallVec<[LimitCharge<'_>; 4]>> = rules.collect();
    in_force.home.store.judge_each(&rules, verb, now)
}

/// The limits as they are now.
#[inline]
fn presents<'g>(
    in_force: &'g PolicyInForce,
    limits: &[Judged],
    now: Tick,
) -> SmallVec<[Present<'g>; 4]> {
    let mut presents = SmallVec::new();
    for judged in limits {
        presents.push(in_force.present(judged, now));
    }
    presents
}

#[inline]
fn charge<'a>(judged: &'a Judged, limit: &'a StoreLimit) -> LimitCharge<'a> {
    LimitCharge { at: Place { limit, key: &judged.key }, cost: judged.cost }
}

/// Notes what each limit said, and what it charged.
#[inline]
fn take_down(limits: &mut [Judged], judgment: Judgment, verb: Verb) {
    let is_charged = verb == Verb::Decide && judgment.verdict.passes();
    for (judged, (decision, charged)) in limits.iter_mut().zip(judgment.limits) {
        (judged.decision, judged.charged, judged.is_charged) = (decision, charged, is_charged);
    }
}
