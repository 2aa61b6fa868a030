//! Rules that split off from others, or take in others: what a key has consumed there counts here.

#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Change, Kind, Policy, Quota, Span, Tick};
use tidegate_store::{MemoryStore, Rule, Wanted};

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

fn put(store: &MemoryStore, policy: Policy, before: Option<&Rule>, besides: &Rule) -> Rule {
    let change = Change::Quota;
    let wanted = Wanted { policy, before, change, besides: std::slice::from_ref(besides) };
    store.put(&[wanted], NOW).unwrap().remove(0)
}

#[test]
fn a_rule_that_splits_off_begins_with_what_was_consumed() {
    for (from, to) in KINDS.iter().flat_map(|from| KINDS.map(|to| (*from, to))) {
        let store = MemoryStore::new();
        let old = store.rule(day(from, 100)).unwrap();
        let [ada, bob] = ["ada", "bob"].map(|key| store.key(key).unwrap());
        store.decide(&old, ada, NOW, 90);
        let own = put(&store, day(to, 200), None, &old);
        let left = |rule: &Rule, key| store.peek(rule, key, NOW, 0).remaining;
        assert_eq!([left(&own, ada), left(&own, bob)], [110, 200], "{from} to {to}");
        // From then on each for itself.
        store.decide(&own, ada, NOW, 50);
        store.decide(&old, ada, NOW, 5);
        assert_eq!([left(&own, ada), left(&old, ada)], [60, 5], "{from} to {to}");
        let own = store.change(&own, day(to, 300), NOW).unwrap();
        assert_eq!(left(&own, ada), 160, "{from} to {to}");
    }
}

#[test]
fn of_several_the_most_counts() {
    for kind in [Kind::TokenBucket, Kind::FixedWindow, Kind::SlidingWindow] {
        let store = MemoryStore::new();
        let [one, two] = [100, 300].map(|cells| store.rule(day(kind, cells)).unwrap());
        let [ada, bob] = ["ada", "bob"].map(|key| store.key(key).unwrap());
        for (rule, key, cost) in [(&one, ada, 10), (&two, ada, 150), (&one, bob, 60)] {
            store.decide(rule, key, NOW, cost);
        }
        let both = put(&store, day(kind, 200), Some(&one), &two);
        let left = [ada, bob].map(|key| store.peek(&both, key, NOW, 0).remaining);
        assert_eq!(left, [50, 140], "{kind}");
        // The first is what both have become; the other is not.
        assert_eq!(store.peek(&one, ada, NOW, 0).remaining, 50, "{kind}");
    }
}

#[test]
fn nobody_looks_any_more_once_all_is_paid() {
    let store = MemoryStore::with_keys_max(64);
    let policy = Policy::token_bucket(Quota::per_minute(10)).unwrap();
    let old = store.rule(policy).unwrap();
    let key = store.key("ada").unwrap();
    let own = put(&store, policy, None, &old);
    let later = NOW.after(Span::from_secs(120));
    for _ in 0..1_000 {
        store.decide(&own, store.key("other").unwrap(), later, 0);
    }
    store.decide(&old, key, later, 7);
    assert_eq!(store.peek(&own, key, later, 0).remaining, 10);
}

#[test]
fn a_key_that_is_reset_stays_fresh() {
    let store = MemoryStore::new();
    let old = store.rule(day(Kind::TokenBucket, 10)).unwrap();
    let key = store.key("ada").unwrap();
    store.decide(&old, key, NOW, 7);
    let own = put(&store, day(Kind::TokenBucket, 20), None, &old);
    store.reset(&own, key);
    assert_eq!(store.peek(&own, key, NOW, 0).remaining, 20);
}

#[test]
fn a_flood_at_the_cap_gives_nothing_back() {
    let store = MemoryStore::with_keys_max(1_000);
    let old = store.rule(day(Kind::TokenBucket, 1_000)).unwrap();
    let key = |number: u32| store.key(number).unwrap();
    for number in 1..=900 {
        store.decide(&old, key(number), NOW, number);
    }
    let own = put(&store, day(Kind::TokenBucket, 1_000), None, &old);
    for number in (1..=900).rev() {
        store.decide(&own, key(number), NOW, 1);
    }
    assert!(store.len() <= 1_000);
    for number in 1..=900 {
        let left = store.peek(&own, key(number), NOW, 0).remaining;
        assert!(left <= 1_000 - number, "{left} left after {number}");
    }
}

/// What is paid under the rule that it was consumed under may be owed for much longer here.
#[test]
fn a_key_that_nobody_asks_about_for_long_owes_what_it_owed() {
    let store = MemoryStore::with_keys_max(64);
    let minute = Policy::token_bucket(Quota::per_minute(100)).unwrap();
    let old = store.rule(minute).unwrap();
    let [key, other] = ["ada", "other"].map(|key| store.key(key).unwrap());
    store.decide(&old, key, NOW, 90);
    let own = put(&store, day(Kind::TokenBucket, 200), None, &old);
    let later = NOW.after(Span::from_secs(432));
    for _ in 0..10_000 {
        store.decide(&old, other, later, 0);
    }
    assert_eq!(store.peek(&own, key, later, 0).remaining, 111, "a day pays 200");
    assert_eq!(store.peek(&old, key, later, 0).remaining, 100);
}
