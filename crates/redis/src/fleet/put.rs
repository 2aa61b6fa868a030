//! Many rules at once: all of them are as wanted, or nothing has happened.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_core::{Applied, Kind, Policy, WithoutStore};
use tidegate_store::{Rule, Wanted};

use super::Fleet;
use super::rule::{FleetChangeError, Now, Present, SharedRule, share};
use crate::rule::FleetRule;

/// A rule that is wanted of a [`Fleet`]: a new one, or what another becomes.
#[derive(Clone, Copy, Debug)]
pub struct WantedRule<'a> {
    /// Its name, by which the nodes of a fleet agree on it.
    pub name: &'a str,
    /// The name of the limit that it is a quota of; its own for most. Without Redis a key has one
    /// state under all quotas of a limit.
    pub limit: &'a str,
    /// What it is from now on.
    pub policy: Policy,
    /// What that is a part of; the policy itself if all of it is given out.
    pub whole: Policy,
    /// What it does without Redis.
    pub without: WithoutStore,
    /// What it was until now: what was consumed is kept.
    pub before: Option<&'a SharedRule>,
    /// Other quotas that its keys had until now, and have no more. What a key has consumed under
    /// one of them counts here from its first request on; the latest of them, if there are several.
    /// Permits stay where they are, and do not count here.
    pub others: &'a [SharedRule],
}

impl Fleet {
    /// All rules that are wanted, in their order. If there is no room for all of them, or one is
    /// impossible, nothing has happened. Every node has to be told, as of a [`Fleet::change`].
    pub fn put(&self, wanted: &[WantedRule<'_>]) -> Result<Vec<SharedRule>, FleetChangeError> {
        let now = Now { here: self.now(), in_redis: self.server_now() };
        let shares: Result<Vec<Policy>, _> =
            wanted.iter().map(|it| share(&it.policy, self.among_all(it.without))).collect();
        let shares = shares.map_err(FleetChangeError::Quota)?;
        let present: Vec<Option<Arc<Present>>> =
            wanted.iter().map(|it| it.before.map(SharedRule::present)).collect();
        let others =
            wanted.iter().map(|it| it.others.iter().map(|it| (*it.present().local).clone()));
        let others: Vec<Vec<Rule>> = others.map(Iterator::collect).collect();
        let mut numbers = HashMap::new();
        let (mut local, mut owed) = (Vec::new(), Vec::new());
        for (index, (it, policy)) in wanted.iter().zip(shares).enumerate() {
            let (present, whole, next) = (present[index].as_ref(), it.whole, numbers.len());
            let limit = *numbers.entry(it.limit).or_insert(next);
            let before = present.map(|present| &*present.local);
            local.push(Wanted { policy, whole, before, limit, others: &others[index] });
            // What is owed is repaid to the rule that let it pass.
            let before = present.map(|present| &*present.owed);
            owed.push(Wanted { policy, whole, before, limit: index, others: &[] });
        }
        // There is room for what is owed wherever there is for what is counted.
        let local = self.inner.local.put(&local, now.here).map_err(FleetChangeError::TooMany)?;
        let owed = self.inner.owed.put(&owed, now.here).map_err(FleetChangeError::TooMany)?;
        let made = local.into_iter().map(Arc::new).zip(owed.into_iter().map(Arc::new));
        let put = wanted.iter().zip(made).map(|(wanted, (local, owed))| {
            let rule = self.rule_in_redis(wanted, now);
            self.shared(wanted, Present { rule, local, owed })
        });
        Ok(put.collect())
    }

    fn rule_in_redis(&self, wanted: &WantedRule<'_>, now: Now) -> FleetRule {
        let applied = Applied { policy: wanted.policy, whole: wanted.whole };
        let name = name_in_redis(wanted);
        let rule = match wanted.before.map(SharedRule::present) {
            Some(before) => before.rule.becomes(name, applied, now.in_redis),
            None => self.inner.store.rule(name, applied.policy).of(applied),
        };
        if has_permits(wanted) {
            return rule;
        }
        let others: Vec<_> = wanted.others.iter().map(SharedRule::present).collect();
        rule.after(others.iter().map(|it| &it.rule), now.in_redis)
    }

    /// Its name, and what it does without Redis, belong to a rule: otherwise it is another one.
    fn shared(&self, wanted: &WantedRule<'_>, present: Present) -> SharedRule {
        let Some(before) = wanted.before else {
            let number = self.inner.rules.fetch_add(1, Ordering::Relaxed);
            return SharedRule::of(present, number, wanted.without);
        };
        before.set(present);
        let name = name_in_redis(wanted);
        if before.without() == wanted.without && before.name() == name {
            return before.clone();
        }
        before.also(name, wanted.without)
    }
}

/// Permits come back to where they were taken: there is nothing else to know them by.
fn has_permits(wanted: &WantedRule<'_>) -> bool {
    wanted.policy.kind() == Kind::Concurrency
}

fn name_in_redis<'a>(wanted: &WantedRule<'a>) -> &'a str {
    match wanted.before {
        Some(before) if has_permits(wanted) => before.name(),
        _ => wanted.name,
    }
}
