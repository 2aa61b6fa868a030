//! Quotas by tier, and those of single keys.

use super::Reading;
use super::limits::Measures;
use super::rule::is_map;
use super::tables::OVERRIDE;
use crate::attribute::Attribute;
use crate::problem::Span;
use crate::read::Fields;
use crate::rule::{Overrides, Quotas, Variant};
use crate::source::{Entry, Node};

impl Reading<'_> {
    /// One quota for all, or one for each tier; and which is for which tier.
    pub(super) fn read_by_tier(
        &mut self,
        limit: &Node,
        burst: Option<&Node>,
        measures: &Measures,
    ) -> Option<(Vec<Variant>, Vec<usize>)> {
        if !is_map(limit) {
            if let Some(burst) = burst.filter(|burst| is_map(burst)) {
                let problem =
                    self.problems.error(burst.at, "a burst by tier needs a limit by tier");
                problem.help("write `limit: { free: 100/min, … }` as well");
                return None;
            }
            let quota = self.read_quota(limit, burst, measures)?;
            return Some((vec![Variant { id: "".into(), quota }], Vec::new()));
        }
        let entries = limit.map("limit", &mut self.problems)?;
        let mut variants = Vec::new();
        let mut by_tier = Vec::new();
        for entry in entries {
            let tier = self.tier(&entry.name, entry.name_at);
            let burst = burst.and_then(|burst| of_tier(burst, &entry.name));
            // What is wrong with one of them has been said; there are no rules in the end.
            let quota = self.read_quota(&entry.node, burst, measures);
            let quota = quota.unwrap_or(Quotas::Block);
            if by_tier.len() <= tier {
                by_tier.resize(tier + 1, usize::MAX);
            }
            by_tier[tier] = variants.len();
            variants.push(Variant { id: (*entry.name).into(), quota });
        }
        if let Some(burst) = burst.filter(|burst| is_map(burst)) {
            self.check_tiers_of(burst, entries);
        }
        // Whatever a request says of itself, there is a quota for it.
        if by_tier.first().is_none_or(|first| *first == usize::MAX) {
            let name = self.tiers.names.first().map_or("", |name| name).to_owned();
            let message = format!("there is no limit for the default tier `{name}`");
            self.problems
                .error(limit.at, message)
                .help("add one: it also counts for unknown tiers");
            return None;
        }
        Some((variants, by_tier))
    }

    fn check_tiers_of(&mut self, burst: &Node, limits: &[Entry]) {
        for entry in burst.map("burst", &mut self.problems).unwrap_or_default() {
            if !limits.iter().any(|limit| limit.name == entry.name) {
                let message = format!("there is a burst for `{}`, but no limit", entry.name);
                self.problems.error(entry.name_at, message).help("add one under `limit`");
            }
        }
    }

    /// `acme: 5000/min`, or a list with the parts of the key.
    pub(super) fn read_overrides(
        &mut self,
        node: &Node,
        key: &[Attribute],
        measures: &Measures,
        variants: &mut Vec<Variant>,
    ) -> Overrides {
        let mut overrides = Overrides::default();
        if key.is_empty() {
            let problem = self.problems.error(node.at, "a rule without a key has no single keys");
            problem.help("say whom it counts with `key`");
            return overrides;
        }
        if is_map(node) {
            for entry in node.map("overrides", &mut self.problems).unwrap_or_default() {
                let quota = self.read_quota(&entry.node, None, measures);
                let values = [entry.name.clone()];
                let Some(quota) = quota else { continue };
                self.override_one(&mut overrides, (&values, entry.name_at), key, variants, quota);
            }
            return overrides;
        }
        for one in node.list("overrides", &mut self.problems).unwrap_or_default() {
            let Some(fields) = Fields::of(one, &OVERRIDE, &mut self.problems) else { continue };
            let named = fields.required("key", &mut self.problems);
            let limit = fields.required("limit", &mut self.problems);
            let (Some(named), Some(limit)) = (named, limit) else { continue };
            let values = named.one_or_more().iter();
            let values: Vec<String> = values
                .filter_map(|value| Some(value.scalar("key", &mut self.problems)?.into_owned()))
                .collect();
            let quota = self.read_quota(limit, fields.get("burst"), measures);
            let Some(quota) = quota else { continue };
            self.override_one(&mut overrides, (&values, named.at), key, variants, quota);
        }
        overrides
    }

    fn override_one(
        &mut self,
        overrides: &mut Overrides,
        (values, at): (&[String], Span),
        key: &[Attribute],
        variants: &mut Vec<Variant>,
        quota: crate::rule::Quotas,
    ) {
        if values.len() != key.len() {
            let message = format!("the key has {} parts, not {}", key.len(), values.len());
            let problem = self.problems.error(at, message);
            problem.help("write `- { key: [first, second], limit: 5000/min }`");
            return;
        }
        let known = Overrides::key(values.iter().map(String::as_str));
        let id = format!("={}", joined(values));
        let variant = Variant { id: id.into(), quota };
        if overrides.by_key.insert(known, variants.len()).is_some() {
            let message = format!("`{}` has an override already", values.join(" "));
            self.problems.error(at, message).help("leave one of them out");
        }
        variants.push(variant);
    }
}

/// The values as one text; several are kept apart.
fn joined(values: &[String]) -> String {
    let apart = |value: &String| value.replace('\\', "\\\\").replace(' ', "\\ ");
    match values {
        [only] => only.clone(),
        several => several.iter().map(apart).collect::<Vec<_>>().join(" "),
    }
}

/// What is said for a tier: the same for all, or its own.
fn of_tier<'n>(node: &'n Node, tier: &str) -> Option<&'n Node> {
    match &node.value {
        crate::source::Value::Map(entries) => {
            entries.iter().find(|entry| entry.name == tier).map(|entry| &entry.node)
        }
        _ => Some(node),
    }
}
