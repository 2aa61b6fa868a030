//! `rules`: one after the other, and in the order in which they are looked at.

use tidegate_core::{Kind, Span as Time};

use super::Reading;
use super::limits::Measures;
use super::tables::{ALGORITHMS, MISSING, MODES, OUTCOME, RULE, WITHOUT_STORE};
use crate::attribute::Attribute;
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
        let stops = ranked.iter().enumerate().filter(|(_, it)| it.rule.stops());
        // Enough for files that people write; a machine's ten thousand are not all compared.
        let stops: Vec<(usize, &Ranked)> = stops.take(200).collect();
        for (index, later) in ranked.iter().enumerate() {
            let hides = |(at, earlier): &&(usize, &Ranked)| {
                *at < index && earlier.rule.matcher.covers(&later.rule.matcher)
            };
            if let Some((_, earlier)) = stops.iter().find(hides) {
                let (name, by) = (&later.rule.name, &earlier.rule.name);
                let message = format!("rule `{name}` never applies: `{by}` above ends the list");
                let help = format!("move it above `{by}`, or give it a higher `priority`");
                self.problems.warn(later.at, message).help(help);
            }
        }
    }

    fn read_rule(&mut self, node: &Node) -> Option<Ranked> {
        let fields = Fields::of(node, &RULE, &mut self.problems)?;
        let name = self.read_name(&fields)?;
        let matcher = self.read_match(fields.get("match"));
        let priority = fields
            .get("priority")
            .and_then(|node| node.count("priority", 0..=1_000_000, &mut self.problems));
        let action = self.read_action(&fields, &name)?;
        let is_last = self.read_flag(&fields, "last", false);
        let rule = Rule { name, matcher, action, is_last };
        Some(Ranked { priority: priority.unwrap_or(0), at: fields.at_name(), rule })
    }

    fn read_name(&mut self, fields: &Fields<'_>) -> Option<Box<str>> {
        let node = fields.required("name", &mut self.problems)?;
        let name = node.scalar("name", &mut self.problems)?;
        let is_plain = |it: char| it.is_ascii_graphic() && !"\"\\/#=".contains(it);
        if name.is_empty() || 64 < name.len() || !name.chars().all(is_plain) {
            let problem = self.problems.error(node.at, format!("`{name}` cannot be a name"));
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

    fn read_action(&mut self, fields: &Fields<'_>, name: &str) -> Option<Action> {
        let unlimited = self.read_flag(fields, "unlimited", false);
        let block = self.read_flag(fields, "block", false);
        if !unlimited && !block {
            return self.read_limit(fields).map(|limit| Action::Limit(Box::new(limit)));
        }
        let beside = ["limit", "burst", "algorithm", "key", "credits", "overrides", "cost"];
        for other in beside.into_iter().filter_map(|field| Some((field, fields.get(field)?))) {
            let word = if block { "block" } else { "unlimited" };
            let message = format!("`{}` says nothing beside `{word}` in rule `{name}`", other.0);
            self.problems.error(other.1.at, message).help("leave one of them out");
        }
        Some(if block { Action::Block } else { Action::Unlimited })
    }

    fn read_limit(&mut self, fields: &Fields<'_>) -> Option<Limit> {
        let measures = self.read_measures(fields)?;
        let key = fields.get("key").map_or(&[][..], Node::one_or_more).iter();
        let key: Vec<Attribute> = key.filter_map(|one| self.read_attribute(one)).collect();
        let missing = match fields.get("if_missing") {
            Some(node) => node.choice("if_missing", &MISSING, &mut self.problems)?,
            None => "together",
        };
        let missing = if missing == "skip" { Missing::Skip } else { Missing::Together };
        let limit = fields.required("limit", &mut self.problems)?;
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
        let (unit, per_cell) = self.read_unit(fields.get("unit"), kind);
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
        let credits = fields.get("credits").and_then(|node| self.read_credits(node, kind));
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

    fn read_unit(&mut self, node: Option<&Node>, kind: Kind) -> (Unit, u32) {
        let usual = if kind == Kind::Concurrency { Unit::InFlight } else { Unit::Requests };
        let word = node.and_then(|node| node.text("unit", &mut self.problems));
        match word {
            None | Some("requests") => (usual, 1),
            Some("B" | "bytes") => (Unit::Bytes, 1),
            Some("kB") => (Unit::Bytes, 1_000),
            Some("KiB") => (Unit::Bytes, 1_024),
            Some("MB") => (Unit::Bytes, 1_000_000),
            Some("MiB") => (Unit::Bytes, 1 << 20),
            Some(word) => (Unit::Named(word.into()), 1),
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
            let problem = self.problems.error(one.at, format!("`{text}` is no status"));
            problem.help("write one such as `401`, `5xx` or `400-499`");
        }
        let headers = fields.get("header").and_then(|node| node.map("header", &mut self.problems));
        for entry in headers.unwrap_or_default() {
            let like = entry.node.one_or_more().iter();
            let like = like.filter_map(|one| one.scalar(&entry.name, &mut self.problems));
            let like = like.map(|text| crate::glob::Glob::new(&text)).collect();
            outcome.headers.push((entry.name.to_ascii_lowercase().into(), like));
        }
        outcome.not = fields.get("not").and_then(|node| self.read_outcome(node)).map(Box::new);
        if outcome == Outcome::default() {
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

/// Whether a value is a list of tiers.
pub(super) fn is_map(node: &Node) -> bool {
    matches!(node.value, Value::Map(_))
}
