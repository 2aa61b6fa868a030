//! Warns of costs that no burst can pay: such a request never passes, however long it waits.

use std::fmt::Write as _;

use super::Reading;
use super::rule::Ranked;
use crate::cost::Cost;
use crate::lint::Lint;
use crate::matcher::Matcher;
use crate::rule::{Rule, Variant};

/// How many conditions are compared, at most.
const COMPARISONS_MAX: usize = 5_000_000;

impl Reading<'_> {
    pub(super) fn warn_of_unpayable(&mut self, ranked: &[Ranked], costs: &[(Matcher, Cost)]) {
        if self.problems.is_fatal() {
            return;
        }
        let mut budget = COMPARISONS_MAX;
        for (number, Ranked { at, allowed, rule, .. }) in ranked.iter().enumerate() {
            let Some(limit) = rule.limit() else { continue };
            let is_allowed = allowed.has(Lint::UnpayableCost);
            if let Some(cost) = &limit.cost {
                if let Some(message) = unpayable(rule, cost) {
                    let lint = Lint::UnpayableCost;
                    let problem = self.problems.lint_unless(is_allowed, lint, *at, message);
                    problem.help("raise the `burst` or the limit, or lower the cost");
                }
                continue;
            }
            for (place, (route, cost)) in costs.iter().enumerate() {
                let Some(message) = unpayable(rule, cost) else { continue };
                let mut covers = |wide: &Matcher, narrow: &Matcher| {
                    let work = wide.weight().saturating_mul(narrow.weight());
                    let is_too_much = budget < work;
                    budget = budget.saturating_sub(work);
                    !is_too_much && wide.covers(narrow)
                };
                // For which requests it is sure that both the rule and the cost are for them.
                let both = if covers(&rule.matcher, route) {
                    route
                } else if covers(route, &rule.matcher) {
                    &rule.matcher
                } else {
                    continue;
                };
                let is_cheaper = costs[..place].iter().any(|(earlier, _)| covers(earlier, both));
                let mut above = ranked[..number].iter().map(|it| &it.rule);
                let is_hidden = above.any(|it| it.stops() && covers(&it.matcher, both));
                if is_cheaper || is_hidden {
                    continue;
                }
                let at = self.costs_at.get(place).copied().unwrap_or(*at);
                let lint = Lint::UnpayableCost;
                let problem = self.problems.lint_unless(is_allowed, lint, at, message);
                problem.help(format!(
                    "raise the `burst` of `{}`, lower the cost, or give these requests a rule of \
                     their own, with `last: true`",
                    rule.name
                ));
            }
        }
    }
}

/// That a rule never lets pass what costs as much, and for which tiers and keys.
fn unpayable(rule: &Rule, cost: &Cost) -> Option<String> {
    let cells = cost.always();
    let too_small = |it: &&Variant| !it.policies().is_empty() && it.most_at_once() < cells;
    let mut small = rule.variants().iter().filter(too_small);
    let first = small.next()?;
    let (most, name) = (first.most_at_once(), &rule.name);
    let peak =
        first.policies().iter().find(|it| it.most_at_once() == most && !it.part().is_empty());
    let name = peak.map_or_else(|| name.to_string(), |it| format!("{name}-{}", it.part()));
    let mut message =
        format!("`{name}` never lets pass what costs {cells}: at most {most} at once");
    match first.id().strip_prefix('=') {
        Some(key) => {
            let _ = write!(message, " for `{}`", crate::problem::shortened(key));
        }
        None if first.id().is_empty() => {}
        None => {
            let _ = write!(message, " for tier `{}`", first.id());
        }
    }
    let others = small.count();
    if 0 < others {
        let _ = write!(message, ", and for {others} more");
    }
    Some(message)
}
