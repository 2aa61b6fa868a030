//! At the cap: a flood of new keys resets nobody, and shuts few newcomers out.
#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Kind, Policy, Quota, Span, Tick, Verdict};
use tidegate_store::{Charge, Key, MemoryStore, Rule};

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

#[test]
fn ten_million_sprayed_keys_never_reset_a_key_in_debt() {
    let keys_max = 20_000;
    for kind in [Kind::Gcra, Kind::FixedWindow, Kind::SlidingWindow] {
        let store = MemoryStore::with_keys_max(keys_max);
        let rule = store.rule(Policy::new(kind, Quota::per_day(1_000)).unwrap()).unwrap();
        let mut now = NOW;
        // Keys in every kind of debt, from one cell to all of them.
        let indebted: Vec<(Key, u32)> =
            (1..=1_000).map(|debt| (store.key(("indebted", debt)).unwrap(), debt)).collect();
        for &(key, debt) in &indebted {
            assert!(store.decide(&rule, key, now, debt).verdict.passes());
        }
        let sprays: u64 = if kind == Kind::Gcra { 10_000_000 } else { 1_000_000 };
        for spray in 0..sprays {
            now = now.after(Span::from_micros(u64::from(spray % 8 == 0)));
            store.decide(&rule, store.key(("spray", spray)).unwrap(), now, 1);
        }
        assert!(store.len() <= keys_max, "{} keys of {keys_max}", store.len());
        for &(key, debt) in &indebted {
            let remaining = store.peek(&rule, key, now, 0).remaining;
            // A second and a quarter have earned nothing whole at a thousand a day.
            assert!(remaining <= 1_000 - debt, "{kind}: {remaining} left after a debt of {debt}");
        }
    }
}

/// The rate law holds for every single key through the worst flood: what each was let pass, from
/// the first request to the last, is at most a burst and what the rate earned.
#[test]
fn at_the_cap_every_key_keeps_the_rate_law() {
    let store = MemoryStore::with_keys_max(64);
    let quota = Quota::per_second(10);
    let rule = store.rule(Policy::token_bucket(quota).unwrap()).unwrap();
    let mut passed = vec![0_u64; 1_000];
    let mut now = NOW;
    for round in 0..400_000_u64 {
        now = now.after(Span::from_micros(3));
        let id = round * round % 977;
        let key = store.key(id).unwrap();
        let decision = store.decide(&rule, key, now, 1);
        passed[usize::try_from(id).unwrap()] += u64::from(decision.verdict.passes());
    }
    let most = 10 + 10 * now.since(NOW).get() / 1_000_000;
    assert!(passed.iter().all(|&passed| passed <= most), "{:?} of {most}", passed.iter().max());
    let together: u64 = passed.iter().sum();
    assert!(64 * most / 2 < together, "newcomers are starved: {together} passed");
    assert!(store.len() <= 64);
}

/// Newcomers get in again as soon as the flood's debts are paid.
#[test]
fn after_a_flood_newcomers_are_fresh_again() {
    let store = MemoryStore::with_keys_max(1_000);
    let rule = store.rule(Policy::token_bucket(Quota::per_minute(60)).unwrap()).unwrap();
    for spray in 0..100_000 {
        store.decide(&rule, store.key(spray).unwrap(), NOW, 1);
    }
    let later = NOW.after(Span::from_secs(61));
    let decision = store.decide(&rule, store.key("newcomer").unwrap(), later, 1);
    assert_eq!((decision.verdict, decision.remaining), (Verdict::Allow, 59));
}

#[test]
fn a_full_store_of_permits_refuses_newcomers_until_something_is_forgotten() {
    let store = MemoryStore::with_keys_max(100);
    let rule = store.rule(Policy::new(Kind::Concurrency, Quota::per_minute(5)).unwrap()).unwrap();
    for id in 0..=50 {
        let later = NOW.after(Span::from_secs(id));
        assert!(store.decide(&rule, store.key(id).unwrap(), later, 5).verdict.passes());
    }
    let filler = NOW.after(Span::from_secs(50));
    for id in 1_000..1_200 {
        store.decide(&rule, store.key(id).unwrap(), filler, 1);
    }
    assert!((90..=100).contains(&store.len()), "{} of 100", store.len());
    let newcomer = store.key("newcomer").unwrap();
    let refused = store.decide(&rule, newcomer, filler, 1);
    let Verdict::Deny { retry_after } = refused.verdict else { panic!("no cap") };
    assert_eq!(refused.remaining, 0);
    let known = store.key(50_u32).unwrap();
    assert_eq!(store.peek(&rule, known, filler, 0).remaining, 0, "reset by a flood");
    // As exact as any other promise: not a tick before the first one leaves.
    let too_soon = filler.after(Span::from_micros(retry_after.get() - 1));
    assert!(!store.decide(&rule, newcomer, too_soon, 1).verdict.passes());
    let free = filler.after(retry_after);
    assert!(store.decide(&rule, newcomer, free, 1).verdict.passes());
}

/// In a full store a permit that is given back is one that a newcomer can have at once.
#[test]
fn a_permit_that_is_given_back_makes_room() {
    let store = MemoryStore::with_keys_max(100);
    let rule = store.rule(Policy::new(Kind::Concurrency, Quota::per_minute(5)).unwrap()).unwrap();
    let enter = |id: u32| store.decide_with_receipt(&rule, store.key(id).unwrap(), NOW, 1).1;
    let mut held: Vec<_> = (0..400).filter_map(|id| Some((id, enter(id)?))).collect();
    assert_eq!(held.len(), 100);
    for (id, receipt) in held.drain(..50) {
        store.refund(&rule, store.key(id).unwrap(), NOW, receipt);
    }
    let entered = (1_000..1_400).filter(|newcomer| enter(*newcomer).is_some()).count();
    assert_eq!((entered, store.len()), (50, 100));
}

/// Policies whose keys are judged in groups at the cap; of a bucket also with two words of state.
fn grouped(cells: u32) -> impl Iterator<Item = Policy> {
    let kinds = Kind::ALL.into_iter().filter(|kind| *kind != Kind::Concurrency);
    let narrow = kinds.map(move |kind| Policy::new(kind, Quota::per_hour(cells)).unwrap());
    let wide = Quota::new(1_000_003, Span::from_secs(86_400)).burst(cells);
    narrow.chain([Policy::token_bucket(wide).unwrap()])
}

/// How many of a thousand that nobody ever saw find at least half of their allowance.
fn newcomers_well_off(store: &MemoryStore, rule: &Rule, now: Tick) -> usize {
    let keys = (0..1_000).map(|id| store.key(("newcomer", id)).unwrap());
    let left = keys.map(|key| store.peek(rule, key, now, 0).remaining);
    left.filter(|left| rule.policy().limit() <= 2 * left).count()
}

/// With as many keys beyond the cap as there are groups, one in e groups is not hit; with a quarter
/// of that, four in five are not. Keys that take one cell each hardly matter at all.
#[test]
fn a_flood_beyond_the_cap_costs_a_newcomer_its_allowance_only_if_it_hit_its_group() {
    let keys_max = 1 << 14;
    for policy in grouped(10) {
        for (beyond, cost, well_off) in [
            (keys_max / 16, 10, 730..=830),
            (keys_max / 4, 10, 310..=430),
            (keys_max / 4, 1, 980..=1_000),
        ] {
            let store = MemoryStore::with_keys_max(keys_max);
            let rule = store.rule(policy).unwrap();
            let (mut sprayed, mut crowded) = (0_u32, 0);
            while crowded < beyond as u64 {
                store.decide(&rule, store.key(("spray", sprayed)).unwrap(), NOW, cost);
                sprayed += 1;
                crowded = store.stats().crowded;
            }
            let found = newcomers_well_off(&store, &rule, NOW);
            assert!(well_off.contains(&found), "{policy:?}: {found} of 1,000 after {beyond} keys");
            assert!(store.len() <= keys_max);
            // Time heals: sooner or later nobody remembers the flood.
            let later = NOW.after(Span::from_secs(86_400));
            assert_eq!(newcomers_well_off(&store, &rule, later), 1_000, "{policy:?}");
        }
    }
}

/// A store that is full of one rule's keys, many times over, has room for another rule's.
#[test]
fn a_flood_under_one_rule_leaves_the_newcomers_of_another_alone() {
    for policy in grouped(10) {
        let store = MemoryStore::with_keys_max(1 << 13);
        let [flooded, other] = [policy, policy].map(|policy| store.rule(policy).unwrap());
        for id in 0..80_000 {
            store.decide(&flooded, store.key(("spray", id)).unwrap(), NOW, 10);
        }
        assert_eq!(newcomers_well_off(&store, &flooded, NOW), 0);
        let mut passed = 0;
        for id in 0..200 {
            let key = store.key(("client", id)).unwrap();
            passed +=
                (0..10).filter(|_| store.decide(&other, key, NOW, 1).verdict.passes()).count();
        }
        assert!(1_500 <= passed, "{policy:?}: {passed} of 2,000");
    }
}

/// What is over its limit stays refused through the worst flood, whether it had a state of its own
/// or came when there was no room any more; through changes of its quota, too.
#[test]
fn at_the_cap_nobody_is_forgiven() {
    for policy in grouped(20) {
        let store = MemoryStore::with_keys_max(1 << 12);
        let mut rule = store.rule(policy).unwrap();
        let spray = |rule: &Rule, of: &str, count: u32| {
            for id in 0..count {
                store.decide(rule, store.key((of, id)).unwrap(), NOW, 1 + id % 3);
            }
        };
        let over = |rule: &Rule, of: &str| {
            let keys = (0..300).map(|id| store.key((of, id)).unwrap());
            keys.filter(|key| 0 < store.peek(rule, *key, NOW, 0).remaining).count()
        };
        let use_up = |rule: &Rule, of: &str| {
            for id in 0..300 {
                let key = store.key((of, id)).unwrap();
                while store.decide(rule, key, NOW, 1).verdict.passes() {}
            }
        };
        use_up(&rule, "early");
        spray(&rule, "first", 8_000);
        use_up(&rule, "late");
        spray(&rule, "second", 8_000);
        assert_eq!((over(&rule, "early"), over(&rule, "late")), (0, 0), "{policy:?}");
        for other in grouped(20).chain([policy]) {
            rule = store.change(&rule, other, NOW).unwrap();
            spray(&rule, "more", 3_000);
            assert_eq!((over(&rule, "early"), over(&rule, "late")), (0, 0), "{policy:?} {other:?}");
        }
    }
}

/// Groups of many rules share the room that there is: they get wider, and nobody is forgiven.
#[test]
fn groups_of_many_rules_fit_the_room_of_one() {
    for policy in grouped(5) {
        let store = MemoryStore::with_keys_max(1 << 10);
        let rules: Vec<Rule> = (0..100).map(|_| store.rule(policy).unwrap()).collect();
        for id in 0..2_000 {
            store.decide(&rules[0], store.key(("first", id)).unwrap(), NOW, 1);
        }
        // Without room of its own, before groups get wider.
        let early = store.key("early").unwrap();
        while store.decide(&rules[0], early, NOW, 1).verdict.passes() {}
        for (rule, id) in rules.iter().zip(0_u32..).cycle().take(40_000) {
            let key = store.key((id, store.stats().crowded)).unwrap();
            store.decide(rule, key, NOW, 2);
        }
        let key = store.key("late").unwrap();
        for rule in &rules {
            while store.decide(rule, key, NOW, 1).verdict.passes() {}
        }
        let stats = store.stats();
        assert!(stats.keys <= 1 << 10 && stats.groups <= 1 << 8, "{policy:?}: {stats:?}");
        assert!(rules.iter().all(|rule| store.peek(rule, key, NOW, 0).remaining == 0));
        assert_eq!(store.peek(&rules[0], early, NOW, 0).remaining, 0, "{policy:?}");
        // Once all is paid, groups are forgotten with the keys.
        let later = NOW.after(Span::from_secs(86_400));
        for id in 0..200_000 {
            store.decide(&rules[0], store.key(id % 10).unwrap(), later, 0);
            store.decide(&rules[0], store.key(id % 10).unwrap(), later, 1);
        }
        let stats = store.stats();
        assert!(stats.keys <= 10 && stats.groups == 0, "{policy:?}: {stats:?}");
    }
}

/// Keys and groups together take no more than a key may take, for as many keys as there may be,
/// but for chance.
#[test]
fn groups_are_kept_inside_the_memory_of_the_cap() {
    for policy in grouped(10) {
        let keys_max = 1 << 15;
        let store = MemoryStore::with_keys_max(keys_max);
        let rule = store.rule(policy).unwrap();
        let empty = store.stats().bytes;
        for id in 0..500_000 {
            store.decide(&rule, store.key(id).unwrap(), NOW, 1);
        }
        let stats = store.stats();
        assert!(stats.keys == keys_max && keys_max / 5 < stats.groups, "{policy:?}: {stats:?}");
        if policy.kind() != Kind::SlidingLog {
            // A shard whose last run does not fit before its end grows by an eighth more, which
            // befalls one store of a hundred; two of the sixteen never meet.
            let (whole, chance) = (keys_max * MemoryStore::BYTES_PER_KEY, 2);
            let most = whole + chance * whole / 16 / 8 + 16 * 32;
            assert!(stats.bytes - empty <= most, "{policy:?}: {stats:?}");
        }
    }
}

/// A flood, a change of quota in the middle of it, and another flood: what was owed stays owed.
#[test]
fn a_change_of_quota_at_the_cap_resets_nobody() {
    let day = |cells| Policy::token_bucket(Quota::per_day(cells)).unwrap();
    let log = Policy::new(Kind::SlidingLog, Quota::per_day(1_000)).unwrap();
    for (changed, floods) in [(day(1_500), 40_000), (day(9_999), 40_000), (log, 1_000)] {
        let store = MemoryStore::with_keys_max(2_000);
        let mut rule = store.rule(day(1_000)).unwrap();
        let indebted: Vec<(Key, u32)> =
            (1..=900).map(|debt| (store.key(("indebted", debt)).unwrap(), debt)).collect();
        for &(key, debt) in &indebted {
            assert!(store.decide(&rule, key, NOW, debt).verdict.passes());
        }
        for spray in 0..40_000 {
            store.decide(&rule, store.key(("spray", spray)).unwrap(), NOW, 3);
        }
        rule = store.change(&rule, changed, NOW).unwrap();
        for spray in 0..floods {
            store.decide(&rule, store.key(("more", spray)).unwrap(), NOW, 1);
        }
        for &(key, debt) in &indebted {
            let left = store.peek(&rule, key, NOW, 0).remaining;
            assert!(left <= changed.limit() - debt, "{changed:?}: {left} left after {debt}");
        }
    }
}

/// A request by two limits wants two places in one part of the store, and takes both or neither.
#[test]
fn a_request_by_several_limits_finds_room_for_all_of_them() {
    let permits = Policy::new(Kind::Concurrency, Quota::in_flight(1, Span::from_secs(60))).unwrap();
    let mut odd = 0;
    for _ in 0..20 {
        let store = MemoryStore::with_keys_max(100);
        let (one, two) = (store.rule(permits).unwrap(), store.rule(permits).unwrap());
        // Parts of the store that have one of these are left with an odd number of places.
        for client in 10_000..10_007_u32 {
            store.decide(&one, store.key(client).unwrap(), NOW, 1);
        }
        for client in 0..2_000_u32 {
            let key = store.key(client).unwrap();
            let charge = |rule| Charge { rule, key, cost: 1 };
            let before = store.len();
            let verdict = store.decide_all(&[charge(&one), charge(&two)], NOW, |_, _| {});
            assert_eq!(store.len() - before, if verdict.passes() { 2 } else { 0 });
        }
        assert!(store.len() <= 100, "{} of 100", store.len());
        odd += usize::from(store.len() < 100);
    }
    assert!(0 < odd, "no part was ever left with a single place");
}
