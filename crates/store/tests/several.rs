//! Several limits whose states are one word each: the short way answers as the core does, and
//! leaves the same behind.
#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Decision, Kind, Limit, Policy, Quota, Receipt, Span, State, Tick, decide_all};
use tidegate_sim::rng::Rng;
use tidegate_store::{Charge, MemoryStore, Rule};

const KEYS: u64 = 3;

/// A rule of the store, and the states that the core would have for its keys.
struct Side {
    policy: Policy,
    rule: Rule,
    states: Vec<State>,
}

fn side(store: &MemoryStore, rng: &mut Rng) -> Side {
    let kinds = [Kind::TokenBucket, Kind::Gcra, Kind::LeakyBucket, Kind::LeakyQueue];
    let kind = kinds[usize::try_from(rng.below(4)).unwrap()];
    let cells = 1 + rng.below_u32(20);
    let burst = 1 + rng.below_u32(6);
    let policy = Policy::new(kind, Quota::new(cells, Span::from_millis(10)).burst(burst)).unwrap();
    assert_eq!(policy.words(), 1, "this is about states of one word");
    let states = (0..KEYS).map(|_| policy.fresh()).collect();
    Side { policy, rule: store.rule(policy).unwrap(), states }
}

fn step(store: &MemoryStore, sides: &mut [Side], rng: &mut Rng, now: Tick) {
    let keys: Vec<u64> = sides.iter().map(|_| rng.below(KEYS)).collect();
    let costs: Vec<u32> = sides.iter().map(|_| rng.below_u32(4)).collect();
    let charges: Vec<Charge<'_>> = sides
        .iter()
        .zip(keys.iter().zip(&costs))
        .map(|(side, (key, cost))| Charge {
            rule: &side.rule,
            key: store.key(*key).unwrap(),
            cost: *cost,
        })
        .collect();
    let mut answers: Vec<(Decision, Option<Receipt>)> = Vec::new();
    let verdict = store.decide_all(&charges, now, |decision, receipt| {
        answers.push((decision, receipt));
    });
    let policies: Vec<Policy> = sides.iter().map(|side| side.policy).collect();
    let states = sides.iter_mut().zip(&keys);
    let states = states.map(|(side, key)| &mut side.states[usize::try_from(*key).unwrap()]);
    let mut limits: Vec<Limit<'_>> = states
        .zip(policies.iter().zip(&costs))
        .map(|(state, (policy, cost))| Limit::new(policy, state, *cost))
        .collect();
    assert_eq!(verdict, decide_all(&mut limits, now));
    let expected: Vec<_> =
        limits.iter_mut().map(|it| (it.answer().unwrap(), it.take_receipt())).collect();
    assert_eq!(answers, expected);
}

#[test]
fn a_few_limits_are_judged_as_the_core_judges_them() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let store = MemoryStore::new();
        let count = 1 + rng.below(5);
        let mut sides: Vec<Side> = (0..count).map(|_| side(&store, &mut rng)).collect();
        let mut now = 1_000_000_000_000_000;
        for _ in 0..200 {
            now += rng.below(3_000);
            step(&store, &mut sides, &mut rng, Tick::from_micros(now));
        }
    }
}

const NOW: Tick = Tick::from_micros(1_000_000_000_000_000);

fn bucket(cells: u32) -> Policy {
    Policy::token_bucket(Quota::new(cells, Span::from_secs(1))).unwrap()
}

/// Asks by two rules for one key, and says what each has left.
fn remaining(store: &MemoryStore, rules: [&Rule; 2], now: Tick) -> Vec<u32> {
    let key = store.key("somebody").unwrap();
    let charges = rules.map(|rule| Charge { rule, key, cost: 1 });
    let mut remaining = Vec::new();
    let verdict = store.decide_all(&charges, now, |decision, _| remaining.push(decision.remaining));
    assert!(verdict.passes());
    remaining
}

#[test]
fn a_rule_that_was_changed_is_judged_as_what_it_became() {
    let store = MemoryStore::new();
    let (old, other) = (store.rule(bucket(10)).unwrap(), store.rule(bucket(100)).unwrap());
    assert_eq!(remaining(&store, [&old, &other], NOW), [9, 99]);
    let new = store.change(&old, bucket(20), NOW).unwrap();
    assert_eq!(remaining(&store, [&old, &other], NOW), [18, 98]);
    assert_eq!(remaining(&store, [&new, &other], NOW), [17, 97]);
}

#[test]
fn several_limits_at_once_sweep_as_one_does() {
    let store = MemoryStore::with_keys_max(10_000);
    let rules = [bucket(10), bucket(100)].map(|policy| store.rule(policy).unwrap());
    for name in 0..1_000_u32 {
        let _ = store.decide(&rules[0], store.key(name).unwrap(), NOW, 1);
    }
    for second in 60..40_000 {
        let _ = remaining(&store, [&rules[0], &rules[1]], NOW.after(Span::from_secs(second)));
        if store.len() <= 2 {
            return;
        }
    }
    panic!("{} states are left, of which two are in use", store.len());
}
