//! Warns of what clients say of themselves: a key, a tier or a quota that anybody can choose is no
//! limit, unless a rule for the same requests counts by address.

use tidegate_core::Kind;

use super::Reading;
use super::rule::{ENFORCED_FOR_ALL, Ranked};
use crate::attribute::Attribute;
use crate::cost::Cost;
use crate::lint::Lint;
use crate::matcher::Matcher;
use crate::problem::Span;
use crate::rule::{Limit, Quotas, Variant};

/// How many conditions are compared, at most.
const COMPARISONS_MAX: usize = 5_000_000;
/// How many rules that count by address are looked at.
const CEILINGS_MAX: usize = 100;

/// Headers in which proxies write addresses, and everybody else as well.
const ADDRESSES: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];

/// What a client can choose under a rule.
struct Choice {
    lint: Lint,
    message: String,
    help: &'static str,
}

impl Reading<'_> {
    /// Complains of an address that anybody can write.
    pub(super) fn check_identity(&mut self, attribute: &Attribute, at: Span) {
        let Attribute::Header(name) = attribute else { return };
        if ADDRESSES.contains(&&**name) {
            let message = format!("`{attribute}` is nobody's address: every client can write it");
            let problem = self.problems.error(at, message);
            problem.help("use `ip`, and name your proxies in `trusted_proxies` under `identify`");
        }
    }

    pub(super) fn warn_of_unverified(&mut self, ranked: &[Ranked]) {
        if self.problems.is_fatal() {
            return;
        }
        let ceilings = ranked.iter().enumerate().filter(|(_, it)| self.is_ceiling(it));
        let ceilings: Vec<(usize, &Matcher)> =
            ceilings.take(CEILINGS_MAX).map(|(at, it)| (at, &it.rule.matcher)).collect();
        let mut budget = COMPARISONS_MAX;
        for (at, Ranked { at: place, allowed, rule, .. }) in ranked.iter().enumerate() {
            let Some(limit) = rule.limit().filter(|limit| 0 < limit.enforced) else { continue };
            let choices = self.choices(&rule.name, limit);
            if choices.is_empty() {
                continue;
            }
            let weight = rule.matcher.weight();
            let is_counted = ceilings.iter().any(|(other, matcher)| {
                let cost = weight.saturating_mul(matcher.weight());
                // Also where it stops only those that have its key: they are who chooses.
                if budget < cost || (at < *other && (rule.is_last || rule.stops())) {
                    return false;
                }
                budget -= cost;
                matcher.covers(&rule.matcher)
            });
            if is_counted {
                continue;
            }
            for Choice { lint, message, help } in choices {
                let is_allowed = allowed.has(lint);
                self.problems.lint_unless(is_allowed, lint, *place, message).help(help);
            }
        }
    }

    fn choices(&self, name: &str, limit: &Limit) -> Vec<Choice> {
        let mut choices = Vec::new();
        let mut add = |lint, message, help| choices.push(Choice { lint, message, help });
        if let Some(chosen) = limit.key.iter().find_map(|it| self.chosen(it)) {
            let message = format!("`{name}` counts by {chosen}, which every client can choose");
            let help = "count by `api-key` or a claim, or add a rule with `key: ip` for these";
            add(Lint::UnverifiedKey, message, help);
        }
        let said = self.tiers.from.iter().find_map(|it| self.chosen(it));
        if let Some(chosen) = said.filter(|_| 1 < limit.by_tier.len()) {
            let message = format!("`{name}` believes the tier that {chosen} says");
            let help = "take it from `api-key:tier` or a claim, or add a rule with `key: ip`";
            add(Lint::UnverifiedTier, message, help);
        }
        let is_unlimited = |variant: usize| {
            limit.variants.get(variant).is_some_and(|it| matches!(it.quota, Quotas::Unlimited))
        };
        let overridden = limit.overrides.all().filter(|known| is_unlimited(known.variant));
        let chosen = overridden.flat_map(|known| &known.sources).filter_map(|it| self.chosen(it));
        // They are kept in no order, and a message is always the same.
        if let Some(chosen) = chosen.map(|it| it.to_string()).min() {
            let message = format!("`{name}` has no limit for whoever says so in {chosen}");
            let help = "give this quota to an `api-key` or a claim, or add a rule with `key: ip`";
            add(Lint::UnverifiedQuota, message, help);
        }
        choices
    }

    /// What of an attribute a client can choose: the attribute, or what it is made of.
    fn chosen(&self, attribute: &Attribute) -> Option<Attribute> {
        match attribute {
            Attribute::Cookie(_) | Attribute::Header(_) | Attribute::Query(_) => {
                Some(attribute.clone())
            }
            Attribute::Identity(index) => {
                let made_of = self.made_of.get(*index).into_iter().flatten().flatten();
                made_of.into_iter().find_map(|it| self.chosen(it))
            }
            _ => None,
        }
    }

    /// Whether a rule counts by address, or by what was verified and otherwise by address, and
    /// counts each request: not some of them, and none for nothing.
    fn is_ceiling(&self, ranked: &Ranked) -> bool {
        let Some(limit) = ranked.rule.limit() else { return false };
        // Those in flight are counted by how many there are at a time, and not how often.
        let is_judged = |it: &Variant| {
            let mut policies = it.policies().iter();
            matches!(it.quota, Quotas::Judged(_))
                && policies.all(|timed| timed.kind() != Kind::Concurrency)
        };
        let has_key = |it: &Attribute| !limit.may_be_skipped() || self.ends_with_address(it);
        limit.enforced == ENFORCED_FOR_ALL
            && limit.overrides.all().next().is_none()
            && limit.variants.iter().all(is_judged)
            && limit.counts_when.is_none()
            && limit.cost.as_ref().is_none_or(Cost::is_positive)
            && limit.key.iter().all(|it| self.is_fixed(it) && has_key(it))
            && limit.key.iter().any(|it| self.ends_with_address(it))
    }

    /// Whether no client can choose it.
    fn is_fixed(&self, attribute: &Attribute) -> bool {
        match attribute {
            Attribute::ApiKey
            | Attribute::ApiKeyOwner(_)
            | Attribute::Claim(_)
            | Attribute::Given(_)
            | Attribute::Ip
            | Attribute::Ip6(_) => true,
            Attribute::Identity(index) => {
                let made_of = self.made_of.get(*index).into_iter().flatten().flatten();
                made_of.into_iter().all(|it| self.is_fixed(it))
            }
            _ => false,
        }
    }

    /// Whether it is the address of those who have nothing else.
    fn ends_with_address(&self, attribute: &Attribute) -> bool {
        match attribute {
            Attribute::Ip | Attribute::Ip6(_) => true,
            Attribute::Identity(index) => {
                let last = self.made_of.get(*index).and_then(|it| it.last());
                matches!(last.map(Vec::as_slice), Some([only]) if self.ends_with_address(only))
            }
            _ => false,
        }
    }
}
