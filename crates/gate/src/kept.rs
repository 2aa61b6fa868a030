//! Limits as they were until now, by their names: which of them goes on as which.
//!
//! A limit is known by its rule, its part and its tier. The quota of a single key is another quota
//! of the limit that all keys have which are in no tier: in the store both share the key's state.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use tidegate_config::{Rule, Timed, Variant};
use tidegate_store::{RestoredRule, StoreLimit};

use crate::in_force::PolicyInForce;
use crate::secret::{KeySecret, hidden};

/// Quotas that were in force until now, and those that wait to be in force again.
pub(crate) struct KeptLimits<'a> {
    by_name: HashMap<String, StoreLimit>,
    /// Their names, by those of their limits.
    by_limit: HashMap<String, Vec<Box<str>>>,
    /// The tiers of every rule that counted in force; an empty one for keys that are in none.
    tiers: HashMap<&'a str, HashSet<&'a str>>,
    secret: Option<&'a KeySecret>,
}

/// A quota of a limit, by its names.
#[derive(Clone, Debug)]
pub(crate) struct QuotaName {
    /// Its own.
    pub(crate) name: String,
    /// That of the limit; another one only if it is the quota of a single key.
    pub(crate) limit: String,
}

impl<'a> KeptLimits<'a> {
    /// Those of `before`, and those that wait to be in force again.
    pub(crate) fn new(
        before: Option<&'a PolicyInForce>,
        waiting: &[RestoredRule],
        secret: Option<&'a KeySecret>,
    ) -> KeptLimits<'a> {
        let mut by_name: HashMap<String, StoreLimit> = HashMap::new();
        let mut by_limit: HashMap<String, Vec<Box<str>>> = HashMap::new();
        for RestoredRule { name, limit, rule } in waiting {
            let limit = if limit.is_empty() { name } else { limit };
            by_name.insert(name.clone(), StoreLimit::Memory(rule.clone()));
            by_limit.entry(limit.clone()).or_default().push(name.as_str().into());
        }
        let mut tiers: HashMap<&str, HashSet<&str>> = HashMap::new();
        if let Some(before) = before {
            before.each_limit(|limit, of| {
                by_name.insert(limit.name.to_string(), limit.present_rule());
                by_limit.entry(of).or_default().push(limit.name.clone());
            });
            for rule in before.rules.rules() {
                let counted = rule.variants().iter().filter(|it| !it.policies().is_empty());
                tiers.entry(rule.name()).or_default().extend(counted.map(Variant::tier));
            }
        }
        KeptLimits { by_name, by_limit, tiers, secret }
    }

    /// What the quota of this name was until now, and the name that it had.
    pub(crate) fn before(&self, name: &str) -> Option<(&str, &StoreLimit)> {
        // As a snapshot has it, where it was hidden.
        let restored = || self.by_name.get_key_value(&hidden(name, self.secret));
        let found = self.by_name.get_key_value(name).or_else(restored);
        found.map(|(name, rule)| (&**name, rule))
    }

    /// Other quotas of its limit that keys of this one had until now: of a new quota of a single
    /// key that of all others, and of that those which are no more.
    pub(crate) fn others(&self, quota: &QuotaName, wanted: &HashSet<String>) -> Vec<StoreLimit> {
        let is_of_one_key = quota.name != quota.limit;
        let is_other = |name: &str| {
            if is_of_one_key {
                name == quota.limit && !self.by_name.contains_key(&quota.name)
            } else {
                name != quota.limit && !wanted.contains(name)
            }
        };
        let had = self.by_limit.get(&quota.limit).into_iter().flatten().map(|name| &**name);
        had.filter(|name| is_other(name)).filter_map(|it| self.by_name.get(it).cloned()).collect()
    }

    /// Whether keys begin anew that are counted under a quota: its rule counted until now, and not
    /// in this tier.
    pub(crate) fn begin_anew(&self, rule: &Rule, variant: &Variant, quota: &QuotaName) -> bool {
        let had = self.tiers.get(rule.name()).filter(|tiers| !tiers.is_empty());
        let is_new = had.is_some_and(|tiers| !tiers.contains(variant.tier()));
        is_new && self.before(&quota.limit).is_none() && !self.by_limit.contains_key(&quota.limit)
    }
}

impl QuotaName {
    pub(crate) fn new(rule: &Rule, variant: &Variant, timed: &Timed) -> QuotaName {
        let of = |id| name(rule.name(), timed.part(), id);
        QuotaName { name: of(variant.id()), limit: of(variant.tier()) }
    }
}

fn name(rule: &str, part: &str, id: &str) -> String {
    // No rule's name holds one of these marks.
    let mut name = rule.to_owned();
    if !part.is_empty() {
        let _ = write!(name, "#{part}");
    }
    // What is last may hold any mark.
    if !id.is_empty() {
        let _ = write!(name, "/{id}");
    }
    name
}
