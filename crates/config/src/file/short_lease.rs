//! Warns of permits whose lease is shorter than their requests may wait for a turn.

use tidegate_core::{Kind, Span, Tick, Verdict};

use super::Reading;
use super::rule::Ranked;
use crate::lint::Lint;
use crate::matcher::Matcher;
use crate::rule::{Timed, Variant};
use crate::share::SharedCapacity;

/// How many shares and queues are looked at: each is compared with every rule that lends permits.
const WAITS_MAX: usize = 100;

/// Where requests wait.
struct Wait<'r> {
    longest: Span,
    place: String,
    matcher: &'r Matcher,
}

impl Reading<'_> {
    pub(super) fn warn_of_short_leases(&mut self, ranked: &[Ranked], shares: &[SharedCapacity]) {
        if self.problems.is_fatal() {
            return;
        }
        let in_share = shares.iter().map(|share| Wait {
            longest: share.wait,
            place: format!("the share `{}`", share.name()),
            matcher: &share.matcher,
        });
        let waits: Vec<Wait<'_>> =
            in_share.chain(ranked.iter().filter_map(in_queue)).take(WAITS_MAX).collect();
        for Ranked { at, allowed, rule, .. } in ranked {
            let Some(lease) = policies(rule.variants()).filter_map(lease).min() else { continue };
            // Otherwise nobody knows whether any request is for both.
            let meets = |it: &Matcher| it.covers(&rule.matcher) || rule.matcher.covers(it);
            let longer = waits.iter().filter(|it| lease < it.longest && meets(it.matcher));
            let Some(wait) = longer.max_by_key(|it| it.longest) else { continue };
            let Wait { longest, place, .. } = wait;
            let waits = format!("its requests may wait for {longest} in {place}");
            let message = format!("`{}` lends permits for {lease}, and {waits}", rule.name);
            let is_allowed = allowed.has(Lint::ShortLease);
            let problem = self.problems.lint_unless(is_allowed, Lint::ShortLease, *at, message);
            problem.help("give it a longer `lease`, or have requests wait for less");
        }
    }
}

/// How a rule holds requests back, if it does.
fn in_queue(ranked: &Ranked) -> Option<Wait<'_>> {
    let rule = &ranked.rule;
    // In shadow it holds nobody back.
    rule.limit().filter(|limit| 0 < limit.enforced)?;
    let longest = policies(rule.variants()).filter_map(longest_delay).max()?;
    Some(Wait { longest, place: format!("the queue `{}`", rule.name), matcher: &rule.matcher })
}

fn policies(variants: &[Variant]) -> impl Iterator<Item = &Timed> {
    variants.iter().flat_map(Variant::policies)
}

/// For how long a permit is lent: the time in which the limit comes back in full.
fn lease(timed: &Timed) -> Option<Span> {
    (timed.kind() == Kind::Concurrency).then(|| timed.window())
}

/// For how long the last that a queue takes is held back.
fn longest_delay(timed: &Timed) -> Option<Span> {
    if timed.kind() != Kind::LeakyQueue {
        return None;
    }
    let now = Tick::default();
    let policy = timed.policy(now);
    let mut state = policy.fresh();
    let _ = policy.decide(&mut state, now, policy.limit().saturating_sub(1));
    match policy.peek(&mut state, now, 1).verdict {
        Verdict::Delay { by } => Some(by),
        _ => None,
    }
}
