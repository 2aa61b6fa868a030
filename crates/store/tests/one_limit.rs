//! Quotas of one limit: a key has one state under all of them.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicU32, Ordering};

use tidegate_core::{Kind, Policy, Quota, Span, Tick};
use tidegate_store::{Charge, Key, MemoryStore, NamedRule, Rule, Wanted};

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

const KINDS: [Kind; 6] = [
    Kind::TokenBucket,
    Kind::Gcra,
    Kind::FixedWindow,
    Kind::SlidingWindow,
    Kind::SlidingLog,
    Kind::Concurrency,
];

fn day(kind: Kind, cells: u32) -> Policy {
    Policy::new(kind, Quota::per_day(cells)).unwrap()
}

/// Rules that are quotas of one limit from now on.
fn put<const N: usize>(
    store: &MemoryStore,
    quotas: [(Policy, Option<&Rule>); N],
    now: Tick,
) -> [Rule; N] {
    let wanted = quotas.map(|(policy, before)| Wanted {
        policy,
        whole: policy,
        before,
        limit: 7,
        others: &[],
    });
    store.put(&wanted, now).unwrap().try_into().unwrap()
}

fn left(store: &MemoryStore, rule: &Rule, key: Key) -> u32 {
    store.peek(rule, key, NOW, 0).remaining
}

fn pairs() -> impl Iterator<Item = (Kind, Kind)> {
    KINDS.into_iter().flat_map(|from| KINDS.map(|to| (from, to)))
}

#[test]
fn a_key_takes_its_state_along_from_one_quota_to_another() {
    for (from, to) in pairs() {
        let store = MemoryStore::new();
        let old = store.rule(day(from, 100)).unwrap();
        let [ada, bob] = ["ada", "bob"].map(|key| store.key(key).unwrap());
        store.decide(&old, ada, NOW, 90);
        let [old, own] = put(&store, [(day(from, 100), Some(&old)), (day(to, 200), None)], NOW);
        let left = |rule: &Rule, key| left(&store, rule, key);
        assert_eq!([left(&own, ada), left(&own, bob)], [110, 200], "{from} to {to}");
        store.decide(&own, ada, NOW, 50);
        // Under either of them, and there and back.
        assert_eq!([left(&old, ada), left(&own, ada)], [0, 60], "{from} to {to}");
        let own = store.change(&own, day(to, 300), NOW).unwrap();
        assert_eq!([left(&old, ada), left(&own, ada)], [0, 160], "{from} to {to}");
        assert_eq!(store.len(), 1, "{from} to {to}");
    }
}

#[test]
fn an_override_that_comes_and_goes_grants_nothing() {
    for (from, to) in pairs().filter(|(from, _)| *from != Kind::Concurrency) {
        let store = MemoryStore::new();
        let key = store.key("ada").unwrap();
        let mut base = store.rule(day(from, 100)).unwrap();
        let mut passed = 0;
        for turn in 0..50 {
            let ask = |rule: &Rule| u32::from(store.decide(rule, key, NOW, 1).verdict.passes());
            passed += (0..150).map(|_| ask(&base)).sum::<u32>();
            let own;
            [base, own] = put(&store, [(day(from, 100), Some(&base)), (day(to, 120), None)], NOW);
            if turn % 3 != 0 {
                passed += (0..150).map(|_| ask(&own)).sum::<u32>();
            }
        }
        assert_eq!(passed, 120, "{from} and {to}");
    }
}

/// Some go by the policy before, some by the next.
#[test]
fn threads_that_ask_by_both_quotas_let_no_more_pass_than_the_larger() {
    for (from, to) in pairs() {
        let store = MemoryStore::new();
        let old = store.rule(day(from, 100)).unwrap();
        for number in 0..50 {
            let key = store.key(number).unwrap();
            let [base, own] =
                put(&store, [(day(from, 100), Some(&old)), (day(to, 120), None)], NOW);
            let passed = AtomicU32::new(0);
            std::thread::scope(|scope| {
                for rule in [&base, &own, &old] {
                    let (store, passed) = (&store, &passed);
                    scope.spawn(move || {
                        for turn in 0..100 {
                            let charge = Charge { rule, key, cost: 1 };
                            let verdict = match turn % 2 {
                                0 => store.decide(rule, key, NOW, 1).verdict,
                                _ => store.decide_all(&[charge], NOW, |_, _| ()),
                            };
                            passed.fetch_add(u32::from(verdict.passes()), Ordering::Relaxed);
                        }
                    });
                }
            });
            let passed = passed.into_inner();
            assert!((100..=120).contains(&passed), "{passed}: {from} and {to}");
        }
    }
}

/// Two limits that are one from now on: as when a rule has no tiers any more.
#[test]
fn of_two_states_that_become_one_the_worse_counts() {
    for (from, to) in pairs() {
        let store = MemoryStore::new();
        let [one, two] =
            [(from, 100), (to, 300)].map(|(kind, it)| store.rule(day(kind, it)).unwrap());
        let [ada, bob] = ["ada", "bob"].map(|key| store.key(key).unwrap());
        for (rule, key, cost) in [(&one, ada, 10), (&two, ada, 150), (&one, bob, 60)] {
            store.decide(rule, key, NOW, cost);
        }
        let [base, own] =
            put(&store, [(day(from, 100), Some(&one)), (day(to, 300), Some(&two))], NOW);
        assert_eq!([ada, bob].map(|key| left(&store, &own, key)), [150, 240], "{from} and {to}");
        assert_eq!([&one, &base].map(|rule| left(&store, rule, bob)), [40, 40], "{from} and {to}");
        assert_eq!(store.len(), 2, "{from} and {to}");
    }
}

/// As when the tiers of a rule go, and so does the quota of its own that a key has.
#[test]
fn a_new_limit_may_go_on_from_quotas_that_are_no_more() {
    for (from, to) in pairs() {
        let store = MemoryStore::new();
        let own = store.rule(day(from, 100)).unwrap();
        let ada = store.key("ada").unwrap();
        store.decide(&own, ada, NOW, 30);
        let (policy, others) = (day(to, 50), [own.clone()]);
        let wanted = Wanted { policy, whole: policy, before: None, limit: 0, others: &others };
        let base = store.put(&[wanted], NOW).unwrap().remove(0);
        assert_eq!([&base, &own].map(|rule| left(&store, rule, ada)), [20, 70], "{from} to {to}");
    }
}

#[test]
fn permits_are_given_back_and_renewed_whichever_quota_their_key_has_by_now() {
    let store = MemoryStore::new();
    let policy = |cells| day(Kind::Concurrency, cells);
    let old = store.rule(policy(3)).unwrap();
    let key = store.key("ada").unwrap();
    let take = || store.decide_with_receipt(&old, key, NOW, 1).1.unwrap();
    let (first, second) = (take(), take());
    let [_, own] = put(&store, [(policy(3), Some(&old)), (policy(5), None)], NOW);
    assert_eq!(left(&store, &own, key), 3);
    assert!(store.refund(&old, key, NOW, first));
    assert_eq!(left(&store, &own, key), 4);
    let later = NOW.after(Span::from_secs(80_000));
    let second = store.renew(&old, key, later, second).unwrap();
    let late = later.after(Span::from_secs(80_000));
    assert_eq!(store.peek(&own, key, late, 0).remaining, 4);
    assert!(store.refund(&own, key, late, second));
    assert_eq!(store.peek(&own, key, late, 0).remaining, 5);
}

#[test]
fn a_key_that_is_reset_stays_fresh() {
    let store = MemoryStore::new();
    let old = store.rule(day(Kind::TokenBucket, 10)).unwrap();
    let key = store.key("ada").unwrap();
    store.decide(&old, key, NOW, 7);
    let [old, own] =
        put(&store, [(day(Kind::TokenBucket, 10), Some(&old)), (day(Kind::Gcra, 20), None)], NOW);
    store.reset(&own, key);
    assert_eq!([&old, &own].map(|rule| left(&store, rule, key)), [10, 20]);
}

#[test]
fn a_flood_at_the_cap_gives_nothing_back() {
    for to in [Kind::TokenBucket, Kind::FixedWindow] {
        let store = MemoryStore::with_keys_max(1_000);
        let old = store.rule(day(Kind::TokenBucket, 1_000)).unwrap();
        let key = |number: u32| store.key(number).unwrap();
        for number in 1..=900 {
            store.decide(&old, key(number), NOW, number);
        }
        // Some of them have no state of their own any more.
        for number in 10_000..11_000 {
            store.decide(&old, key(number), NOW, 1);
        }
        let quotas = [(day(Kind::TokenBucket, 1_000), Some(&old)), (day(to, 1_000), None)];
        let [_, own] = put(&store, quotas, NOW);
        for number in (1..=900).rev() {
            store.decide(&own, key(number), NOW, 1);
        }
        for number in 1..=900 {
            let left = left(&store, &own, key(number));
            assert!(left <= 1_000 - number, "{left} left after {number}");
        }
    }
}

/// A quota counts for a key from its first request under it: until then it lives under the one
/// before, and may be forgotten when that has been paid.
#[test]
fn a_key_that_nobody_asks_about_is_paid_by_the_quota_that_it_had() {
    let store = MemoryStore::with_keys_max(64);
    let minute = Policy::token_bucket(Quota::per_minute(100)).unwrap();
    let old = store.rule(minute).unwrap();
    let [asked, idle] = ["asked", "idle"].map(|key| store.key(key).unwrap());
    for key in [asked, idle] {
        store.decide(&old, key, NOW, 90);
    }
    let new = store.change(&old, day(Kind::TokenBucket, 200), NOW).unwrap();
    assert_eq!(left(&store, &new, asked), 110);
    let later = NOW.after(Span::from_secs(432));
    let left = [asked, idle].map(|key| store.peek(&new, key, later, 0).remaining);
    assert_eq!(left, [111, 200], "a day pays 200, a minute 100");
}

/// Ids run short while quotas of single keys come and go: what was consumed is kept.
#[test]
fn quotas_of_single_keys_can_come_and_go_for_ever() {
    let store = MemoryStore::new();
    let policy = day(Kind::TokenBucket, 1_000);
    let mut base = store.rule(policy).unwrap();
    let [asked, idle] = ["asked", "idle"].map(|key| store.key(key).unwrap());
    store.decide(&base, idle, NOW, 300);
    for turn in 0..150_000 {
        let own;
        [base, own] =
            put(&store, [(policy, Some(&base)), (day(Kind::TokenBucket, 900), None)], NOW);
        if turn % 1_000 == 0 {
            store.decide(&own, asked, NOW, 1);
        }
    }
    assert_eq!([asked, idle].map(|key| left(&store, &base, key)), [850, 700]);
}

#[test]
fn quotas_of_one_limit_are_that_after_a_restart() {
    for (from, to) in pairs() {
        let store = MemoryStore::new();
        let [base, own] = put(&store, [(day(from, 100), None), (day(to, 120), None)], NOW);
        let [ada, bob] = ["ada", "bob"].map(|key| store.key(key).unwrap());
        store.decide(&own, ada, NOW, 90);
        store.decide(&base, bob, NOW, 20);
        let named = [
            NamedRule { name: "r", limit: "", rule: &base },
            NamedRule { name: "r/=ada", limit: "r", rule: &own },
        ];
        let mut file = Vec::new();
        store.export(&named, NOW, &mut file).unwrap();
        let again = MemoryStore::restore(&mut &file[..], MemoryStore::KEYS_MAX).unwrap();
        let store = again.store;
        let [ada, bob] = ["ada", "bob"].map(|key| store.key(key).unwrap());
        let mut rules = again.rules;
        rules.sort_by(|one, other| one.name.cmp(&other.name));
        let [base, own] = &rules[..] else { panic!("both are there") };
        for (rule, expected) in [(&base.rule, [10, 80]), (&own.rule, [30, 100])] {
            assert_eq!([ada, bob].map(|key| left(&store, rule, key)), expected, "{from} and {to}");
        }
    }
}
