//! Exact under threads: what passed is what the algorithm allows, no more and no fewer.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tidegate_core::{Kind, Policy, Quota, Tick, Verdict};
use tidegate_store::{Charge, MemoryStore};

const THREADS: u64 = 4;
const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

#[test]
fn one_key_hammered_by_many_threads_admits_exactly_its_limit() {
    for kind in Kind::ALL {
        for quota in [Quota::per_hour(50_000), Quota::per_hour(9_999)] {
            let store = MemoryStore::new();
            let rule = store.rule(Policy::new(kind, quota).unwrap()).unwrap();
            let key = store.key("hot").unwrap();
            let passed = AtomicU64::new(0);
            thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        for _ in 0..40_000 {
                            let decision = store.decide(&rule, key, NOW, 1);
                            passed.fetch_add(decision.verdict.passes().into(), Ordering::Relaxed);
                        }
                    });
                }
            });
            let limit = u64::from(quota.cells());
            assert_eq!(passed.into_inner(), limit, "{kind} {quota}");
        }
    }
}

/// Time goes on while threads ask: in the end a bucket has passed its burst and what the rate
/// earned, up to the one cell that was not whole yet.
#[test]
fn one_key_under_a_running_clock_admits_what_the_rate_earns() {
    let store = MemoryStore::new();
    let quota = Quota::per_second(1_000_000).burst(10);
    let rule = store.rule(Policy::token_bucket(quota).unwrap()).unwrap();
    let key = store.key("hot").unwrap();
    let (ticks, passed) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..100_000 {
                    let now = Tick::from_micros(NOW.get() + ticks.fetch_add(1, Ordering::Relaxed));
                    for _ in 0..3 {
                        let decision = store.decide(&rule, key, now, 1);
                        passed.fetch_add(decision.verdict.passes().into(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let (ticks, passed) = (ticks.into_inner(), passed.into_inner());
    // One cell a tick is earned, and everybody always asks for three: nothing is left over but what
    // a thread that slept with an old tick could not take.
    assert!(passed <= 10 + ticks, "{passed} passed in {ticks} ticks");
    assert!(ticks * 99 / 100 <= passed, "only {passed} passed in {ticks} ticks");
}

/// The check-then-act race of the articles: a decision over several keys in different shards is
/// charged to all of them or to none, no matter what other threads decide.
#[test]
fn all_or_nothing_holds_for_keys_in_different_shards() {
    use Kind::{
        FixedWindow, Gcra, LeakyBucket, LeakyQueue, SlidingLog, SlidingWindow, TokenBucket,
    };
    check_all_or_nothing([TokenBucket, FixedWindow, SlidingLog, SlidingWindow], 9_000);
    // States of one word go a shorter way.
    check_all_or_nothing([TokenBucket, Gcra, LeakyBucket, LeakyQueue], 9_000);
    check_all_or_nothing([TokenBucket, Gcra, LeakyBucket, LeakyQueue], 90_000);
}

fn check_all_or_nothing(kinds: [Kind; 4], limit: u32) {
    let store = MemoryStore::with_keys_max(1 << 20);
    let quota = Quota::per_day(limit);
    let rules = kinds.map(|kind| store.rule(Policy::new(kind, quota).unwrap()).unwrap());
    // Every key is in several of the combinations, each time with others.
    let keys: Vec<_> = (0..8).map(|id| store.key(("key", id)).unwrap()).collect();
    let passed: Vec<AtomicU64> = keys.iter().map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, rules, keys, passed) = (&store, &rules, &keys, &passed);
            scope.spawn(move || {
                for round in 0..30_000 {
                    let start = usize::try_from(thread * 3 + round).unwrap();
                    let picks = [0, 1, 2].map(|step| (start + step * (1 + start % 3)) % keys.len());
                    let mut picks: Vec<usize> = picks.to_vec();
                    picks.sort_unstable();
                    picks.dedup();
                    // Every other time in the opposite order: locks must not be taken as named.
                    if round % 2 == 0 {
                        picks.reverse();
                    }
                    let charges: Vec<Charge<'_>> = picks
                        .iter()
                        .map(|&pick| Charge { rule: &rules[pick % 4], key: keys[pick], cost: 1 })
                        .collect();
                    let mut violated = 0;
                    let verdict = store.decide_all(&charges, NOW, |answer, _| {
                        violated += u32::from(!answer.verdict.passes());
                    });
                    assert_eq!(verdict.passes(), violated == 0);
                    if verdict.passes() {
                        for &pick in &picks {
                            passed[pick].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    for (pick, (key, passed)) in keys.iter().zip(passed).enumerate() {
        let left = store.peek(&rules[pick % 4], *key, NOW, 0).remaining;
        let left_to_pass = u64::from(limit) - passed.into_inner();
        assert_eq!(u64::from(left), left_to_pass, "key {pick}: a partial charge");
    }
}

#[test]
fn keys_sweeps_and_changes_of_quota_at_once_lose_nothing() {
    let store = MemoryStore::with_keys_max(100_000);
    let rule = store.rule(Policy::token_bucket(Quota::per_day(1_000)).unwrap()).unwrap();
    let short = store.rule(Policy::token_bucket(Quota::per_second(1_000)).unwrap()).unwrap();
    let wide = store.change(&rule, Policy::token_bucket(Quota::per_minute(9_999)).unwrap(), NOW);
    let wide = wide.unwrap();
    let passed = AtomicU64::new(0);
    let hot = store.key("hot").unwrap();
    store.decide(&rule, hot, NOW, 900);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, short, wide, passed) = (&store, &short, &wide, &passed);
            scope.spawn(move || {
                for round in 0..50_000 {
                    let decision = store.decide(wide, hot, NOW, 1);
                    passed.fetch_add(decision.verdict.passes().into(), Ordering::Relaxed);
                    let key = store.key((thread, round)).unwrap();
                    let later = Tick::from_micros(NOW.get() + round * 100);
                    assert_eq!(store.decide(short, key, later, 1).verdict, Verdict::Allow);
                }
            });
        }
    });
    // 900 of 1,000 were consumed before the quota became 9,999: 9,099 more pass, once.
    assert_eq!(passed.into_inner(), 9_099);
}

/// So many changes that states are carried over and names given to others all the time, while
/// everybody asks by what the rules were at first.
#[test]
fn names_that_are_given_to_others_mix_nothing_up() {
    let store = MemoryStore::with_keys_max(10_000);
    let kinds = [Kind::TokenBucket, Kind::FixedWindow, Kind::SlidingLog];
    let of = |kind, cells| Policy::new(kind, Quota::per_day(cells)).unwrap();
    // Names are few from the start.
    let _others: Vec<_> = (0..65_400).map(|_| store.rule(of(Kind::Gcra, 1)).unwrap()).collect();
    let rules = kinds.map(|kind| store.rule(of(kind, 9_000)).unwrap());
    let key = store.key("hot").unwrap();
    let passed = [0; 3].map(AtomicU64::new);
    thread::scope(|scope| {
        for _ in 1..THREADS {
            scope.spawn(|| {
                for round in 0..20_000 {
                    let at = round % 3;
                    let decision = store.decide(&rules[at], key, NOW, 1);
                    passed[at].fetch_add(decision.verdict.passes().into(), Ordering::Relaxed);
                }
            });
        }
        for change in 0..3_000 {
            for (rule, kind) in rules.iter().zip(kinds) {
                let _ = store.change(rule, of(kind, 9_000 + change), NOW).unwrap();
            }
        }
        for (rule, kind) in rules.iter().zip(kinds) {
            let _ = store.change(rule, of(kind, 25_000), NOW).unwrap();
        }
    });
    for ((rule, kind), passed) in rules.iter().zip(kinds).zip(passed) {
        let left = u64::from(store.peek(rule, key, NOW, 0).remaining);
        assert_eq!(left, 25_000 - passed.into_inner(), "{kind}");
    }
}
