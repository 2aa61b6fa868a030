//! Warns of rules that limit nobody, and of one that takes half a megabyte for a key.

use tidegate_core::Kind;

use super::Reading;
use super::rule::{ENFORCED_FOR_ALL, Ranked};
use crate::cost::Cost;
use crate::lint::Lint;
use crate::matcher::Matcher;
use crate::rule::{Action, Limit, Quotas, Timed, Variant};
use crate::share::SharedCapacity;

/// How many events a sliding log remembers one by one.
const EVENTS_MAX: u32 = 32_768;

impl Reading<'_> {
    pub(super) fn warn_of_useless(&mut self, ranked: &[Ranked], costs: &[(Matcher, Cost)]) {
        if self.problems.is_fatal() {
            return;
        }
        for Ranked { at, allowed, rule, .. } in ranked {
            let Some(limit) = rule.limit() else { continue };
            let name = &rule.name;
            let mut add = |lint, message, help: &str| {
                self.problems.lint_unless(allowed.has(lint), lint, *at, message).help(help);
            };
            if limit.variants.iter().all(is_unlimited) && !rule.is_last {
                let message = format!("`{name}` limits nobody: every limit in it is `unlimited`");
                let help =
                    "write `unlimited: true` to let these pass, whatever the rules below say";
                add(Lint::LimitsNobody, message, help);
            }
            if rule.is_last && limit.enforced < ENFORCED_FOR_ALL {
                let message = format!("`{name}` is in shadow, and ends the list for its requests");
                let help = "leave `last` out while the rule is in shadow: the rules below are \
                            out of reach";
                add(Lint::LastInShadow, message, help);
            }
            if EVENTS_MAX < events(limit) {
                let message = format!("`{name}` remembers up to 512 KiB for each key");
                add(Lint::LargeLog, message, "use `algorithm: token-bucket` or `sliding-window`");
            }
            if costs_nothing(limit, &rule.matcher, costs) {
                let message = format!("`{name}` takes nothing: its requests cost 0");
                add(Lint::CostsNothing, message, "leave the cost out, or use `unlimited: true`");
            }
        }
    }

    pub(super) fn warn_of_nothing_enforced(
        &mut self,
        ranked: &[Ranked],
        shares: &[SharedCapacity],
    ) {
        let enforces = |it: &Ranked| match &it.rule.action {
            Action::Block => true,
            Action::Limit(limit) => limit.is_enforced() && !limit.variants.iter().all(is_unlimited),
            Action::Unlimited => false,
        };
        if self.problems.is_fatal() || !shares.is_empty() || ranked.iter().any(enforces) {
            return;
        }
        let is_shadow = |it: &&Ranked| it.rule.limit().is_some_and(|limit| !limit.is_enforced());
        let Some(first) = ranked.iter().find(is_shadow) else { return };
        let is_allowed = first.allowed.has(Lint::NothingEnforced);
        let message = "nothing is refused: every rule is in shadow";
        let lint = Lint::NothingEnforced;
        let problem = self.problems.lint_unless(is_allowed, lint, first.at, message);
        problem.help("take `shadow` away when the numbers are right, or write `enforce: 10%`");
    }
}

fn is_unlimited(variant: &Variant) -> bool {
    matches!(variant.quota, Quotas::Unlimited)
}

/// The most events that a rule's sliding logs remember for one key.
fn events(limit: &Limit) -> u32 {
    let policies = limit.variants.iter().flat_map(Variant::policies);
    let logs = policies.filter(|timed| timed.kind() == Kind::SlidingLog);
    logs.map(Timed::most_at_once).max().unwrap_or(0)
}

/// Whether every request of a rule costs nothing, whatever it says.
fn costs_nothing(limit: &Limit, matcher: &Matcher, costs: &[(Matcher, Cost)]) -> bool {
    if limit.cost.is_some() {
        return limit.cost == Some(Cost::Cells(0));
    }
    let free = costs.iter().take_while(|(_, cost)| *cost == Cost::Cells(0));
    { free }.any(|(route, _)| route.covers(matcher))
}
