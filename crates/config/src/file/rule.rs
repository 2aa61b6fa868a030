//! `rules`: one after the other, and in the order in which they are looked at.

use super::Reading;
use super::identify::PARTS_MAX;
use super::tables::{MISSING, RULE, WITHOUT_STORE};
use crate::attribute::Attribute;
use crate::cost::Cost;
use crate::key::KeySource;
use crate::lint::{Allowed, Lint};
use crate::matcher::Matcher;
use crate::misread::{Misread, quoted};
use crate::problem::Span;
use crate::quantity;
use crate::read::Fields;
use tidegate_core::WithoutStore;

use crate::rule::{Action, Limit, Missing, Rule, Unit, Variant};
use crate::rules::Rules;
use crate::source::{Node, Value};
use crate::suggest::did_you_mean;

/// A rule, and where it belongs.
#[derive(Debug)]
pub(super) struct Ranked {
    pub(super) priority: u64,
    pub(super) at: Span,
    /// What it allows.
    pub(super) allowed: Allowed,
    pub(super) rule: Rule,
}

/// What says nothing where a rule has no limit.
const BESIDE_LIMIT: [&str; 20] = [
    "limit",
    "burst",
    "algorithm",
    "mode",
    "key",
    "if_missing",
    "credits",
    "adaptive",
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

/// In ten thousandths of the keys.
pub(super) const ENFORCED_FOR_ALL: u16 = 10_000;

/// How many conditions are compared, at most, to find rules that nothing reaches.
const COMPARISONS_MAX: usize = 20_000_000;

/// The most rules of a policy: as many as a store can tell apart, with room for their changes.
const RULES_MAX: usize = 20_000;

impl Reading<'_> {
    pub(super) fn read_rules(&mut self, node: &Node) -> Vec<Ranked> {
        let Some(list) = node.list("rules", &mut self.problems) else { return Vec::new() };
        let rules = list.iter().filter_map(|one| self.read_rule(one)).collect();
        self.problems.allow_here(Allowed::default());
        rules
    }

    /// By priority, then as they stand; with a word about those that nothing can reach.
    pub(super) fn in_order(
        &mut self,
        mut ranked: Vec<Ranked>,
        costs: &[(Matcher, Cost)],
    ) -> Vec<Rule> {
        ranked.sort_by_key(|it| std::cmp::Reverse(it.priority));
        let quotas: usize = ranked.iter().map(|it| it.rule.variants().len().max(1)).sum();
        if let (true, Some(last)) = (RULES_MAX < quotas, ranked.last()) {
            let message = format!("{quotas} rules, tiers and overrides are too many");
            self.problems.error(last.at, message).help(format!("at most {RULES_MAX} are kept"));
        }
        self.check_names(&ranked);
        self.check_limits(&ranked);
        self.warn_of_unreachable(&ranked);
        self.warn_of_unverified(&ranked);
        self.warn_of_useless(&ranked, costs);
        self.warn_of_unpayable(&ranked, costs);
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

    /// Complains of a rule that has the name of another's second limit: clients see both.
    fn check_names(&mut self, ranked: &[Ranked]) {
        for rule in ranked.iter().map(|it| &it.rule) {
            let Some(second) = rule.second_name() else { continue };
            if let Some(at) = self.names.get(&*second) {
                let message = format!("`{second}` is the second limit of `{}`", rule.name);
                let problem = self.problems.error(*at, message);
                problem.help("choose another name: a rule with `credits` has two limits");
            }
        }
    }

    /// Complains of more limits than are judged together, where they are for every request: all
    /// would be refused.
    fn check_limits(&mut self, ranked: &[Ranked]) {
        if self.problems.is_fatal() {
            return;
        }
        let mut limits = 0;
        for Ranked { at, rule, .. } in ranked {
            if !rule.matcher.covers(&Matcher::everything()) {
                continue;
            }
            limits += limits_for_all(rule);
            if Rules::LIMITS_MAX < limits {
                let message = format!("rule `{}` is one too many: nothing would pass", rule.name);
                self.problems.error(*at, message).help(format!(
                    "at most {} limits are for one request, and `credits` are two: give some \
                     rules a `match`, or `last: true`",
                    Rules::LIMITS_MAX
                ));
                return;
            }
            if rule.stops() {
                return;
            }
        }
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
                let is_allowed = later.allowed.has(Lint::UnreachableRule);
                let problem =
                    self.problems.lint_unless(is_allowed, Lint::UnreachableRule, later.at, message);
                problem.help(help);
            }
        }
    }

    fn read_rule(&mut self, node: &Node) -> Option<Ranked> {
        let fields = Fields::of(node, &RULE, &mut self.problems)?;
        let allowed = self.read_allowed(fields.get("allow"));
        self.problems.allow_here(allowed.clone());
        let name = self.read_name(&fields);
        let matcher = self.read_match(fields.get("match"));
        let priority = fields
            .get("priority")
            .and_then(|node| node.count("priority", 0..=1_000_000, &mut self.problems));
        let action = self.read_action(&fields, &matcher)?;
        let is_last = self.read_flag(&fields, "last", false);
        let rule = Rule::new(name?, matcher, action, is_last);
        if rule.limit().is_some_and(Limit::needs_response) {
            self.note_response(format!("rule `{}`", rule.name), fields.at_name());
        }
        let priority = priority.unwrap_or(0);
        Some(Ranked { priority, at: fields.at_name(), allowed, rule })
    }

    fn read_name(&mut self, fields: &Fields<'_>) -> Option<Box<str>> {
        let node = fields.required("name", &mut self.problems)?;
        let name = self.read_plain_name(node)?;
        if self.names.contains_key(&*name) {
            let problem = self.problems.error(node.at, format!("two rules are called `{name}`"));
            problem.help("give each a name of its own: what was consumed is kept under it");
            return None;
        }
        self.names.insert(name.clone(), node.at);
        Some(name)
    }

    /// A name that can stand anywhere.
    pub(super) fn read_plain_name(&mut self, node: &Node) -> Option<Box<str>> {
        let name = node.scalar("name", &mut self.problems)?;
        let is_plain = |it: char| it.is_ascii_graphic() && !"\"\\/#=".contains(it);
        if name.is_empty() || 64 < name.len() || !name.chars().all(is_plain) {
            let problem =
                self.problems.error(node.at, format!("{} cannot be a name", quoted(&name)));
            problem.help("use up to 64 letters, digits, `-`, `_` and `.`: it stands in headers");
            return None;
        }
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

    pub(super) fn read_key(&mut self, node: &Node, matcher: &Matcher) -> Vec<Attribute> {
        let mut key = Vec::new();
        for one in self.read_together(node) {
            let Some(attribute) = self.read_attribute(one) else { continue };
            self.check_identity(&attribute, one.at);
            if let Attribute::Named(name) = &attribute
                && !matcher.names().any(|known| *known == **name)
            {
                self.problems.misread(one.at, || unnamed(name, matcher));
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
            let message = "`if_missing` says nothing without a `key`";
            let problem = self.problems.lint(Lint::UselessIfMissing, node.at, message);
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
            None => crate::overrides::Overrides::default(),
        };
        let enforced = self.read_enforced(fields);
        if enforced < ENFORCED_FOR_ALL && variants.iter().any(Variant::blocks) {
            let message = "a block is not tried: in shadow it does nothing";
            let problem = self.problems.lint(Lint::BlockInShadow, fields.at_name(), message);
            problem.help("to see whom it would meet, try the smallest limit: `1 per 365d`");
        }
        let cost = fields.get("cost").and_then(|node| self.read_cost(node, measures.per_cell));
        if cost.is_none() && matches!(measures.unit, Unit::Bytes(_)) {
            let problem =
                self.problems.error(fields.at_name(), "nothing says how many bytes a request has");
            problem.help(
                "add `cost: { from: content-length }`: who does not say how long a body is pays \
                 for the largest",
            );
        }
        Some(Limit {
            key,
            source: KeySource::OF_ITS_OWN,
            missing,
            variants,
            by_tier,
            overrides,
            cost,
            counts_when: fields.get("counts_when").and_then(|node| self.read_outcome(node)),
            enforced,
            adaptive: self.read_adaptive(fields, measures.kind),
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

    fn read_enforced(&mut self, fields: &Fields<'_>) -> u16 {
        if self.read_flag(fields, "shadow", false) {
            if let Some(node) = fields.get("enforce") {
                let problem = self.problems.error(node.at, "a rule in shadow is not enforced");
                problem.help("leave `shadow` out: `enforce: 0%` is the same");
            }
            return 0;
        }
        let Some(node) = fields.get("enforce") else { return ENFORCED_FOR_ALL };
        let Some(text) = node.scalar("enforce", &mut self.problems) else {
            return ENFORCED_FOR_ALL;
        };
        match quantity::share(&text) {
            Ok(share) => share,
            Err(misread) => {
                self.misread(node.at, misread);
                ENFORCED_FOR_ALL
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

    pub(super) fn read_flag(
        &mut self,
        fields: &Fields<'_>,
        name: &'static str,
        usual: bool,
    ) -> bool {
        let flag = fields.get(name).and_then(|node| node.flag(name, &mut self.problems));
        flag.unwrap_or(usual)
    }
}

/// How many limits a rule has that are enforced for every request it matches, unless its tier or
/// its key has a quota of its own.
fn limits_for_all(rule: &Rule) -> usize {
    let Some(limit) = rule.limit() else { return 0 };
    if limit.may_be_skipped() || limit.enforced < ENFORCED_FOR_ALL {
        return 0;
    }
    let usual = limit.by_tier.first().copied().unwrap_or(0);
    rule.variants().get(usual).map_or(0, |variant| variant.policies().len())
}

/// What to write instead of a segment that no path has.
fn unnamed(name: &str, matcher: &Matcher) -> Misread {
    let help = match did_you_mean(name, matcher.names()) {
        Some(near) => format!("did you mean `{{{near}}}`?"),
        None => format!("name it in the `match`, as in `path: /users/{{{name}}}`"),
    };
    Misread::new(format!("no path of the `match` has a segment `{{{name}}}`"), help)
}

/// Whether a value is a list of tiers.
pub(super) fn is_map(node: &Node) -> bool {
    matches!(node.value, Value::Map(_))
}
