//! Limits of before, and which of them a limit goes on from.
//!
//! A limit goes on under its name. Besides, its clients may have had others until now: a tier gets
//! a limit of its own or loses it, a key gets a quota of its own. What they had consumed there
//! counts under this one.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use tidegate_config::{Rule, Rules, Timed, Variant};
use tidegate_core::{Change, Policy};
use tidegate_store::{RestoredRule, StoreLimit};

use crate::generation::Generation;
use crate::secret::{KeySecret, hidden};

/// Limits of before: each under its name, and under its other one.
pub(crate) struct KeptLimits<'a> {
    by_name: HashMap<String, Kept>,
    before: Option<&'a Generation>,
    /// Rules of before by their names.
    places: HashMap<&'a str, usize>,
    /// Tiers by their places: before, and now.
    tiers: Vec<(usize, usize)>,
    secret: Option<&'a KeySecret>,
}

/// A limit of before: what was consumed under it is kept.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) name: Box<str>,
    pub(crate) rule: StoreLimit,
    /// All of it, if it was in force until now.
    in_force: Option<Policy>,
}

impl Kept {
    /// How it becomes a limit which is `whole` when all of it is given out.
    pub(crate) fn change_to(&self, whole: &Policy) -> Change {
        if self.in_force.as_ref() == Some(whole) { Change::Part } else { Change::Quota }
    }
}

/// Which variants of before those had that a variant is for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Former {
    variants: Vec<usize>,
    /// Whether it is the quota of a single key.
    is_own: bool,
}

/// The most limits that are looked at when a key gets a quota of its own, or loses it; see
/// [`Carry`](crate::carry::Carry) for those beyond.
const FORMERS_MAX: usize = 64;

impl<'a> KeptLimits<'a> {
    /// Those of `before`, and those that wait to be in force again, for the limits of `rules`.
    pub(crate) fn new(
        rules: &Rules,
        before: Option<&'a Generation>,
        waiting: &[RestoredRule],
        secret: Option<&'a KeySecret>,
    ) -> KeptLimits<'a> {
        let mut by_name = HashMap::new();
        for RestoredRule { name, also, rule } in waiting {
            let rule = StoreLimit::Memory(rule.clone());
            let kept = Kept { name: name.as_str().into(), rule, in_force: None };
            add(&mut by_name, kept, (!also.is_empty()).then(|| also.clone()));
        }
        let Some(before) = before else {
            let (places, tiers) = (HashMap::new(), Vec::new());
            return KeptLimits { by_name, before: None, places, tiers, secret };
        };
        before.each_limit(|limit, also| {
            let (name, rule) = (limit.name.clone(), limit.present_rule());
            add(&mut by_name, Kept { name, rule, in_force: Some(limit.whole) }, also);
        });
        let places = before.rules.rules().iter().map(Rule::name).zip(0..).collect();
        let tiers = rules.tiers_since(&before.rules);
        KeptLimits { by_name, before: Some(before), places, tiers, secret }
    }

    /// The one that goes on as this limit.
    pub(crate) fn before(
        &self,
        (rule, variant, timed): (&Rule, &Variant, &Timed),
    ) -> Option<&Kept> {
        // Under its other name only what does not go on under its own.
        let usual = || {
            let before = self.by_name.get(&usual_name(rule, variant, timed)?)?;
            let is_it =
                |name: &str| *name == *before.name || hidden(name, self.secret) == *before.name;
            let goes_on = rule.variants().iter().any(|other| is_it(&name(rule, other, timed)));
            (!goes_on).then_some(before)
        };
        let name = name(rule, variant, timed);
        // As a snapshot has it, where it was hidden.
        let restored = || self.by_name.get(&hidden(&name, self.secret));
        self.by_name.get(&name).or_else(restored).or_else(usual)
    }

    /// Which variants of before the clients of each variant had.
    pub(crate) fn formers(&self, rule: &Rule) -> Vec<Former> {
        let mut formers = vec![Former::default(); rule.variants().len()];
        let Some((_, had)) = self.rule_before(rule) else { return formers };
        for &(before, now) in &self.tiers {
            if let (Some(had), Some(has)) = (had.variant_of_tier(before), rule.variant_of_tier(now))
            {
                formers[has].variants.push(had);
            }
        }
        // A key that gets a quota of its own may be of any tier, and so may one that loses it.
        let mut all = had.variants_of_tiers();
        all.truncate(FORMERS_MAX);
        let lost = lost_keys(had, rule);
        for (variant, is_own) in own_keys(rule) {
            if is_own {
                formers[variant] = Former { variants: all.clone(), is_own };
            } else if lost.len() <= FORMERS_MAX {
                formers[variant].variants.extend(&lost);
            }
        }
        formers
    }

    /// The limits that clients of a limit had besides the one that goes on as it.
    pub(crate) fn besides(
        &self,
        (rule, timed): (&Rule, &Timed),
        former: &Former,
        goes_on: Option<&Kept>,
    ) -> Vec<StoreLimit> {
        let Some((before, (place, had))) = self.before.zip(self.rule_before(rule)) else {
            return Vec::new();
        };
        // It was this key's until now.
        if former.is_own && goes_on.is_some_and(|kept| kept.in_force.is_some()) {
            return Vec::new();
        }
        let mut besides = Vec::new();
        let mut names: HashSet<&str> = goes_on.iter().map(|kept| &*kept.name).collect();
        for &variant in &former.variants {
            let policies = had.variants()[variant].policies();
            for (limit, like) in before.limits(place, variant).iter().zip(policies) {
                if like.part() == timed.part() && names.insert(&limit.name) {
                    besides.push(limit.present_rule());
                }
            }
        }
        besides
    }

    fn rule_before(&self, rule: &Rule) -> Option<(usize, &'a Rule)> {
        let &place = self.places.get(rule.name())?;
        Some((place, self.before?.rule(place)))
    }
}

/// Every variant by its place, and whether it is the quota of a single key.
fn own_keys(rule: &Rule) -> impl Iterator<Item = (usize, bool)> {
    let of_tiers: HashSet<usize> = rule.variants_of_tiers().into_iter().collect();
    (0..rule.variants().len()).map(move |variant| (variant, !of_tiers.contains(&variant)))
}

/// The quotas of single keys that a rule had and has no more, by their places.
fn lost_keys(had: &Rule, has: &Rule) -> Vec<usize> {
    let own = own_keys(has).filter(|(_, is_own)| *is_own);
    let ids: HashSet<&str> = own.map(|(variant, _)| has.variants()[variant].id()).collect();
    let is_lost =
        |(variant, is_own): &(usize, bool)| *is_own && !ids.contains(had.variants()[*variant].id());
    own_keys(had).filter(is_lost).map(|(variant, _)| variant).collect()
}

fn add(by_name: &mut HashMap<String, Kept>, kept: Kept, also: Option<String>) {
    by_name.extend(also.map(|also| (also, kept.clone())));
    by_name.insert(kept.name.to_string(), kept);
}

/// Under what name a limit keeps its consumption.
pub(crate) fn name(rule: &Rule, variant: &Variant, timed: &Timed) -> String {
    // No rule's name holds one of these marks.
    let mut name = rule.name().to_owned();
    if !timed.part().is_empty() {
        let _ = write!(name, "#{}", timed.part());
    }
    // What is last may hold any mark.
    if !variant.id().is_empty() {
        let _ = write!(name, "/{}", variant.id());
    }
    name
}

/// Another name of the limit for those who say nothing of their tier: it goes on when a rule gets
/// limits by tier, or has them no more.
pub(crate) fn usual_name(rule: &Rule, variant: &Variant, timed: &Timed) -> Option<String> {
    let usual = rule.variants().get(rule.usual_variant())?;
    (usual.id() == variant.id()).then(|| format!("{}=usual#{}", rule.name(), timed.part()))
}
