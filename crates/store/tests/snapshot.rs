//! Snapshots: a store that is restored decides as the one that was exported would have.

#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Decision, Kind, Policy, Quota, Span, Tick};
use tidegate_sim::rng::Rng;
use tidegate_store::{MemoryStore, NamedRule, Restored, Rule};

const START: u64 = 1_700_000_000_000_000;

fn tick(micros: u64) -> Tick {
    Tick::from_micros(START + micros)
}

fn export(store: &MemoryStore, rules: &[Rule], now: Tick) -> Vec<u8> {
    let names: Vec<String> = (0..rules.len()).map(|number| format!("rule {number}")).collect();
    let rules = names.iter().zip(rules).map(|(name, rule)| NamedRule { name, limit: "", rule });
    let mut bytes = Vec::new();
    let exported = store.export(&rules.collect::<Vec<_>>(), now, &mut bytes).unwrap();
    assert_eq!(exported.bytes, bytes.len() as u64);
    bytes
}

/// The rules of a restored store, in the order of `rules`, under the same policies.
fn again(restored: &Restored, rules: &[Rule], now: Tick) -> Vec<Rule> {
    let store = &restored.store;
    let rules = rules.iter().enumerate().map(|(number, rule)| {
        let name = format!("rule {number}");
        let known = restored.rules.iter().find(|restored| restored.name == name);
        match known {
            Some(known) => store.change(&known.rule, *rule.policy(), now).unwrap(),
            None => store.rule(*rule.policy()).unwrap(),
        }
    });
    rules.collect()
}

fn random_policy(rng: &mut Rng) -> Policy {
    let kind = Kind::ALL[usize::try_from(rng.below(8)).unwrap()];
    // Wide lines and lists of large events as well.
    let quota = if rng.one_in(4) { rng.any_quota() } else { rng.small_quota() };
    let plain = Quota::new(quota.cells(), quota.per());
    if rng.one_in(10) {
        let boundaries = [0, START + rng.below(9_000), START + 10_000_000];
        return Policy::calendar(quota.cells(), boundaries.map(Tick::from_micros)).unwrap();
    }
    Policy::new(kind, if kind.has_burst() { quota } else { plain }).unwrap()
}

/// A store with its rules, driven step by step.
struct Driven {
    store: MemoryStore,
    rules: Vec<Rule>,
}

impl Driven {
    fn step(&self, rng: &mut Rng, now: Tick) -> Decision {
        let rule = &self.rules[usize::try_from(rng.below(self.rules.len() as u64)).unwrap()];
        let key = self.store.key(("client", rng.below(40))).unwrap();
        let cost = match rng.below(4) {
            0 => 0,
            1 => 1 + u32::try_from(rng.of_bits(31)).unwrap() % rule.policy().limit(),
            _ => 1,
        };
        match rng.below(8) {
            0 => self.store.peek(rule, key, now, cost),
            1 => {
                let (decision, receipt) = self.store.decide_with_receipt(rule, key, now, cost);
                if let Some(receipt) = receipt {
                    self.store.refund(rule, key, now, receipt);
                }
                decision
            }
            _ => self.store.decide(rule, key, now, cost),
        }
    }

    /// A change of a quota, which may move its states to another table.
    fn change(&mut self, rng: &mut Rng, now: Tick) {
        let at = usize::try_from(rng.below(self.rules.len() as u64)).unwrap();
        let policy = random_policy(rng);
        self.rules[at] = self.store.change(&self.rules[at], policy, now).unwrap();
    }
}

fn elapsed(rng: &mut Rng, now: &mut u64) -> Tick {
    let bits = if rng.one_in(50) { 40 } else { 12 };
    *now += rng.of_bits(bits);
    tick(*now)
}

/// Every `keys_max`: the same, fewer shards, more shards.
fn stays_the_same(seed: u64, keys_max: usize, keys_max_after: usize) {
    let mut rng = Rng::new(seed);
    let store = MemoryStore::with_keys_max(keys_max);
    let rules = (0..=rng.below(6)).map(|_| store.rule(random_policy(&mut rng)).unwrap()).collect();
    let mut driven = Driven { store, rules };
    let mut now = 0;
    for _ in 0..rng.below(1_500) {
        elapsed(&mut rng, &mut now);
        // Now and then a clock goes back a little. After the restart it does not here: what a
        // store has forgotten by then depends on its shards, and with it by what tick it judges.
        let at = tick(now.saturating_sub(if rng.one_in(20) { rng.below(3_000) } else { 0 }));
        driven.step(&mut rng, at);
        if rng.one_in(300) {
            driven.change(&mut rng, at);
        }
    }
    let bytes = export(&driven.store, &driven.rules, tick(now));
    let restored = MemoryStore::restore(&mut &bytes[..], keys_max_after).unwrap();
    assert_eq!(restored.at, tick(now));
    let rules = again(&restored, &driven.rules, tick(now));
    let after = Driven { store: restored.store, rules };
    for step in 0..1_500 {
        let at = elapsed(&mut rng, &mut now);
        let (mut one, mut other) = (rng.clone(), rng.clone());
        let expected = driven.step(&mut one, at);
        assert_eq!(after.step(&mut other, at), expected, "seed {seed}, step {step}");
        rng = one;
    }
}

#[test]
fn a_restored_store_decides_digit_for_digit_as_before() {
    for seed in 0..300 {
        stays_the_same(seed, 1 << 16, 1 << 16);
    }
}

#[test]
fn a_restored_store_may_be_for_more_keys_or_for_fewer() {
    for seed in 0..100 {
        stays_the_same(seed, 1 << 12, 1 << 20);
        stays_the_same(seed, 1 << 20, 1 << 12);
    }
}

/// From few shards to many, there and back again: keys are known by the bits that there were.
#[test]
fn states_are_handed_on_through_stores_of_any_size() {
    let store = MemoryStore::with_keys_max(1_000);
    let policy = Policy::new(Kind::FixedWindow, Quota::per_hour(100)).unwrap();
    let rule = store.rule(policy).unwrap();
    for id in 0..500_u32 {
        store.decide(&rule, store.key(id).unwrap(), tick(0), 1 + id % 100);
    }
    let (mut store, mut rules) = (store, vec![rule]);
    for keys_max in [1 << 22, 1_000, 1 << 17, 1 << 24, 1 << 20] {
        let bytes = export(&store, &rules, tick(0));
        let restored = MemoryStore::restore(&mut &bytes[..], keys_max).unwrap();
        rules = again(&restored, &rules, tick(0));
        store = restored.store;
        assert_eq!((restored.states, store.len()), (500, 500));
        for id in 0..500_u32 {
            let said = store.peek(&rules[0], store.key(id).unwrap(), tick(0), 0);
            assert_eq!(said.remaining, 99 - id % 100, "key {id} of {keys_max}");
        }
    }
}

/// At the cap: what groups of keys owe is not paid by a restart.
#[test]
fn a_group_is_restored_with_its_debt() {
    for (kind, after) in
        [(Kind::TokenBucket, 64), (Kind::SlidingWindow, 64), (Kind::TokenBucket, 1 << 14)]
    {
        let store = MemoryStore::with_keys_max(64);
        let rule = store.rule(Policy::new(kind, Quota::per_hour(10)).unwrap()).unwrap();
        for id in 0..1_000_u32 {
            store.decide(&rule, store.key(id).unwrap(), tick(id.into()), 7);
        }
        let rules = [rule];
        let bytes = export(&store, &rules, tick(1_000));
        let restored = MemoryStore::restore(&mut &bytes[..], after).unwrap();
        let rules_after = again(&restored, &rules, tick(1_000));
        for id in 0..2_000_u32 {
            let (key, same) = (store.key(id).unwrap(), restored.store.key(id).unwrap());
            let expected = store.peek(&rules[0], key, tick(2_000), 4);
            assert!(!expected.verdict.passes(), "key {id} was given its burst back");
            let said = restored.store.peek(&rules_after[0], same, tick(2_000), 4);
            assert_eq!(said, expected, "key {id}");
        }
    }
}

/// A store for fewer keys than there are states: those that have to go leave their debt.
#[test]
fn a_store_that_is_too_small_for_a_snapshot_gives_nothing_back() {
    for kind in Kind::ALL {
        let store = MemoryStore::with_keys_max(1 << 14);
        let rules = [store.rule(Policy::new(kind, Quota::per_hour(10)).unwrap()).unwrap()];
        for id in 0..5_000_u32 {
            store.decide(&rules[0], store.key(id).unwrap(), tick(0), 7);
        }
        let bytes = export(&store, &rules, tick(0));
        let restored = MemoryStore::restore(&mut &bytes[..], 1_000).unwrap();
        let after = again(&restored, &rules, tick(0));
        let store = restored.store;
        let is_list = matches!(kind, Kind::SlidingLog | Kind::Concurrency);
        assert!(is_list || store.len() <= 1_002, "{} states of {kind}", store.len());
        for id in 0..5_000_u32 {
            let said = store.peek(&after[0], store.key(id).unwrap(), tick(0), 4);
            assert!(!said.verdict.passes(), "{kind}: key {id} was given something back");
        }
    }
}

#[test]
fn a_clock_that_was_set_back_meanwhile_pays_nobody() {
    for kind in Kind::ALL {
        let quota = Quota::new(10, Span::from_secs(1));
        let store = MemoryStore::new();
        let rules = [store.rule(Policy::new(kind, quota).unwrap()).unwrap()];
        // Some are forgotten by the sweep, some are in the snapshot.
        for id in 0..20_000_u32 {
            store.decide(&rules[0], store.key(id % 50).unwrap(), tick(u64::from(id) * 200), 1);
        }
        let now = tick(4_000_000);
        let bytes = export(&store, &rules, now);
        let restored = MemoryStore::restore(&mut &bytes[..], MemoryStore::KEYS_MAX).unwrap();
        let after = again(&restored, &rules, now);
        for back in [1_u64, 700_000, 1_000_000, 5_000_000, 3_600_000_000] {
            let then = Tick::from_micros(now.get() - back);
            for id in 0..60_u32 {
                let (key, same) = (store.key(id).unwrap(), restored.store.key(id).unwrap());
                let expected = store.peek(&rules[0], key, then, 5);
                let said = restored.store.peek(&after[0], same, then, 5);
                assert_eq!(said, expected, "{kind}, {back} ticks back");
            }
        }
    }
}

#[test]
fn a_changed_policy_carries_what_was_consumed() {
    let store = MemoryStore::new();
    let rules = [store.rule(Policy::token_bucket(Quota::per_hour(10)).unwrap()).unwrap()];
    let key = store.key("ada").unwrap();
    store.decide(&rules[0], key, tick(0), 8);
    let bytes = export(&store, &rules, tick(0));
    let restored = MemoryStore::restore(&mut &bytes[..], MemoryStore::KEYS_MAX).unwrap();
    let known = restored.rules[0].rule.clone();
    for kind in Kind::ALL {
        let policy = Policy::new(kind, Quota::per_hour(20)).unwrap();
        let rule = restored.store.change(&known, policy, tick(0)).unwrap();
        let key = restored.store.key("ada").unwrap();
        let said = restored.store.peek(&rule, key, tick(0), 0);
        assert_eq!(said.remaining, 12, "{kind}");
    }
}

/// A key that was forgotten may be one that owed something at an earlier tick: after a restart,
/// too, it is judged by no earlier tick than that by which it was forgotten.
#[test]
fn what_was_forgotten_before_a_restart_is_not_paid_by_a_clock_set_back() {
    for kind in [Kind::TokenBucket, Kind::FixedWindow, Kind::SlidingLog] {
        let store = MemoryStore::with_keys_max(8);
        let rules = [store.rule(Policy::new(kind, Quota::per_second(10)).unwrap()).unwrap()];
        let key = store.key("ada").unwrap();
        store.decide(&rules[0], key, tick(0), 10);
        for _ in 0..5_000 {
            store.decide(&rules[0], store.key("bob").unwrap(), tick(40_000_000), 1);
        }
        assert_eq!(store.len(), 1, "{kind}: ada was forgotten");
        let bytes = export(&store, &rules, tick(40_000_000));
        let restored = MemoryStore::restore(&mut &bytes[..], 8).unwrap();
        let after = again(&restored, &rules, tick(40_000_000));
        for (micros, cost) in [(500_000, 10), (500_000, 1), (10_000_000, 1), (11_000_000, 10)] {
            let expected = store.decide(&rules[0], key, tick(micros), cost);
            let said = restored.store.decide(&after[0], key, tick(micros), cost);
            assert_eq!(said, expected, "{kind} at {micros}");
            assert_eq!(said.verdict.passes(), cost == 10, "{kind} at {micros}");
        }
    }
}

/// A list knows the latest tick at which it was asked: what passes after a clock was set back
/// counts from there.
#[test]
fn a_list_remembers_how_late_it_was() {
    let store = MemoryStore::new();
    let policy = Policy::new(Kind::SlidingLog, Quota::per_hour(10)).unwrap();
    let rules = [store.rule(policy).unwrap()];
    let key = store.key("ada").unwrap();
    store.decide(&rules[0], key, tick(0), 5);
    assert!(!store.decide(&rules[0], key, tick(5_000_000), 6).verdict.passes());
    let bytes = export(&store, &rules, tick(5_000_000));
    let restored = MemoryStore::restore(&mut &bytes[..], MemoryStore::KEYS_MAX).unwrap();
    let after = again(&restored, &rules, tick(5_000_000));
    for (micros, cost) in [(1_000_000, 5), (3_601_000_000, 6), (3_605_000_000, 6)] {
        let expected = store.decide(&rules[0], key, tick(micros), cost);
        let said = restored.store.decide(&after[0], key, tick(micros), cost);
        assert_eq!(said, expected, "at {micros}");
    }
}
