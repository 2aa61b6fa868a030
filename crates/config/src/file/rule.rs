//! `rules`: one after the other, and in the order in which they are looked at.

use tidegate_core::{Kind, Span as Time};

use super::Reading;
use super::identify::PARTS_MAX;
use super::limits::Measures;
use super::tables::{ALGORITHMS, MISSING, MODES, OUTCOME, RULE, WITHOUT_STORE};
use crate::attribute::Attribute;
use crate::matcher::Matcher;
use crate::misread::quoted;
use crate::outcome::Outcome;
use crate::problem::Span;
use crate::quantity;
use crate::read::Fields;
use crate::rule::{Action, Limit, Missing, Rule, Unit, WithoutStore};
use crate::source::{Node, Value};
use crate::zone::Zone;

/// A rule, and where it belongs.
#[derive(Debug)]
pub(super) struct Ranked {
    pub(super) priority: u64,
    pub(super) at: Span,
    pub(super) rule: Rule,
}

/// A permit comes back by itself after this, unless the file says otherwise.
const LEASE: Time = Time::from_secs(60);

/// What says nothing where a rule has no limit.
const BESIDE_LIMIT: [&str; 19] = [
    "limit",
    "burst",
    "algorithm",
    "mode",
    "key",
    "if_missing",
    "credits",
    "time_zone",
    "lease",
    "max_wait",
    "unit",
    "cost",
    "counts_when",
    "overrides",
    "shadow",
    "enforce",
    "on_store_error",
    "headers",
    "last",
];

/// How many conditions are compared, at most, to find rules that nothing reaches.
const COMPARISONS_MAX: usize = 20_000_000;

/// The most rules of a policy: as many as a store can tell apart, with room for their changes.
const RULES_MAX: usize = 20_000;

impl Reading<'_> {
    pub(super) fn read_rules(&mut self, node: &Node) -> Vec<Ranked> {
        let Some(list) = node.list("rules", &mut self.problems) else { return Vec::new() };
        list.iter().filter_map(|one| self.read_rule(one)).collect()
    }

    /// By priority, then as they stand; with a word about those that nothing can reach.
    pub(super) fn in_order(&mut self, mut ranked: Vec<Ranked>) -> Vec<Rule> {
        ranked.sort_by_key(|it| std::cmp::Reverse(it.priority));
        let quotas: usize = ranked.iter().map(|it| it.rule.variants().len().max(1)).sum();
        if let (true, Some(last)) = (RULES_MAX < quotas, ranked.last()) {
            let message = format!("{quotas} rules, tiers and overrides are too many");
            self.problems.error(last.at, message).help(format!("at most {RULES_MAX} are kept"));
        }
        self.warn_of_unreachable(&ranked);
        let tiers = self.tiers.names.len();
        let mut rules: Vec<Rule> = ranked.into_iter().map(|it| it.rule).collect();
        for rule in &mut rules {
            if let Action::Limit(limit) = &mut rule.action
                && !limit.by_tier.is_empty()
            {
                // Tiers that the rule does not name have the quota of the default one.
                limit.by_tier.resize(tiers, limit.by_tier[0]);
                let unnamed = |it: &&mut usize| **it == usize::MAX;
                let default = limit.by_tier[0];
                limit.by_tier.iter_mut().filter(unnamed).for_each(|it| *it = default);
            }
        }
        rules
    }

    fn warn_of_unreachable(&mut self, ranked: &[Ranked]) {
        if self.problems.is_fatal() {
            // Of rules that are wrong, nobody knows what they are for.
            return;
        }
        let stops = ranked.iter().enumerate().filter(|(_, it)| it.rule.stops());
        // Enough for files that people write; a machine's ten thousand are not all compared, nor
        // are lists without end.
        let stops: Vec<(usize, &Ranked)> = stops.take(200).collect();
        let mut budget = COMPARISONS_MAX;
        for (index, later) in ranked.iter().enumerate() {
            let weight = later.rule.matcher.weight();
            let mut hides = |(at, earlier): &&(usize, &Ranked)| {
                let cost = weight.saturating_mul(earlier.rule.matcher.weight());
                if index <= *at || budget < cost {
                    return false;
                }
                budget -= cost;
                earlier.rule.matcher.covers(&later.rule.matcher)
            };
            if let Some((_, earlier)) = stops.iter().find(&mut hides) {
                let (name, by) = (&later.rule.name, &earlier.rule.name);
                let message = format!("rule `{name}` never applies: `{by}` above ends the list");
                let help = format!("move it above `{by}`, or give it a higher `priority`");
                self.problems.warn(later.at, message).help(help);
            }
        }
    }

    fn read_rule(&mut self, node: &Node) -> Option<Ranked> {
        let fields = Fields::of(node, &RULE, &mut self.problems)?;
        let name = self.read_name(&fields);
        let matcher = self.read_match(fields.get("match"));
        let priority = fields
            .get("priority")
            .and_then(|node| node.count("priority", 0..=1_000_000, &mut self.problems));
        let action = self.read_action(&fields, &matcher)?;
        let is_last = self.read_flag(&fields, "last", false);
        let rule = Rule { name: name?, matcher, action, is_last };
        Some(Ranked { priority: priority.unwrap_or(0), at: fields.at_name(), rule })
    }

    fn read_name(&mut self, fields: &Fields<'_>) -> Option<Box<str>> {
        let node = fields.required("name", &mut self.problems)?;
        let name = node.scalar("name", &mut self.problems)?;
        let is_plain = |it: char| it.is_ascii_graphic() && !"\"\\/#=".contains(it);
        if name.is_empty() || 64 < name.len() || !name.chars().all(is_plain) {
            let problem =
                self.problems.error(node.at, format!("{} cannot be a name", quoted(&name)));
            problem.help("use up to 64 letters, digits, `-`, `_` and `.`: it stands in headers");
            return None;
        }
        if self.names.contains_key(&*name) {
            let problem = self.problems.error(node.at, format!("two rules are called `{name}`"));
            problem.help("give each a name of its own: what was consumed is kept under it");
            return None;
        }
        self.names.insert((*name).into(), node.at);
        Some((*name).into())
    }

    fn read_action(&mut self, fields: &Fields<'_>, matcher: &Matcher) -> Option<Action> {
        let mut flag = |name: &'static str| match fields.get(name) {
            Some(node) => node.flag(name, &mut self.problems),
            None => Some(false),
        };
        let (unlimited, block) = (flag("unlimited"), flag("block"));
        let (unlimited, block) = (unlimited?, block?);
        if !unlimited && !block {
            return self.read_limit(fields, matcher).map(|limit| Action::Limit(Box::new(limit)));
        }
        let word = if block { "block" } else { "unlimited" };
        if let (true, true, Some(node)) = (unlimited, block, fields.get("unlimited")) {
            let problem = self.problems.error(node.at, "a rule cannot be `block` and `unlimited`");
            problem.help("leave one of them out");
        }
        // A rule that looks as if it were tried in shadow, and refuses, must not be.
        for (field, node) in BESIDE_LIMIT.into_iter().filter_map(|it| Some((it, fields.get(it)?))) {
            let message = format!("`{field}` says nothing beside `{word}`");
            self.problems.error(node.at, message).help("leave one of them out");
        }
        Some(if block { Action::Block } else { Action::Unlimited })
    }

    fn read_key(&mut self, node: &Node, matcher: &Matcher) -> Vec<Attribute> {
        let mut key = Vec::new();
        for one in node.one_or_more() {
            let Some(attribute) = self.read_attribute(one) else { continue };
            if let Attribute::Named(name) = &attribute
                && !matcher.names().any(|known| *known == **name)
            {
                let near = crate::suggest::did_you_mean(name, matcher.names());
                let help = match near {
                    Some(near) => format!("did you mean `{{{near}}}`?"),
                    None => {
                        format!("name it in the rule's `match`, as in `path: /users/{{{name}}}`")
                    }
                };
                let message = format!("no path of this rule has a segment `{{{name}}}`");
                self.problems.error(one.at, message).help(help);
            }
            key.push(attribute);
        }
        if self.size_of_all(&key).parts().last().is_some_and(|most| PARTS_MAX < *most) {
            let message = format!("a key has at most {PARTS_MAX} parts");
            self.problems.error(node.at, message).help("leave some out");
        }
        key
    }

    fn read_limit(&mut self, fields: &Fields<'_>, matcher: &Matcher) -> Option<Limit> {
        let measures = self.read_measures(fields)?;
        let key = fields.get("key").map_or(Vec::new(), |node| self.read_key(node, matcher));
        if let (true, Some(node)) = (key.is_empty() && !fields.has("key"), fields.get("if_missing"))
        {
            let problem = self.problems.warn(node.at, "`if_missing` says nothing without a `key`");
            problem.help("say whom the rule counts with `key`");
        }
        let missing = match fields.get("if_missing") {
            Some(node) => node.choice("if_missing", &MISSING, &mut self.problems)?,
            None => "together",
        };
        let missing = if missing == "skip" { Missing::Skip } else { Missing::Together };
        let limit = self.read_limit_node(fields)?;
        let (mut variants, by_tier) = self.read_by_tier(limit, fields.get("burst"), &measures)?;
        let overrides = match fields.get("overrides") {
            Some(node) => self.read_overrides(node, &key, &measures, &mut variants),
            None => crate::rule::Overrides::default(),
        };
        let cost = fields.get("cost").and_then(|node| self.read_cost(node, measures.per_cell));
        if cost.is_none() && measures.unit == Unit::Bytes {
            let problem =
                self.problems.error(fields.at_name(), "nothing says how many bytes a request has");
            problem.help("add `cost: { from: content-length }`");
        }
        Some(Limit {
            key,
            missing,
            variants,
            by_tier,
            overrides,
            cost,
            counts_when: fields.get("counts_when").and_then(|node| self.read_outcome(node)),
            enforced: self.read_enforced(fields),
            without_store: self.read_without_store(fields.get("on_store_error")),
            is_shown: self.read_flag(fields, "headers", true),
            unit: measures.unit,
        })
    }

    fn read_limit_node<'n>(&mut self, fields: &Fields<'n>) -> Option<&'n Node> {
        if !fields.has("limit") {
            let problem = self.problems.error(fields.at_name(), "the rule has no `limit`");
            problem.help("add one, as in `limit: 100/min`, or `block: true` or `unlimited: true`");
        }
        fields.get("limit")
    }

    fn read_measures(&mut self, fields: &Fields<'_>) -> Option<Measures> {
        let name = match fields.get("algorithm") {
            Some(node) => node.choice("algorithm", &ALGORITHMS, &mut self.problems)?,
            None => "token-bucket",
        };
        let mode = match fields.get("mode") {
            Some(node) => node.choice("mode", &MODES, &mut self.problems)?,
            None => "meter",
        };
        if let (false, Some(node)) = (name == "leaky-bucket", fields.get("mode")) {
            let problem = self.problems.error(node.at, format!("`{name}` has no `mode`"));
            problem.help("leave it out, or use `algorithm: leaky-bucket`");
        }
        let kind: Kind = if mode == "queue" { Kind::LeakyQueue } else { name.parse().ok()? };
        let (unit, per_cell) = self.read_unit(fields, kind);
        let only = [("time_zone", Kind::FixedWindow), ("lease", Kind::Concurrency)];
        for (field, wanted) in only.into_iter().chain([("max_wait", Kind::LeakyQueue)]) {
            if let (Some(node), true) = (fields.get(field), kind != wanted) {
                let message = format!("`{field}` says nothing for `{kind}`");
                self.problems.error(node.at, message).help(format!("it is for `{wanted}` only"));
            }
        }
        let mut duration = |field: &'static str| {
            fields.get(field).and_then(|node| self.read_duration(node, field))
        };
        let (lease, max_wait) = (duration("lease").unwrap_or(LEASE), duration("max_wait"));
        let zone = fields.get("time_zone").and_then(|node| self.read_zone(node));
        if let (true, Some(node)) = (lease == Time::from_micros(0), fields.get("lease")) {
            let problem = self.problems.error(node.at, "a lease of no time is over at once");
            problem.help("write how long a request may take, as in `30s`");
            return None;
        }
        let credits = match fields.get("credits") {
            Some(node) => Some(self.read_credits(node, kind)?),
            None => None,
        };
        Some(Measures { kind, unit, per_cell, zone, lease, max_wait, credits })
    }

    fn read_zone(&mut self, node: &Node) -> Option<Zone> {
        let name = node.text("time_zone", &mut self.problems)?;
        match Zone::named(name) {
            Ok(zone) => Some(zone),
            Err(misread) => {
                self.misread(node.at, misread);
                None
            }
        }
    }

    /// What is counted: what `unit` says, or else what the limit does.
    fn read_unit(&mut self, fields: &Fields<'_>, kind: Kind) -> (Unit, u32) {
        let usual = if kind == Kind::Concurrency { Unit::InFlight } else { Unit::Requests };
        let node = fields.get("unit");
        let word = node.and_then(|node| Some((node.text("unit", &mut self.problems)?, node.at)));
        let Some((word, at)) = word else {
            let named = fields.get("limit").and_then(unit_of);
            return (named.map_or(usual, |name| Unit::Named(name.into())), 1);
        };
        match Some(word) {
            None | Some("requests") => (usual, 1),
            Some("B" | "bytes") => (Unit::Bytes, 1),
            Some("kB") => (Unit::Bytes, 1_000),
            Some("KiB") => (Unit::Bytes, 1_024),
            Some("MB") => (Unit::Bytes, 1_000_000),
            Some("MiB") => (Unit::Bytes, 1 << 20),
            Some(word) => {
                if let Err(misread) = quantity::unit_name(word) {
                    self.misread(at, misread);
                }
                (Unit::Named(word.into()), 1)
            }
        }
    }

    fn read_outcome(&mut self, node: &Node) -> Option<Outcome> {
        let fields = Fields::of(node, &OUTCOME, &mut self.problems)?;
        let mut outcome = Outcome::default();
        for one in fields.get("status").map_or(&[][..], Node::one_or_more) {
            let Some(text) = one.scalar("status", &mut self.problems) else { continue };
            if let Some(range) = statuses(&text) {
                outcome.status.push(range);
                continue;
            }
            let message = format!("{} is not a status", quoted(&text));
            let problem = self.problems.error(one.at, message);
            problem.help("write one such as `401`, `5xx` or `400-499`");
        }
        let headers = fields.get("header").and_then(|node| node.map("header", &mut self.problems));
        for entry in headers.unwrap_or_default() {
            let like = self.read_filled(&entry.node).iter();
            let like = like.filter_map(|one| one.scalar(&entry.name, &mut self.problems));
            let like = like.map(|text| crate::glob::Glob::new(&text)).collect();
            outcome.headers.push((entry.name.to_ascii_lowercase().into(), like));
        }
        outcome.not = fields.get("not").and_then(|node| self.read_outcome(node)).map(Box::new);
        if fields.is_empty() {
            self.problems.error(node.at, "an empty condition says nothing").help("leave it out");
        }
        Some(outcome)
    }

    fn read_enforced(&mut self, fields: &Fields<'_>) -> u16 {
        if self.read_flag(fields, "shadow", false) {
            if let Some(node) = fields.get("enforce") {
                let problem = self.problems.error(node.at, "a rule in shadow is not enforced");
                problem.help("leave `shadow` out: `enforce: 0%` is the same");
            }
            return 0;
        }
        let Some(node) = fields.get("enforce") else { return 10_000 };
        let Some(text) = node.scalar("enforce", &mut self.problems) else { return 10_000 };
        match quantity::share(&text) {
            Ok(share) => share,
            Err(misread) => {
                self.misread(node.at, misread);
                10_000
            }
        }
    }

    fn read_without_store(&mut self, node: Option<&Node>) -> WithoutStore {
        let choice =
            |node: &Node| node.choice("on_store_error", &WITHOUT_STORE, &mut self.problems);
        match node.and_then(choice).or(self.defaults.without_store) {
            Some("open") => WithoutStore::Open,
            Some("closed") => WithoutStore::Closed,
            _ => WithoutStore::Local { nodes: self.defaults.nodes },
        }
    }

    fn read_flag(&mut self, fields: &Fields<'_>, name: &'static str, usual: bool) -> bool {
        let flag = fields.get(name).and_then(|node| node.flag(name, &mut self.problems));
        flag.unwrap_or(usual)
    }
}

/// `401`, `5xx` or `400-499`.
fn statuses(text: &str) -> Option<(u16, u16)> {
    let number = |text: &str| text.trim().parse().ok().filter(|it| (100..=599).contains(it));
    if let Some(hundreds) = text.strip_suffix("xx") {
        let from = number(&format!("{hundreds}00"))?;
        return Some((from, from + 99));
    }
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (number(from)?, number(to)?);
    (from <= to).then_some((from, to))
}

/// What a limit says is counted, if it is neither requests nor bytes: the first that does.
fn unit_of(node: &Node) -> Option<String> {
    let limit = match &node.value {
        Value::Map(entries) => return entries.iter().find_map(|entry| unit_of(&entry.node)),
        Value::Text(text) => quantity::limit(text).ok()?,
        _ => return None,
    };
    match limit {
        quantity::Limit::Rate { amount: quantity::Amount { unit, .. }, .. } => match unit {
            quantity::Unit::Named(name) => Some(name),
            quantity::Unit::Bytes | quantity::Unit::Requests => None,
        },
        _ => None,
    }
}

/// Whether a value is a list of tiers.
pub(super) fn is_map(node: &Node) -> bool {
    matches!(node.value, Value::Map(_))
}
