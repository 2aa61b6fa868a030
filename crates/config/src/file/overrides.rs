//! Quotas by tier, and those of single keys.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ipnet::IpNet;

use super::Reading;
use super::limits::{Measures, written};
use super::rule::is_map;
use super::tables::OVERRIDE;
use super::tiers::TIERS_MAX;
use super::ways::{NamedKey, WAYS_MAX, Way};
use crate::attribute::Attribute;
use crate::lint::Lint;
use crate::misread::quoted;
use crate::overrides::Overrides;
use crate::problem::Span;
use crate::read::Fields;
use crate::rule::{Quotas, Variant};
use crate::source::{Entry, Node};
use crate::suggest::did_you_mean;

impl Reading<'_> {
    /// One quota for all, or one for each tier; and which is for which tier.
    pub(super) fn read_by_tier(
        &mut self,
        limit: &Node,
        burst: Option<&Node>,
        measures: &Measures,
    ) -> Option<(Vec<Variant>, Vec<usize>)> {
        if let Some(burst) = burst.filter(|burst| !is_map(burst)) {
            // Once, though it counts for each tier.
            self.read_burst(burst, measures.kind)?;
        }
        if !is_map(limit) {
            if let Some(burst) = burst.filter(|burst| is_map(burst)) {
                let problem =
                    self.problems.error(burst.at, "a burst by tier needs a limit by tier");
                problem.help("write `limit: { free: 100/min, … }` as well");
                return None;
            }
            if let (Some(burst), "unlimited" | "block") = (burst, limit.plain_text().trim()) {
                let problem = self.problems.error(burst.at, "there is no burst without a rate");
                problem.help("leave it out");
                return None;
            }
            let quota = self.read_quota(limit, burst, measures)?;
            let written = written(limit, burst, measures);
            return Some((vec![Variant { id: "".into(), quota, written }], Vec::new()));
        }
        let entries = limit.map("limit", &mut self.problems)?;
        if entries.is_empty() {
            let problem = self.problems.error(limit.at, "there is a limit for no tier");
            problem.help("write one, as in `100/min`, or one for each tier");
            return None;
        }
        // One more than there can be is enough to say so.
        let entries = entries.get(..=TIERS_MAX).unwrap_or(entries);
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
            let written = written(&entry.node, burst, measures);
            variants.push(Variant { id: (*entry.name).into(), quota, written });
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
        let Some(ways) = self.ways(key) else {
            let message = format!("the key can be made of its parts in more than {WAYS_MAX} ways");
            let problem = self.problems.error(node.at, message);
            problem.help("give single clients a rule of their own");
            return overrides;
        };
        if is_map(node) {
            for entry in node.map("overrides", &mut self.problems).unwrap_or_default() {
                let quota = self.read_quota(&entry.node, None, measures);
                let values = [entry.name.clone()];
                let Some(quota) = quota else { continue };
                let own = (quota, written(&entry.node, None, measures));
                self.override_one(&mut overrides, (&values, entry.name_at), &ways, variants, own);
            }
            return overrides;
        }
        if !matches!(node.value, crate::source::Value::List(_)) {
            let message = format!("`overrides` takes a map or a list, not {}", node.found());
            self.problems.error(node.at, message).help("write `{ acme: 5000/min }`");
        }
        for one in node.one_or_more().iter().filter(|one| !std::ptr::eq(*one, node)) {
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
            let own = (quota, written(limit, fields.get("burst"), measures));
            self.override_one(&mut overrides, (&values, named.at), &ways, variants, own);
        }
        overrides
    }

    fn override_one(
        &mut self,
        overrides: &mut Overrides,
        (values, at): (&[String], Span),
        ways: &[Way],
        variants: &mut Vec<Variant>,
        (quota, written): (Quotas, Box<str>),
    ) {
        let fitting: Vec<&Way> = ways.iter().filter(|way| way.len() == values.len()).collect();
        if fitting.is_empty() {
            return self.wrong_number_of_parts(ways, values.len(), at);
        }
        if let Some(source) = self.source_of_no_part(ways, values) {
            return self.no_part_is_from(&source, ways, at);
        }
        let keys = self.keys_named(&fitting, values);
        if keys.is_empty() {
            return self.nobody_has(values, at);
        }
        self.warn_of_doubt(&keys, values, at);
        for (sources, values) in &keys {
            if !overrides.add(sources, values, variants.len()) {
                let message = format!("{} has an override already", quoted(&values.join(" ")));
                self.problems.error(at, message).help("leave one of them out");
                return;
            }
        }
        variants.push(Variant { id: id_of(values).into(), quota, written });
    }

    /// A source that a value names, as in `header:x-api-key=k1`, and no part of the key is from.
    fn source_of_no_part(&self, ways: &[Way], values: &[String]) -> Option<String> {
        values.iter().find_map(|value| {
            let (source, _) = value.split_once('=').filter(|(source, _)| source.contains(':'))?;
            let named = Attribute::parse(source, &self.identities).ok()?;
            (!ways.iter().flatten().any(|known| *known == named)).then(|| source.to_owned())
        })
    }

    fn no_part_is_from(&mut self, source: &str, ways: &[Way], at: Span) {
        let sources: BTreeSet<String> =
            ways.iter().flatten().map(ToString::to_string).take(8).collect();
        let near = did_you_mean(source, sources.iter().map(String::as_str));
        let all = || sources.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let help = near.map_or_else(
            || format!("write where it is from: {}", all()),
            |near| format!("did you mean `{near}`?"),
        );
        let message = format!("no part of the key is from {}", quoted(source));
        self.problems.error(at, message).help(help);
    }

    fn wrong_number_of_parts(&mut self, ways: &[Way], found: usize, at: Span) {
        let counts: BTreeSet<usize> = ways.iter().map(Vec::len).collect();
        let counts: Vec<String> = counts.iter().map(ToString::to_string).collect();
        let parts = if counts == ["1"] { "part" } else { "parts" };
        let message = format!("the key has {} {parts}, not {found}", counts.join(" or "));
        let problem = self.problems.error(at, message);
        problem.help("write `- { key: [first, second], limit: 5000/min }`");
    }

    fn nobody_has(&mut self, values: &[String], at: Span) {
        let message = format!("nobody can have the key {}", quoted(&values.join(" ")));
        let problem = self.problems.error(at, message);
        let network = values.iter().find(|value| value.parse::<IpNet>().is_ok());
        problem.help(match network {
            Some(network) => format!(
                "an override is for one client: for a network, write a rule with \
                 `match: {{ ip: {network} }}`"
            ),
            None => "where the key is an address, write one".to_owned(),
        });
    }

    /// A name that an application vouches for may be sent by anybody in a header that may also be
    /// the key.
    fn warn_of_doubt(&mut self, keys: &[NamedKey], values: &[String], at: Span) {
        for (place, value) in values.iter().enumerate() {
            let mut sources = keys.iter().filter_map(|(way, _)| way.get(place));
            let sure = sources.clone().find(|it| is_vouched_for(it));
            let unsure = sources.find(|it| !is_vouched_for(it));
            if let (Some(sure), Some(unsure)) = (sure, unsure) {
                let value = crate::problem::shortened(value);
                let message =
                    format!("`{value}` may also be from {unsure}, which anybody can send");
                let problem = self.problems.lint(Lint::AmbiguousOverride, at, message);
                problem.help(format!("write `{sure}={value}` if that is who you mean"));
                return;
            }
        }
    }
}

fn is_vouched_for(source: &Attribute) -> bool {
    matches!(
        source,
        Attribute::ApiKey
            | Attribute::ApiKeyOwner(_)
            | Attribute::Claim(_)
            | Attribute::Given(_)
            | Attribute::Ip
            | Attribute::Ip6(_)
    )
}

/// Tells the override from others: no two lists of values have the same.
fn id_of(values: &[String]) -> String {
    let mut id = String::from("=");
    for (number, value) in values.iter().enumerate() {
        if 0 < number {
            id.push(' ');
        }
        for letter in value.chars() {
            if letter.is_whitespace() || letter.is_control() || "%#".contains(letter) {
                let _ = write!(id, "%{:02X}", u32::from(letter));
            } else {
                id.push(letter);
            }
        }
    }
    id
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
