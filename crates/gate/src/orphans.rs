//! Limits that are not in force, by their names: of a snapshot, or of a policy before.
//!
//! What they know is kept until a policy, or a caller that names limits at run time, has a limit of
//! that name; until then they are in every snapshot, for as long as anything is owed under them.
//! Those of a snapshot are at most as many as a store has rules. Those that a policy has left
//! behind are at most [`LEFT_BEHIND_MAX`], and wait until nothing can be owed under them any more:
//! a rule that is gone for a moment does not begin afresh.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Shape, Tick};
use tidegate_store::{RestoredRule, Rule};

/// Limits that wait for somebody to ask for them.
#[derive(Debug, Default)]
pub(crate) struct OrphanLimits(Mutex<HashMap<String, Waiting>>);

#[derive(Debug)]
struct Waiting {
    rule: RestoredRule,
    /// Until when, if a policy has left it behind.
    until: Option<Tick>,
}

/// The most limits that policies have left behind: with as many as a policy may have, twice, a
/// store can name all.
const LEFT_BEHIND_MAX: usize = 10_000;

impl OrphanLimits {
    pub(crate) fn new(rules: Vec<RestoredRule>) -> OrphanLimits {
        let waiting = |rule: RestoredRule| (rule.name.clone(), Waiting { rule, until: None });
        let by_name = rules.into_iter().map(waiting);
        OrphanLimits(Mutex::new(by_name.collect()))
    }

    /// The limit of this name, if what it knows still counts at `now`. It stays here until it is
    /// [claimed](OrphanLimits::claimed), so that no snapshot misses it.
    pub(crate) fn find(&self, name: &str, now: Tick) -> Option<Rule> {
        self.lock().get(name).filter(|it| !it.is_over(now)).map(|it| it.rule.rule.clone())
    }

    /// All that still count at `now`; the others are let go of.
    pub(crate) fn present(&self, now: Tick) -> Vec<RestoredRule> {
        let mut limits = self.lock();
        limits.retain(|_, it| !it.is_over(now));
        limits.values().map(|it| it.rule.clone()).collect()
    }

    /// Has limits wait that a policy has left behind at `now`. Where they are too many, those go
    /// that would have gone first.
    pub(crate) fn wait(&self, rules: Vec<RestoredRule>, now: Tick) {
        let mut limits = self.lock();
        for rule in rules {
            let until = Some(rule.rule.policy().paid_at(now));
            limits.insert(rule.name.clone(), Waiting { rule, until });
        }
        let left_behind = limits.iter().filter_map(|(name, it)| Some((it.until?, name.clone())));
        let mut left_behind: Vec<(Tick, String)> = left_behind.collect();
        let surplus = left_behind.len().saturating_sub(LEFT_BEHIND_MAX);
        left_behind.sort_unstable();
        left_behind[..surplus].iter().for_each(|(_, name)| drop(limits.remove(name)));
    }

    /// Lets go of all that policies have left behind: there is no room for them. Whether there were
    /// any.
    pub(crate) fn make_room(&self) -> bool {
        let mut limits = self.lock();
        let before = limits.len();
        limits.retain(|_, it| it.until.is_none());
        limits.len() < before
    }

    /// Lets go of limits that are kept elsewhere by now, or know nothing any more.
    pub(crate) fn claimed<'n>(&self, names: impl IntoIterator<Item = &'n str>) {
        let mut limits = self.lock();
        names.into_iter().for_each(|name| drop(limits.remove(name)));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Whether nothing that it knows counts any more: no window of a calendar does in another.
    fn is_over(&self, now: Tick) -> bool {
        let shape = self.rule.rule.policy().shape();
        let is_past =
            matches!(shape, Shape::Calendar { boundaries: [_, end, _], .. } if end <= now);
        is_past || self.until.is_some_and(|until| until <= now)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Policy, Quota};
    use tidegate_store::MemoryStore;

    use super::*;

    #[test]
    fn a_limit_stays_until_it_is_claimed_or_its_window_is_over() {
        let store = MemoryStore::with_keys_max(64);
        let named = |name: &str, policy| RestoredRule {
            name: name.to_owned(),
            limit: String::new(),
            rule: store.rule(policy).unwrap(),
        };
        let tick = Tick::from_micros;
        let bucket = Policy::token_bucket(Quota::per_hour(2)).unwrap();
        let day = Policy::calendar(2, [tick(0), tick(10), tick(20)]).unwrap();
        let limits = OrphanLimits::new(vec![named("bucket", bucket), named("day", day)]);
        assert!(limits.find("bucket", tick(100)).is_some());
        assert!(limits.find("other", tick(100)).is_none());
        assert!(limits.find("day", tick(9)).is_some() && limits.find("day", tick(10)).is_none());
        assert_eq!((limits.present(tick(9)).len(), limits.present(tick(10)).len()), (2, 1));
        limits.claimed(["bucket"]);
        assert!(limits.find("bucket", tick(0)).is_none());
        assert_eq!(limits.present(tick(0)).len(), 0);
    }

    #[test]
    fn what_a_policy_has_left_behind_waits_until_all_is_paid_and_is_bounded() {
        let store = MemoryStore::with_keys_max(64);
        let named = |number: u32, quota| RestoredRule {
            name: number.to_string(),
            limit: String::new(),
            rule: store.rule(Policy::token_bucket(quota).unwrap()).unwrap(),
        };
        let limits = OrphanLimits::new(vec![named(0, Quota::per_hour(1))]);
        let hour = Tick::from_micros(3_600_000_000);
        let of = |numbers: std::ops::Range<u32>, quota: Quota| -> Vec<RestoredRule> {
            numbers.map(|number| named(number, quota)).collect()
        };
        limits.wait(of(1..9_001, Quota::per_hour(1)), Tick::default());
        limits.wait(of(9_001..12_001, Quota::per_minute(1)), Tick::default());
        assert_eq!(limits.present(Tick::default()).len(), 10_001, "and that of a snapshot");
        assert!(limits.find("9000", Tick::default()).is_some(), "the others go first");
        assert!(limits.find("9000", hour).is_none());
        assert!(limits.make_room() && !limits.make_room());
        assert_eq!(limits.present(Tick::default()).len(), 1);
    }
}
