//! Plain limits: the core's policies digit for digit, each name one limit, all or nothing.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use tidegate_core::{Decision, Kind, Policy, Quota, Span, State, Verdict};
use tidegate_gate::{AdhocCharge, AdhocDecided, AdhocLimit, Gate, WithoutStore};
use tidegate_sim::rng::Rng;
use tidegate_store::MemoryStore;

use super::{gate, turns};
use crate::stand::{Still, done, left};

const KINDS: [Kind; 7] = [
    Kind::TokenBucket,
    Kind::Gcra,
    Kind::LeakyBucket,
    Kind::LeakyQueue,
    Kind::FixedWindow,
    Kind::SlidingWindow,
    Kind::SlidingLog,
];

fn empty() -> (Still, std::sync::Arc<tidegate_store::ManualClock>) {
    gate("rules: [{ name: same, limit: 5/day }]")
}

fn per_day(cells: u32) -> Policy {
    Policy::token_bucket(Quota::per_day(cells)).unwrap()
}

#[track_caller]
fn plain(gate: &Gate, name: &str, policy: Policy) -> AdhocLimit {
    gate.adhoc(name, policy, WithoutStore::Open).unwrap()
}

fn decide(gate: &Gate, charges: &[AdhocCharge<'_>]) -> AdhocDecided {
    done(gate.decide_adhoc(charges))
}

/// Each by itself: in a batch if the states are in this process, otherwise one by one.
fn batch(gate: &Gate, charges: &[AdhocCharge<'_>]) -> Vec<Decision> {
    let mut said = Vec::new();
    let batched = gate.decide_adhoc_batch(charges, |decision| said.push(decision));
    assert_eq!(batched.is_some(), gate.store().memory().is_some());
    if batched.is_none() {
        said.extend(charges.iter().map(|charge| decide(gate, &[*charge]).decision()));
    }
    said
}

/// What is left for a key.
fn room(gate: &Gate, limit: &AdhocLimit, key: &[&[u8]]) -> u32 {
    let charge = AdhocCharge { limit, key, cost: 0 };
    done(gate.peek_adhoc(&[charge])).each[0].remaining
}

fn any(rng: &mut Rng, below: u64) -> usize {
    usize::try_from(rng.below(below)).unwrap()
}

/// One by one, in a batch, and looked at before: what the core says.
#[test]
fn a_plain_limit_is_the_policy_digit_for_digit() {
    for seed in 0..turns(60).into() {
        let mut rng = Rng::new(seed);
        let (gate, clock) = empty();
        let (batched, batched_clock) = empty();
        let quota = Quota::new(1 + rng.below_u32(20), Span::from_secs(1 + rng.below_u32(60)));
        let policy = Policy::new(KINDS[any(&mut rng, 7)], quota).unwrap();
        let (one, other) = (plain(&gate, "p", policy), plain(&batched, "p", policy));
        let mut states: BTreeMap<usize, State> = BTreeMap::new();
        for _ in 0..30 {
            let span = Span::from_micros(rng.below(9_000_000));
            clock.advance(span);
            batched_clock.advance(span);
            let now = gate.now();
            let asked: Vec<(usize, u32)> =
                (0..rng.below(200)).map(|_| (any(&mut rng, 40), rng.below_u32(4))).collect();
            let mut expected = Vec::new();
            for (id, cost) in &asked {
                let state = states.entry(*id).or_insert_with(|| policy.fresh());
                let looked = policy.peek(&mut state.clone(), now, *cost);
                expected.push(policy.decide(state, now, *cost));
                let name = format!("key {id}");
                let key: [&[u8]; 1] = [name.as_bytes()];
                let charge = AdhocCharge { limit: &one, key: &key, cost: *cost };
                let peeked = done(gate.peek_adhoc(&[charge]));
                assert_eq!(peeked.each[..], [looked], "seed {seed}");
                let decided = decide(&gate, &[charge]);
                assert_eq!(decided.decision(), *expected.last().unwrap(), "seed {seed}");
                assert_eq!(decided.now, now);
            }
            let names: Vec<String> = asked.iter().map(|(id, _)| format!("key {id}")).collect();
            let keys: Vec<[&[u8]; 1]> = names.iter().map(|name| [name.as_bytes()]).collect();
            let charges = asked.iter().zip(&keys);
            let charges: Vec<AdhocCharge<'_>> = charges
                .map(|((_, cost), key)| AdhocCharge { limit: &other, key, cost: *cost })
                .collect();
            assert_eq!(batch(&batched, &charges), expected, "seed {seed}");
        }
    }
}

#[test]
fn several_are_charged_all_or_none() {
    let (gate, _clock) = empty();
    let (wide, tight) = (plain(&gate, "wide", per_day(100)), plain(&gate, "tight", per_day(2)));
    let key: &[&[u8]] = &[b"ada", b"7"];
    let both = |cost: u32| {
        [AdhocCharge { limit: &wide, key, cost }, AdhocCharge { limit: &tight, key, cost: 1 }]
    };
    assert_eq!(decide(&gate, &both(10)).verdict, Verdict::Allow);
    assert_eq!(decide(&gate, &both(10)).verdict, Verdict::Allow);
    let refused = decide(&gate, &both(10));
    assert!(!refused.verdict.passes());
    let passes: Vec<bool> = refused.each.iter().map(|it| it.verdict.passes()).collect();
    assert_eq!(passes, [true, false]);
    assert_eq!((room(&gate, &wide, key), room(&gate, &tight, key)), (80, 0));
    assert!(decide(&gate, &[]).verdict.passes());
}

#[test]
fn what_is_named_twice_is_charged_once_by_the_higher_cost() {
    let (gate, _clock) = empty();
    let limit = plain(&gate, "p", per_day(10));
    let key: &[&[u8]] = &[b"ada"];
    let charge = |cost: u32| AdhocCharge { limit: &limit, key, cost };
    let decided = decide(&gate, &[charge(2), charge(5), charge(3)]);
    let left: Vec<u32> = decided.each.iter().map(|it| it.remaining).collect();
    assert_eq!(left, [5, 5, 5]);
    let changed = plain(&gate, "p", per_day(20));
    let charge = [charge(1), AdhocCharge { limit: &changed, key, cost: 4 }];
    assert_eq!(decide(&gate, &charge).each[0].remaining, 11);
}

#[test]
fn a_name_is_one_limit_and_keeps_what_was_consumed() {
    let (gate, _clock) = empty();
    let limit = plain(&gate, "p", per_day(10));
    let key: &[&[u8]] = &[b"ada"];
    decide(&gate, &[AdhocCharge { limit: &limit, key, cost: 4 }]);
    assert_eq!(room(&gate, &plain(&gate, "p", per_day(10)), key), 6);
    assert_eq!(room(&gate, &plain(&gate, "other", per_day(10)), key), 10);
    let raised = plain(&gate, "p", per_day(20));
    assert_eq!((raised.name(), raised.policy()), ("p", &per_day(20)));
    assert_eq!(room(&gate, &raised, key), 16);
    assert_eq!(room(&gate, &limit, key), 16, "whoever still has the old one");
    assert_eq!(room(&gate, &plain(&gate, "p", per_day(2)), key), 0);
}

#[test]
fn a_rule_of_the_same_name_counts_apart() {
    let (gate, _clock) = empty();
    let limit = plain(&gate, "same", per_day(5));
    decide(&gate, &[AdhocCharge { limit: &limit, key: &[], cost: 4 }]);
    assert_eq!(left(&gate.decide(&tidegate_gate::Sample::new("GET /"))), [4]);
    assert_eq!(room(&gate, &limit, &[]), 1);
}

#[test]
fn different_parts_are_different_keys() {
    let (gate, _clock) = empty();
    let limit = plain(&gate, "p", per_day(5));
    let keys: [&[&[u8]]; 12] = [
        &[],
        &[b""],
        &[b"", b""],
        &[b"ab"],
        &[b"ab", b""],
        &[b"", b"ab"],
        &[b"a", b"b"],
        &[b"a", b"b", b""],
        &[b"a\0b"],
        &[b"a/b"],
        &[b"\xff\xfe"],
        &[b"\x01\0\0\0\0\0\0\0ab"],
    ];
    for (at, key) in keys.iter().enumerate() {
        let cost = u32::try_from(at % 5).unwrap() + 1;
        let decided = decide(&gate, &[AdhocCharge { limit: &limit, key, cost }]);
        assert_eq!(decided.each[0].remaining, 5 - cost, "{key:?}");
    }
}

#[test]
fn a_reset_makes_one_key_fresh() {
    let (gate, _clock) = empty();
    let limit = plain(&gate, "p", per_day(5));
    for key in [&[&b"ada"[..]], &[&b"bob"[..]]] {
        decide(&gate, &[AdhocCharge { limit: &limit, key, cost: 5 }]);
    }
    let names = done(gate.reset_adhoc(&limit, &[b"ada"])).unwrap();
    assert_eq!(names, ["p"]);
    assert_eq!((room(&gate, &limit, &[b"ada"]), room(&gate, &limit, &[b"bob"])), (5, 0));
}

/// Clients write keys: a long one is a key like any other, and no way around a limit.
#[test]
fn keys_of_any_length_are_counted_each_by_itself() {
    let (gate, _clock) = empty();
    let limit = plain(&gate, "p", per_day(5));
    let (long, other) = (vec![b'x'; 70_000], vec![b'y'; 70_000]);
    let keys: [&[&[u8]]; 6] = [
        &[&long],
        &[&long[1..]],
        &[&other],
        &[&long, b"x"],
        &[&long[1..], b"xx"],
        &[&long[..3_999], b"x"],
    ];
    for (at, key) in keys.iter().enumerate() {
        let cost = u32::try_from(at % 5).unwrap() + 1;
        let decided = decide(&gate, &[AdhocCharge { limit: &limit, key, cost }]);
        assert_eq!(decided.each[0].remaining, 5 - cost, "{at}");
    }
    let left = |key| room(&gate, &limit, key);
    assert_eq!((left(keys[0]), left(keys[1])), (4, 3), "the second time they are who they were");
    let charges =
        [keys[0], keys[1], keys[4]].map(|key| AdhocCharge { limit: &limit, key, cost: 1 });
    let passes = batch(&gate, &charges).iter().map(|it| it.verdict.passes()).collect::<Vec<_>>();
    assert_eq!(passes, [true, true, false]);
    done(gate.reset_adhoc(&limit, keys[4])).unwrap();
    assert_eq!((left(keys[4]), left(keys[0])), (5, 3));
}

#[test]
fn more_limits_than_are_judged_at_once_pass_all_or_are_charged_to_none() {
    let (gate, _clock) = empty();
    let limit = plain(&gate, "p", per_day(5));
    let names: Vec<String> = (0..=3 * MemoryStore::LIMITS_MAX).map(|id| id.to_string()).collect();
    let keys: Vec<[&[u8]; 1]> = names.iter().map(|name| [name.as_bytes()]).collect();
    let mut charges: Vec<AdhocCharge<'_>> =
        keys.iter().map(|key| AdhocCharge { limit: &limit, key, cost: 1 }).collect();
    // One that stands twice is charged once, by the higher cost.
    charges.push(AdhocCharge { cost: 3, ..charges[0] });
    let decided = decide(&gate, &charges);
    assert!(decided.verdict.passes());
    let left: Vec<u32> = decided.each.iter().map(|it| it.remaining).collect();
    assert_eq!((left[0], left.last(), left.len()), (2, Some(&2), charges.len()));
    assert!(left[1..keys.len()].iter().all(|left| *left == 4), "{left:?}");
    decide(&gate, &[AdhocCharge { cost: 4, ..charges[keys.len() - 1] }]);
    let refused = decide(&gate, &charges);
    assert!(matches!(refused.verdict, Verdict::Deny { .. }), "{:?}", refused.verdict);
    assert_eq!((refused.each.len(), room(&gate, &limit, &keys[1])), (charges.len(), 4));
}

#[test]
fn there_is_a_bound_on_names() {
    let (gate, _clock) = empty();
    for id in 0..AdhocLimit::LIMITS_MAX {
        plain(&gate, &id.to_string(), per_day(5));
    }
    let error = gate.adhoc("more", per_day(5), WithoutStore::Open).unwrap_err().to_string();
    assert!(error.contains("4096 plain limits"), "{error}");
    // Those that are there go on, and may be changed.
    assert_eq!(plain(&gate, "7", per_day(9)).policy(), &per_day(9));
    let (gate, _clock) = empty();
    assert!(gate.adhoc(&"x".repeat(257), per_day(5), WithoutStore::Open).is_err());
    let permits = Policy::new(Kind::Concurrency, Quota::new(2, Span::from_secs(60))).unwrap();
    assert!(gate.adhoc("permits", permits, WithoutStore::Open).is_err());
}
