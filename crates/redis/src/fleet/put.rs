//! Many rules at once: all of them are as wanted, or nothing has happened.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tidegate_core::{Applied, Kind, Policy, WithoutStore};
use tidegate_store::{ChangeError, PreparedRules, Rule, Wanted};

use super::Fleet;
use super::rule::{Now, Present, SharedRule, share};
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
    pub fn put(&self, wanted: &[WantedRule<'_>]) -> Result<Vec<SharedRule>, ChangeError> {
        self.prepare(wanted).map(PreparedShared::commit)
    }

    /// Prepares what [`Fleet::put`] does. Until it is committed, rules that were something before
    /// go on as that; then all of them turn at once.
    pub(super) fn prepare(
        &self,
        wanted: &[WantedRule<'_>],
    ) -> Result<PreparedShared<'_>, ChangeError> {
        let now = Now { here: self.now(), in_redis: self.server_now() };
        let shares: Result<Vec<Policy>, _> =
            wanted.iter().map(|it| share(&it.policy, self.among_all(it.without))).collect();
        let shares = shares.map_err(ChangeError::Quota)?;
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
        let local = self.inner.local.prepare(&local, now.here);
        let local = local.map_err(ChangeError::TooMany)?;
        let owed = self.inner.owed.prepare(&owed, now.here).map_err(ChangeError::TooMany)?;
        let made = local.rules().iter().zip(owed.rules());
        let made = wanted.iter().zip(made).map(|(wanted, (local, owed))| {
            let (local, owed) = (Arc::new(local.clone()), Arc::new(owed.clone()));
            let rule = self.rule_in_redis(wanted, now);
            self.shared(wanted, Present { rule, local, owed })
        });
        let (rules, turns) = made.unzip();
        Ok(PreparedShared { fleet: self, local, owed, rules, turns })
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
    /// What it is by now it becomes at its turn.
    fn shared(&self, wanted: &WantedRule<'_>, present: Present) -> (SharedRule, Option<Present>) {
        let Some(before) = wanted.before else {
            let number = self.inner.rules.fetch_add(1, Ordering::Relaxed);
            return (SharedRule::of(present, number, wanted.without), None);
        };
        let name = name_in_redis(wanted);
        let is_it = before.without() == wanted.without && before.name() == name;
        let rule = if is_it { before.clone() } else { before.also(name, wanted.without) };
        (rule, Some(present))
    }
}

/// Rules that there is room for, and that are about to be what is wanted.
pub(super) struct PreparedShared<'f> {
    fleet: &'f Fleet,
    local: PreparedRules<'f>,
    owed: PreparedRules<'f>,
    rules: Vec<SharedRule>,
    turns: Vec<Option<Present>>,
}

impl PreparedShared<'_> {
    pub(super) fn rules(&self) -> &[SharedRule] {
        &self.rules
    }

    /// Has all rules turn into what is wanted. A request finds all of them as they were, or all as
    /// they are.
    pub(super) fn commit(self) -> Vec<SharedRule> {
        let PreparedShared { fleet, local, owed, rules, turns } = self;
        let _turning = fleet.inner.turning.write().unwrap_or_else(PoisonError::into_inner);
        drop((local.commit(), owed.commit()));
        fleet.inner.owed.note_written();
        for (rule, turn) in rules.iter().zip(turns) {
            if let Some(present) = turn {
                rule.set(present);
            }
        }
        rules
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
