//! Many rules at once: all of them are as wanted, or nothing has happened.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_core::{Change, Kind, Policy, WithoutStore};
use tidegate_store::{ChangeError, Rule};

use super::Fleet;
use super::rule::{Now, Present, SharedRule, share};
use crate::rule::FleetRule;

/// A rule that is wanted of a [`Fleet`]: a new one, or what another becomes.
#[derive(Clone, Copy, Debug)]
pub struct WantedRule<'a> {
    /// Its name, by which the nodes of a fleet agree on it.
    pub name: &'a str,
    /// What it is from now on.
    pub policy: Policy,
    /// What it does without Redis.
    pub without: WithoutStore,
    /// What it was until now: what was consumed is kept.
    pub before: Option<&'a SharedRule>,
    /// How it becomes what is wanted.
    pub change: Change,
    /// Other rules that its keys had until now, and have no more. What a key has consumed under one
    /// of them counts here from its first request on; the latest of them, if there are several.
    /// Permits stay where they are, and do not count here.
    pub besides: &'a [SharedRule],
}

/// How a rule counts in this process, until now.
struct Counted {
    present: Option<Arc<Present>>,
    besides: Vec<Rule>,
}

impl Fleet {
    /// All rules that are wanted, in their order. If there is no room for all of them, or one is
    /// impossible, nothing has happened. Every node has to be told, as of a [`Fleet::change`].
    pub fn put(&self, wanted: &[WantedRule<'_>]) -> Result<Vec<SharedRule>, ChangeError> {
        let now = Now { here: self.now(), in_redis: self.server_now() };
        let shares: Result<Vec<Policy>, _> =
            wanted.iter().map(|it| share(&it.policy, self.among_all(it.without))).collect();
        let shares = shares.map_err(ChangeError::Quota)?;
        let counted: Vec<Counted> = wanted.iter().map(Counted::of).collect();
        let here = || wanted.iter().zip(&shares).zip(&counted);
        let local: Vec<_> = here().map(|((it, share), at)| at.local(*share, it.change)).collect();
        let owed: Vec<_> = here().map(|((it, share), at)| at.owed(*share, it.change)).collect();
        // There is room for what is owed wherever there is for what is counted.
        let local = self.inner.local.put(&local, now.here).map_err(ChangeError::TooMany)?;
        let owed = self.inner.owed.put(&owed, now.here).map_err(ChangeError::TooMany)?;
        let made = local.into_iter().map(Arc::new).zip(owed.into_iter().map(Arc::new));
        let put = wanted.iter().zip(made).map(|(wanted, (local, owed))| {
            let rule = self.rule_in_redis(wanted, now);
            self.shared(wanted, Present { rule, local, owed })
        });
        Ok(put.collect())
    }

    fn rule_in_redis(&self, wanted: &WantedRule<'_>, now: Now) -> FleetRule {
        let WantedRule { policy, change, .. } = *wanted;
        let name = name_in_redis(wanted);
        let rule = match wanted.before.map(SharedRule::present) {
            Some(before) => before.rule.becomes(name, policy, (change, now.in_redis)),
            None => self.inner.store.rule(name, policy),
        };
        if has_permits(wanted) {
            return rule;
        }
        let besides: Vec<_> = wanted.besides.iter().map(SharedRule::present).collect();
        rule.besides(besides.iter().map(|it| &it.rule), now.in_redis)
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

impl Counted {
    fn of(wanted: &WantedRule<'_>) -> Counted {
        let besides = wanted.besides.iter().map(|rule| Rule::clone(&rule.present().local));
        Counted { present: wanted.before.map(SharedRule::present), besides: besides.collect() }
    }

    /// By which it decides without Redis.
    fn local(&self, policy: Policy, change: Change) -> tidegate_store::Wanted<'_> {
        let before = self.present.as_ref().map(|present| &*present.local);
        tidegate_store::Wanted { policy, before, change, besides: &self.besides }
    }

    /// What it owes to Redis then.
    fn owed(&self, policy: Policy, change: Change) -> tidegate_store::Wanted<'_> {
        let before = self.present.as_ref().map(|present| &*present.owed);
        tidegate_store::Wanted { policy, before, change, besides: &[] }
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
