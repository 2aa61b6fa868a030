//! Limits of before, by the names under which they keep what was consumed.

use std::collections::HashMap;
use std::fmt::Write as _;

use tidegate_config::{Rule, Timed, Variant};
use tidegate_store::RestoredRule;

use crate::store::StoreRule;

/// Limits of before: each under its name, and under its other one.
#[derive(Default)]
pub(crate) struct KeptLimits(HashMap<String, Kept>);

/// A limit of before: what was consumed under it is kept.
#[derive(Clone)]
struct Kept {
    name: Box<str>,
    rule: StoreRule,
}

impl KeptLimits {
    /// Those of a snapshot that have not been in force yet.
    pub(crate) fn of_restored(restored: &[RestoredRule]) -> KeptLimits {
        let mut kept = KeptLimits::default();
        for RestoredRule { name, also, rule } in restored {
            let also = (!also.is_empty()).then(|| also.clone());
            kept.add(name, also, StoreRule::Here(rule.clone()));
        }
        kept
    }

    /// Adds one, in the place of another of the same name.
    pub(crate) fn add(&mut self, name: &str, also: Option<String>, rule: StoreRule) {
        let kept = Kept { name: name.into(), rule };
        self.0.extend(also.map(|also| (also, kept.clone())));
        self.0.insert(name.to_owned(), kept);
    }

    /// The one that goes on as this limit.
    pub(crate) fn before(
        &self,
        (rule, variant, timed): (&Rule, &Variant, &Timed),
    ) -> Option<&StoreRule> {
        // Under its other name only what does not go on under its own.
        let usual = || {
            let before = self.0.get(&usual_name(rule, variant, timed)?)?;
            let goes_on =
                rule.variants().iter().any(|other| name(rule, other, timed) == *before.name);
            (!goes_on).then_some(before)
        };
        self.0.get(&name(rule, variant, timed)).or_else(usual).map(|kept| &kept.rule)
    }
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
