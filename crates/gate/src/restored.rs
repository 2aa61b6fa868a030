//! Limits of a snapshot that nobody has asked for yet, by their names.
//!
//! What they know is kept until a policy, or whoever names limits at run time, has a limit of that
//! name; until then they are in every snapshot, for as long as anything is owed under them. There
//! are at most as many as a store has rules.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Shape, Tick};
use tidegate_store::{RestoredRule, Rule};

/// Limits of a snapshot that nobody has asked for yet.
#[derive(Debug, Default)]
pub(crate) struct RestoredLimits(Mutex<HashMap<String, RestoredRule>>);

impl RestoredLimits {
    pub(crate) fn new(rules: Vec<RestoredRule>) -> RestoredLimits {
        let by_name = rules.into_iter().map(|rule| (rule.name.clone(), rule));
        RestoredLimits(Mutex::new(by_name.collect()))
    }

    /// The limit of this name, if what it knows still counts at `now`. It stays here until it is
    /// [claimed](RestoredLimits::claimed), so that no snapshot misses it.
    pub(crate) fn find(&self, name: &str, now: Tick) -> Option<Rule> {
        self.lock().get(name).filter(|rule| !is_over(rule, now)).map(|rule| rule.rule.clone())
    }

    /// All that still count at `now`; the others are let go of.
    pub(crate) fn present(&self, now: Tick) -> Vec<RestoredRule> {
        let mut limits = self.lock();
        limits.retain(|_, rule| !is_over(rule, now));
        limits.values().cloned().collect()
    }

    /// Lets go of limits that are kept elsewhere by now, or know nothing any more.
    pub(crate) fn claimed<'n>(&self, names: impl IntoIterator<Item = &'n str>) {
        let mut limits = self.lock();
        names.into_iter().for_each(|name| drop(limits.remove(name)));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, RestoredRule>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether it is of a calendar, and its window is over: nothing of that counts in another.
fn is_over(restored: &RestoredRule, now: Tick) -> bool {
    let shape = restored.rule.policy().shape();
    matches!(shape, Shape::Calendar { boundaries: [_, end, _], .. } if end <= now)
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
            also: String::new(),
            rule: store.rule(policy).unwrap(),
        };
        let tick = Tick::from_micros;
        let bucket = Policy::token_bucket(Quota::per_hour(2)).unwrap();
        let day = Policy::calendar(2, [tick(0), tick(10), tick(20)]).unwrap();
        let limits = RestoredLimits::new(vec![named("bucket", bucket), named("day", day)]);
        assert!(limits.find("bucket", tick(100)).is_some());
        assert!(limits.find("other", tick(100)).is_none());
        assert!(limits.find("day", tick(9)).is_some() && limits.find("day", tick(10)).is_none());
        assert_eq!((limits.present(tick(9)).len(), limits.present(tick(10)).len()), (2, 1));
        limits.claimed(["bucket"]);
        assert!(limits.find("bucket", tick(0)).is_none());
        assert_eq!(limits.present(tick(0)).len(), 0);
    }
}
