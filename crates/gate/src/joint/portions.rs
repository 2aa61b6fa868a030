//! Who shares which limit: each is asked once, and each request hears what it said.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_config::{Asks, Part, Plan, Planned, Rules};
use tidegate_core::{Tick, Verdict};
use tidegate_store::{By, KeyTooLong};

use super::Joint;
use crate::admission::{Admission, Judged, Reason};
use crate::per_core::PolicyRef;

/// A rule that is asked once for a key, whichever request it is for. Its cost is the highest.
#[derive(Clone)]
pub(super) struct Once<'p, 'f, K> {
    pub(super) planned: &'p Planned<'f>,
    pub(super) key: K,
}

/// What is left when the limits have been asked: who hears what.
pub(super) struct Portions {
    admissions: Vec<Admission>,
    /// For each rule that is asked once: who holds the charge, and where its limits stand.
    asked: Vec<(usize, Range<usize>)>,
    /// For each request its part in the rules, in the order of its answers.
    parts: Vec<SmallVec<[Portion; 4]>>,
}

/// A request's part in a rule.
struct Portion {
    asked: usize,
    cost: u32,
    is_open: bool,
    is_shadow: bool,
}

impl Portions {
    /// Who shares what, and what is to be asked: what is enforced first, then what is in shadow.
    pub(super) fn new<'p, 'f, K: Clone + Eq>(
        in_force: &Arc<PolicyRef>,
        plans: &'p [Plan<'f>],
        now: Tick,
        key_of: impl Fn(&[Part<'_>]) -> Result<K, KeyTooLong>,
    ) -> (Portions, Vec<Once<'p, 'f, K>>) {
        let planned = |plan: &Plan<'_>| Admission::planned(in_force, plan, now);
        let mut admissions: Vec<Admission> = plans.iter().map(planned).collect();
        let mut keyed: Vec<SmallVec<[Once<'p, 'f, K>; 4]>> = Vec::with_capacity(plans.len());
        for (plan, admission) in plans.iter().zip(&mut admissions) {
            keyed.push(keys(plan, admission, &key_of));
        }
        let mut once: Vec<Once<'p, 'f, K>> = Vec::new();
        let mut portions = Portions {
            admissions,
            asked: Vec::new(),
            parts: keyed.iter().map(|_| SmallVec::new()).collect(),
        };
        for is_shadow in [false, true] {
            for (request, keyed) in keyed.iter().enumerate() {
                let keyed = keyed.iter().filter(|one| one.planned.is_shadow == is_shadow);
                keyed.for_each(|one| portions.join(request, one.clone(), &mut once));
            }
        }
        portions.place(&once);
        if Rules::LIMITS_MAX < portions.limits(&once).0.len() {
            portions.are_too_many();
            once.clear();
        }
        (portions, once)
    }

    /// Adds a request's part in a rule. Few are shared, so that all are looked through.
    fn join<'p, 'f, K: Clone + Eq>(
        &mut self,
        request: usize,
        wanted: Once<'p, 'f, K>,
        once: &mut Vec<Once<'p, 'f, K>>,
    ) {
        let Asks { cost, is_open, is_shadow, .. } = wanted.planned.asks;
        let asked = once.iter().position(|other| other.is(&wanted)).unwrap_or_else(|| {
            once.push(wanted.clone());
            self.asked.push((request, 0..0));
            once.len() - 1
        });
        if once[asked].planned.cost < cost {
            (once[asked], self.asked[asked].0) = (wanted, request);
        }
        self.parts[request].push(Portion { asked, cost, is_open, is_shadow });
    }

    /// Notes where the limits of each rule stand among all.
    fn place<K>(&mut self, once: &[Once<'_, '_, K>]) {
        let mut end = 0;
        for ((_, limits), one) in self.asked.iter_mut().zip(once) {
            let start = end;
            end += one.planned.rule.variants()[one.planned.variant].policies().len();
            *limits = start..end;
        }
    }

    /// Where the limits that are enforced stand, and those of each rule in shadow.
    pub(super) fn limits<K>(&self, once: &[Once<'_, '_, K>]) -> (Range<usize>, Vec<Range<usize>>) {
        let enforced = once.iter().filter(|one| !one.planned.is_shadow).count();
        let end = enforced.checked_sub(1).map_or(0, |last| self.asked[last].1.end);
        let shadow = self.asked[enforced.min(self.asked.len())..].iter();
        (0..end, shadow.map(|(_, limits)| limits.clone()).collect())
    }

    fn are_too_many(&mut self) {
        for (admission, parts) in self.admissions.iter_mut().zip(&mut self.parts) {
            if parts.iter().any(|portion| !portion.is_shadow) {
                admission.never(Reason::TooManyLimits);
            }
            parts.clear();
        }
        self.asked.clear();
    }

    /// Whether none of them is refused before any limit is asked.
    pub(super) fn pass_so_far(&self) -> bool {
        self.admissions.iter().all(|admission| admission.verdict.passes())
    }

    /// Gives every request what its limits said; only one of those that share a limit gets what
    /// was charged.
    pub(super) fn hand_out(self, by: By, judged: impl Iterator<Item = Judged>) -> Joint {
        let Portions { mut admissions, asked, parts } = self;
        let mut judged: Vec<Option<Judged>> = judged.map(Some).collect();
        let mut copies = Vec::new();
        for (request, portion) in each_share(&parts) {
            let (holder, limits) = &asked[portion.asked];
            if *holder != request {
                let limits = judged[limits.clone()].iter().flatten();
                copies.extend(limits.map(|judged| judged.shared(portion.cost, portion.is_open)));
            }
        }
        let mut copies = copies.into_iter();
        for (request, portion) in each_share(&parts) {
            let (holder, limits) = &asked[portion.asked];
            let admission = &mut admissions[request];
            for judged in &mut judged[limits.clone()] {
                let own = if *holder == request { judged.take() } else { copies.next() };
                admission.each.extend(own);
            }
            if !portion.is_shadow {
                admission.by = by;
            }
        }
        conclude(admissions)
    }
}

impl<K: Eq> Once<'_, '_, K> {
    fn is(&self, other: &Once<'_, '_, K>) -> bool {
        let place = |one: &Once<'_, '_, K>| (one.planned.number, one.planned.variant);
        place(self) == place(other) && self.key == other.key
    }
}

/// The rules of one request with their keys; none if it is refused before any is asked.
fn keys<'p, 'f, K>(
    plan: &'p Plan<'f>,
    admission: &mut Admission,
    key_of: impl Fn(&[Part<'_>]) -> Result<K, KeyTooLong>,
) -> SmallVec<[Once<'p, 'f, K>; 4]> {
    let mut keyed = SmallVec::new();
    if !admission.verdict.passes() {
        return keyed;
    }
    for planned in &plan.charges {
        match key_of(&planned.key) {
            Ok(key) => keyed.push(Once { planned, key }),
            Err(_) if planned.is_shadow => {}
            Err(_) => {
                admission.never(Reason::KeyTooLong);
                keyed.clear();
                return keyed;
            }
        }
    }
    keyed
}

fn each_share(parts: &[SmallVec<[Portion; 4]>]) -> impl Iterator<Item = (usize, &Portion)> {
    let parts = parts.iter().enumerate();
    parts.flat_map(|(request, portions)| portions.iter().map(move |portion| (request, portion)))
}

fn conclude(mut admissions: Vec<Admission>) -> Joint {
    let mut together = Verdict::Allow;
    for admission in &mut admissions {
        let enforced = admission.each.iter().filter(|judged| !judged.is_shadow);
        let own = enforced.map(|judged| judged.decision.verdict);
        let own = own.fold(admission.verdict, Verdict::and);
        admission.conclude(own);
        admission.count();
        together = together.and(own);
    }
    Joint { verdict: together, each: admissions }
}
