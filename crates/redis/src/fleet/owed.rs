//! What was let through without Redis and is not reported to it yet: each debt with the key that
//! owes it.
//!
//! It is a store of its own, which is never full: a store at its cap remembers what it drops in
//! sum, and a debt that belongs to nobody would be charged to each key that asks. Where more keys
//! owe something than may be remembered, what the next ones owe is written off, and counted.
//!
//! To count its keys takes all its locks, and every decision asks whether there is any. So it is
//! counted now and then, and until then by how often something may have been written since.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use tidegate_core::{Applied, Overdraft, Policy, Receipt, Refused, Span, Tick};
use tidegate_store::{Key, MemoryStore, PreparedRules, Rule, TooManyRules, Wanted};

use super::judge::Part;

/// For how long a count of the keys will do, while some owe something or there is no room.
const COUNT_EVERY: Span = Span::from_secs(1);

/// What keys owe to Redis.
#[derive(Debug)]
pub(super) struct Owed {
    store: MemoryStore,
    keys_max: usize,
    /// How often a key was written, or found to owe something: raised afterwards, so that a count
    /// that began before does not say that there is none.
    written: AtomicU64,
    /// How often before the last count, less the keys that it found. So there are at most as many
    /// keys as `written` is above it, and none if it is not.
    base: AtomicU64,
    /// When keys are counted again because some owe something, and until when there is no room.
    count_at: AtomicU64,
    full_until: AtomicU64,
    /// Cells that Redis will not be told of.
    written_off: AtomicU64,
}

impl Owed {
    /// Remembers what that many keys owe.
    pub(super) fn new(keys_max: usize) -> Owed {
        // Keys do not fall into its parts evenly, and none of these may be full.
        let store = MemoryStore::with_keys_max(keys_max.saturating_mul(2));
        let zero = || AtomicU64::new(0);
        let (written, base, count_at) = (zero(), zero(), zero());
        let (full_until, written_off) = (zero(), zero());
        Owed { store, keys_max, written, base, count_at, full_until, written_off }
    }

    pub(super) fn rule(&self, applied: Applied) -> Result<Rule, TooManyRules> {
        let Applied { policy, whole } = applied;
        self.store.rule_of(Applied { policy: remembering(policy), whole: remembering(whole) })
    }

    pub(super) fn prepare(
        &self,
        wanted: &[Wanted<'_>],
        now: Tick,
    ) -> Result<PreparedRules<'_>, TooManyRules> {
        let mut wanted = wanted.to_vec();
        for it in &mut wanted {
            (it.policy, it.whole) = (remembering(it.policy), remembering(it.whole));
        }
        self.store.prepare(&wanted, now)
    }

    /// Whether no key owes anything. Some may have paid since: until that is noticed, it says no.
    pub(super) fn is_empty(&self, now: impl FnOnce() -> Tick) -> bool {
        if self.keys_most() == 0 {
            return true;
        }
        let (now, at) = (now(), self.count_at.load(Relaxed));
        let next = now.after(COUNT_EVERY).get();
        let is_ours =
            at <= now.get() && self.count_at.compare_exchange(at, next, Relaxed, Relaxed).is_ok();
        is_ours && self.count() == 0 && self.keys_most() == 0
    }

    /// At most so many keys owe something.
    fn keys_most(&self) -> u64 {
        let base = self.base.load(Acquire);
        self.written.load(Acquire).saturating_sub(base)
    }

    /// Counts the keys, by all locks of the store.
    fn count(&self) -> usize {
        let written = self.written.load(Acquire);
        let keys = self.store.len();
        self.base.store(written.saturating_sub(keys as u64), Release);
        keys
    }

    /// Whether one key more is too many.
    fn is_full(&self, now: Tick) -> bool {
        if now.get() < self.full_until.load(Relaxed) {
            return true;
        }
        let keys_max = self.keys_max;
        let is_full = keys_max as u64 <= self.keys_most() && keys_max <= self.count();
        if is_full {
            self.full_until.store(now.after(COUNT_EVERY).get(), Relaxed);
        }
        is_full
    }

    pub(super) fn note_written(&self) {
        self.written.fetch_add(1, Release);
    }

    /// Cells that Redis will not be told of.
    pub(super) fn written_off(&self) -> u64 {
        self.written_off.load(Relaxed)
    }

    /// The key of a part here, and how many cells it owes.
    pub(super) fn look(&self, part: &Part<'_>, now: Tick) -> Option<(Key, u32)> {
        let key = part.local_key(&self.store)?;
        Some((key, self.owes(&part.present.owed, key, now)))
    }

    fn owes(&self, rule: &Rule, key: Key, now: Tick) -> u32 {
        let look = self.store.peek(rule, key, now, 0);
        let owes = look.limit.saturating_sub(look.remaining);
        let owes = owes.saturating_add(self.store.overdrawn(rule, key, now));
        // After a change of its rule it may have been moved just now, past somebody who counts.
        if 0 < owes {
            self.note_written();
        }
        owes
    }

    /// Remembers that a key owes so many cells more.
    pub(super) fn add(&self, part: &Part<'_>, cost: u32, now: Tick) -> Option<(Key, Receipt)> {
        let (key, owes) = self.look(part, now)?;
        if owes == 0 && self.is_full(now) {
            self.written_off.fetch_add(cost.into(), Relaxed);
            return None;
        }
        let debited = self.store.debit(&part.present.owed, key, now, cost).ok()?;
        self.note_written();
        Some((key, debited.receipt))
    }

    /// Takes some of it back.
    pub(super) fn refund(&self, rule: &Rule, key: Key, now: Tick, receipt: Receipt) {
        self.store.refund(rule, key, now, receipt);
        self.note_written();
    }

    /// Redis has been told of so many cells. What was let through while that was on its way is
    /// still owed.
    pub(super) fn repaid(&self, rule: &Rule, key: Key, cost: u32, now: Tick) {
        let left = self.owes(rule, key, now).saturating_sub(cost);
        self.clear(rule, key);
        if 0 < left && self.store.debit(rule, key, now, left).is_ok() {
            self.note_written();
        }
    }

    /// A key owes nothing any more.
    pub(super) fn clear(&self, rule: &Rule, key: Key) {
        self.store.reset(rule, key);
    }
}

/// The policy of a share, as debts are remembered by it: all of them, and no refusals.
fn remembering(share: Policy) -> Policy {
    let all = share.with_refused(Refused::Free).unwrap_or(share);
    all.with_overdraft(Overdraft::Unlimited).unwrap_or(all)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use tidegate_core::{Kind, Quota};

    use super::*;
    use crate::fleet::{SharedCharge, SharedRule};
    use crate::rule::FleetRule;
    use tidegate_core::WithoutStore;
    use tidegate_store::TextKey as FleetKey;

    const START: Tick = Tick::from_micros(1_700_000_000_000_000);

    fn rule(owed: &Owed) -> SharedRule {
        let policy = Policy::new(Kind::FixedWindow, Quota::per_day(9)).unwrap();
        let without = (0, WithoutStore::Local { nodes: 1 });
        let local = MemoryStore::with_keys_max(8);
        SharedRule::new(FleetRule::new("r", policy), without, policy, (&local, owed)).unwrap()
    }

    fn key(number: u64) -> FleetKey {
        FleetKey::new(number).unwrap()
    }

    fn add(owed: &Owed, rule: &SharedRule, who: u64, now: Tick) -> bool {
        let key = key(who);
        owed.add(&Part::new(&SharedCharge { rule, key: &key, cost: 1 }), 1, now).is_some()
    }

    fn repay(owed: &Owed, rule: &SharedRule, who: u64, now: Tick) {
        let (key, cost) = (key(who), 0);
        let part = Part::new(&SharedCharge { rule, key: &key, cost });
        let (key, cells) = owed.look(&part, now).unwrap();
        assert_eq!(cells, 1);
        owed.repaid(&part.present.owed, key, cells, now);
    }

    /// Keys are counted only once the time has been asked for.
    fn is_empty_unasked(owed: &Owed) -> bool {
        owed.is_empty(|| panic!("there is something, or nobody knows"))
    }

    #[test]
    fn while_nothing_is_owed_nothing_is_counted() {
        let owed = Owed::new(100);
        let rule = rule(&owed);
        assert!(is_empty_unasked(&owed));
        assert!(add(&owed, &rule, 1, START));
        assert!(!owed.is_empty(|| START), "counted");
        repay(&owed, &rule, 1, START);
        let soon = START.after(Span::from_micros(COUNT_EVERY.get() - 1));
        assert!(!owed.is_empty(|| soon), "counted a moment ago");
        assert!(owed.is_empty(|| START.after(COUNT_EVERY)));
        assert!(is_empty_unasked(&owed));
        // What is left of a debt that was repaid is owed.
        assert!(add(&owed, &rule, 1, START) && add(&owed, &rule, 1, START));
        let key = key(1);
        let part = Part::new(&SharedCharge { rule: &rule, key: &key, cost: 0 });
        let (known, cells) = owed.look(&part, START).unwrap();
        assert_eq!(cells, 2);
        owed.repaid(&part.present.owed, known, 1, START);
        assert!(!owed.is_empty(|| START.after(Span::from_secs(9))));
    }

    #[test]
    fn only_so_many_keys_are_remembered_however_often_they_are_written() {
        let owed = Owed::new(3);
        let rule = rule(&owed);
        for who in [1, 1, 1, 1, 2, 2, 3] {
            assert!(add(&owed, &rule, who, START), "{who}");
        }
        assert!(!add(&owed, &rule, 4, START));
        assert!(add(&owed, &rule, 2, START), "it owes already");
        owed.clear(&rule.present().owed, owed.store.key((key(3).tag(), key(3).text())).unwrap());
        assert!(!add(&owed, &rule, 4, START), "counted a moment ago");
        assert_eq!(owed.written_off(), 2);
        let later = START.after(COUNT_EVERY);
        assert!(add(&owed, &rule, 4, later));
        assert!(!add(&owed, &rule, 5, later));
    }

    #[test]
    fn nobody_who_owes_is_overlooked_while_others_repay_and_count() {
        let (owed, is_over) = (Owed::new(100), AtomicBool::new(false));
        let rule = rule(&owed);
        thread::scope(|scope| {
            let workers = [1, 2, 3].map(|who| {
                let (owed, rule) = (&owed, &rule);
                scope.spawn(move || {
                    for _ in 0..50_000 {
                        assert!(add(owed, rule, who, START));
                        // Never the first to be asked after a second.
                        assert!(!owed.is_empty(|| Tick::from_micros(0)));
                        repay(owed, rule, who, START);
                    }
                })
            });
            scope.spawn(|| {
                let mut now = START;
                while !is_over.load(Relaxed) {
                    now = now.after(COUNT_EVERY);
                    let _ = owed.is_empty(|| now);
                }
            });
            let done = workers.map(std::thread::ScopedJoinHandle::join);
            is_over.store(true, Relaxed);
            assert!(done.iter().all(Result::is_ok));
        });
        assert!(owed.is_empty(|| START.after(Span::from_secs(1 << 30))));
    }
}
