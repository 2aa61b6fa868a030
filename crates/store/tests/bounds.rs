//! Bounded: states that are forgotten, rules that run out, and changes without end.

use tidegate_core::{Kind, Policy, Quota, Span, Tick, Verdict};
use tidegate_store::{Charge, MemoryStore, Rule, Wanted};

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

#[test]
fn idle_keys_are_forgotten_by_the_work_of_other_keys() {
    for kind in Kind::ALL {
        let store = MemoryStore::with_keys_max(200_000);
        let rule = store.rule(Policy::new(kind, Quota::per_second(10)).unwrap()).unwrap();
        for id in 0..50_000 {
            store.decide(&rule, store.key(id).unwrap(), NOW, 1);
        }
        let idle = store.len();
        assert!(50_000 <= idle, "{kind}");
        let later = NOW.after(Span::from_secs(60));
        let hot = store.key("hot").unwrap();
        for _ in 0..400_000 {
            store.decide(&rule, hot, later, 0);
            store.decide(&rule, hot, later, 1);
        }
        assert!(store.len() <= 3, "{kind}: {} of {idle} are still there", store.len());
    }
}

/// Forgetting is for keys that stay away: what is fresh when it comes back is used where it lies.
#[test]
fn keys_that_come_back_fresh_are_not_forgotten_meanwhile() {
    for kind in Kind::ALL {
        let store = MemoryStore::with_keys_max(100_000);
        let quota = Quota::per_second(1_000);
        let rule = store.rule(Policy::new(kind, quota).unwrap()).unwrap();
        for round in 0..10 {
            let now = NOW.after(Span::from_secs(3 * round));
            for id in 0..30_000 {
                let (decision, receipt) =
                    store.decide_with_receipt(&rule, store.key(id).unwrap(), now, 1);
                assert_eq!((decision.verdict, decision.remaining), (Verdict::Allow, 999), "{kind}");
                if kind == Kind::Concurrency {
                    store.refund(&rule, store.key(id).unwrap(), now, receipt.unwrap());
                }
            }
        }
        assert_eq!((store.len(), store.stats().forgotten), (30_000, 0), "{kind}");
    }
}

#[test]
fn looks_and_refusals_are_not_remembered() {
    for kind in Kind::ALL {
        let store = MemoryStore::new();
        let rule = store.rule(Policy::new(kind, Quota::per_minute(5)).unwrap()).unwrap();
        for id in 0..1_000 {
            let key = store.key(id).unwrap();
            store.decide(&rule, key, NOW, 0);
            store.decide(&rule, key, NOW, 6);
            store.peek(&rule, key, NOW, 1);
        }
        assert!(store.is_empty(), "{kind}");
    }
}

#[test]
fn a_tiny_store_still_decides() {
    for keys_max in [0, 1, 2, 9] {
        let store = MemoryStore::with_keys_max(keys_max);
        for kind in Kind::ALL {
            let rule = store.rule(Policy::new(kind, Quota::per_minute(5)).unwrap()).unwrap();
            for id in 0..100 {
                store.decide(&rule, store.key(id).unwrap(), NOW, 1);
            }
        }
        assert!(store.len() <= 3 * keys_max.max(8));
    }
    let bytes = MemoryStore::with_bytes_max(40_000);
    let rule = bytes.rule(Policy::token_bucket(Quota::per_day(5)).unwrap()).unwrap();
    for id in 0..10_000 {
        bytes.decide(&rule, bytes.key(id).unwrap(), NOW, 1);
    }
    assert!((900..=1_000).contains(&bytes.len()), "{} keys in 40,000 bytes", bytes.len());
}

#[test]
fn rules_run_out_with_an_error_that_says_what_to_do() {
    let store = MemoryStore::new();
    let policy = Policy::token_bucket(Quota::per_minute(5)).unwrap();
    let mut rules: Vec<_> = (0..65_535).map(|_| store.rule(policy).unwrap()).collect();
    assert_eq!(
        store.rule(policy).unwrap_err().to_string(),
        "a store has at most 65,535 rules: drop some, or use several stores",
    );
    // A dropped one makes place: nobody can ask about what is owed under it.
    let key = store.key("ada").unwrap();
    store.decide(&rules[0], key, NOW, 5);
    rules.drain(..2);
    for _ in 0..2 {
        rules.push(store.rule(policy).unwrap());
        let left = store.peek(&rules[65_533], key, NOW, 0).remaining;
        assert_eq!(left, 5, "found another rule's state");
        rules.rotate_right(1);
    }
    assert!(store.rule(policy).is_err());
}

#[test]
fn a_quota_can_be_changed_for_ever() {
    let store = MemoryStore::new();
    let policies = [100, 150].map(|cells| Policy::token_bucket(Quota::per_day(cells)).unwrap());
    let first = store.rule(policies[0]).unwrap();
    let key = store.key("ada").unwrap();
    store.decide(&first, key, NOW, 40);
    let mut rule = first.clone();
    for change in 0..150_000 {
        rule = store.change(&rule, policies[(change + 1) % 2], NOW).unwrap();
        if change % 50 == 0 {
            store.decide(&rule, key, NOW, 0);
        }
    }
    assert_eq!(store.peek(&rule, key, NOW, 0).remaining, 60);
    assert_eq!(store.peek(&first, key, NOW, 0).remaining, 60, "the old rule answers otherwise");
}

#[test]
fn a_quota_that_comes_and_goes_forgets_nothing_and_uses_nothing_up() {
    let store = MemoryStore::new();
    let of = |kind, cells| Policy::new(kind, Quota::per_day(cells)).unwrap();
    for kind in [Kind::TokenBucket, Kind::FixedWindow, Kind::SlidingLog] {
        let policies: Vec<Policy> = (1..=16).map(|part| of(kind, part * 100)).collect();
        let first = store.rule(policies[15]).unwrap();
        let [asked, idle] = ["asked", "idle"].map(|key| store.key((kind.name(), key)).unwrap());
        for key in [asked, idle] {
            assert!(store.decide(&first, key, NOW, 90).verdict.passes());
        }
        let (mut rule, mut old) = (first.clone(), first.clone());
        for change in 0..100_000_usize {
            rule = store.change(&rule, policies[change * 7 % 16], NOW).unwrap();
            if change % 50 == 0 {
                // By what it was a while ago, which is by now what it is by now.
                let said = store.peek(&old, asked, NOW, 0);
                assert_eq!((said.limit, said.remaining), (rule.policy().limit(), said.limit - 90));
                old = rule.clone();
            }
        }
        rule = store.change(&rule, policies[15], NOW).unwrap();
        for key in [asked, idle] {
            assert_eq!(store.peek(&rule, key, NOW, 0).remaining, 1_510, "{kind}");
            assert_eq!(store.peek(&first, key, NOW, 0).remaining, 1_510, "{kind}");
        }
    }
}

#[test]
fn overlong_keys_are_refused_with_an_error_that_says_what_to_do() {
    let store = MemoryStore::new();
    assert!(store.key("k".repeat(4_000)).is_ok());
    assert_eq!(
        store.key("k".repeat(5_000)).unwrap_err().to_string(),
        "the key has 5000 bytes: at most 4096 are accepted; hash it, or key by something shorter",
    );
}

#[test]
fn keys_of_different_parts_differ() {
    let store = MemoryStore::new();
    let keys = [
        store.key(("a", "bc")).unwrap(),
        store.key(("ab", "c")).unwrap(),
        store.key("abc").unwrap(),
        store.key(("abc", "")).unwrap(),
        store.key(("", "abc")).unwrap(),
        store.key(("abc", 0xFF_u8)).unwrap(),
        store.key(("abc", 0xFF_u8, 0xFF_u8)).unwrap(),
        store.key((1_u8, 2_u8)).unwrap(),
        store.key(0x0201_u16).unwrap(),
        store.key((1_u32, 2_u32)).unwrap(),
        store.key(0x2_0000_0001_u64).unwrap(),
        store.key(0x2_0000_0001_u128).unwrap(),
        store.key(((8_u128 << 64) | 7, 9_u64)).unwrap(),
        store.key((7_u64, (8_u128 << 64) | 9)).unwrap(),
        store.key(vec![1_u8, 2]).unwrap(),
        store.key((vec![1_u8], 2_u8)).unwrap(),
        store.key(()).unwrap(),
        store.key(Some(1_u8)).unwrap(),
    ];
    for (index, key) in keys.iter().enumerate() {
        assert!(!keys[..index].contains(key), "key {index} is another one");
    }
    assert_ne!(MemoryStore::new().key("abc").unwrap(), keys[2], "the seed is not random");
}

#[test]
fn whoever_asks_by_an_old_rule_is_answered_by_the_new_one() {
    let store = MemoryStore::new();
    let old = store.rule(Policy::token_bucket(Quota::per_minute(10)).unwrap()).unwrap();
    let key = store.key("ada").unwrap();
    store.decide(&old, key, NOW, 1);
    let new = Policy::token_bucket(Quota::per_minute(20)).unwrap();
    let new = store.change(&old, new, NOW).unwrap();
    let hour = NOW.after(Span::from_secs(3_600));
    let mut passed = 0;
    while store.decide(&old, key, hour, 1).verdict.passes() {
        passed += 1;
    }
    assert_eq!(passed, 20);
    assert!(!store.decide(&new, key, hour, 1).verdict.passes(), "paid twice");
    let same = store.change(&new, *new.policy(), hour).unwrap();
    assert_eq!(store.peek(&same, key, hour, 0).remaining, 0);
}

/// What was forgotten at a later tick is not fresh at an earlier one.
#[test]
fn a_clock_that_goes_back_behind_the_sweep_never_pays() {
    let minute = Tick::from_micros(NOW.get() - NOW.get() % 60_000_000);
    for kind in Kind::ALL {
        let store = MemoryStore::with_keys_max(10_000);
        let rule = store.rule(Policy::new(kind, Quota::per_minute(5)).unwrap()).unwrap();
        let (key, other) = (store.key("ada").unwrap(), store.key("other").unwrap());
        store.decide(&rule, key, minute, 5);
        let later = minute.after(Span::from_secs(180));
        for _ in 0..10_000 {
            store.decide(&rule, other, later, 0);
            store.decide(&rule, other, later, 1);
        }
        let earlier = minute.after(Span::from_secs(1));
        store.decide(&rule, key, earlier, 5);
        // Charged as of the tick by which it was forgotten: a whole minute's cells, and not twice.
        let forgotten = minute.after(Span::from_secs(150));
        assert_eq!(store.peek(&rule, key, forgotten, 0).remaining, 0, "{kind}");
    }
}

#[test]
fn an_answer_may_be_used_to_ask_again() {
    let store = MemoryStore::new();
    let rule = store.rule(Policy::token_bucket(Quota::per_minute(5)).unwrap()).unwrap();
    let key = store.key("ada").unwrap();
    let charges = [Charge { rule: &rule, key, cost: 2 }];
    let _ = store.decide_all(&charges, NOW, |_, receipt| {
        store.refund(&rule, key, NOW, receipt.unwrap());
        store.rule(Policy::token_bucket(Quota::per_minute(1)).unwrap()).unwrap();
    });
    assert_eq!(store.peek(&rule, key, NOW, 0).remaining, 5);
}

#[test]
fn an_absurd_cap_is_taken_as_a_large_one() {
    let store = MemoryStore::with_keys_max(usize::MAX);
    let rule = store.rule(Policy::token_bucket(Quota::per_minute(5)).unwrap()).unwrap();
    for id in 0..10_000 {
        assert!(store.decide(&rule, store.key(id).unwrap(), NOW, 1).verdict.passes());
    }
    assert_eq!(store.len(), 10_000);
}

/// As reloads of a large policy do, while somebody still goes by the first of them.
#[test]
fn ten_thousand_quotas_can_be_changed_for_ever() {
    let store = MemoryStore::new();
    let day = |cells: u32| Policy::token_bucket(Quota::per_day(cells)).unwrap();
    let first: Vec<Rule> = (0..10_000).map(|_| store.rule(day(1_000)).unwrap()).collect();
    let key = |of: &str, number: usize| store.key((of, number)).unwrap();
    for (number, rule) in first.iter().enumerate() {
        store.decide(rule, key("asked", number), NOW, 400);
        store.decide(rule, key("idle", number), NOW, 400);
    }
    let mut rules = first.clone();
    for reload in 1..=20 {
        let change = |rule: &Rule| store.change(rule, day(1_000 + reload), NOW);
        rules = rules.iter().map(change).collect::<Result<_, _>>().expect("there is room");
        for (number, rule) in rules.iter().enumerate() {
            store.decide(rule, key("asked", number), NOW, 1);
        }
    }
    for number in [0, 1, 5_000, 9_999] {
        for rule in [&rules[number], &first[number]] {
            let left =
                ["asked", "idle"].map(|of| store.peek(rule, key(of, number), NOW, 0).remaining);
            assert_eq!(left, [600, 620], "of 1,020");
        }
    }
}

#[test]
fn rules_that_were_changed_and_dropped_leave_nothing_behind() {
    let store = MemoryStore::new();
    for cells in 1..100_000 {
        let key = store.key(cells).unwrap();
        let rule = store.rule(Policy::token_bucket(Quota::per_day(cells)).unwrap()).unwrap();
        store.decide(&rule, key, NOW, 1);
        let policy = Policy::token_bucket(Quota::per_day(cells + 1)).unwrap();
        let changed = store.change(&rule, policy, NOW).expect("there is room");
        assert!(store.peek(&changed, key, NOW, 0).remaining <= cells);
    }
}

#[test]
fn a_key_that_nobody_asks_about_is_carried_through_any_number_of_changes() {
    for kind in [Kind::TokenBucket, Kind::FixedWindow, Kind::SlidingLog] {
        let store = MemoryStore::new();
        let of = |cells| Policy::new(kind, Quota::per_day(cells)).unwrap();
        let (first, key) = (store.rule(of(100)).unwrap(), store.key("ada").unwrap());
        store.decide(&first, key, NOW, 40);
        let mut rule = first;
        for cells in 101..=1_000 {
            rule = store.change(&rule, of(cells), NOW).unwrap();
        }
        assert_eq!(store.peek(&rule, key, NOW, 0).remaining, 960, "{kind}");
    }
}

/// A limit of so many cells a day.
fn wanted(cells: u32, before: Option<&Rule>, limit: usize) -> Wanted<'_> {
    let policy = Policy::token_bucket(Quota::per_day(cells)).expect("a quota in range");
    Wanted { policy, whole: policy, before, limit, others: &[] }
}

/// Each of them takes a name besides the one that it has, and there are not so many.
#[test]
fn all_that_there_is_room_for_can_be_changed_at_once() {
    let store = MemoryStore::new();
    let rules = store
        .put(&(0..45_000).map(|limit| wanted(100, None, limit)).collect::<Vec<_>>(), NOW)
        .unwrap();
    let key = |number: usize| store.key(number).unwrap();
    for (number, rule) in rules.iter().enumerate().step_by(100) {
        store.decide(rule, key(number), NOW, 30);
    }
    let changed = rules.iter().enumerate().map(|(limit, rule)| wanted(200, Some(rule), limit));
    let changed = store.put(&changed.collect::<Vec<_>>(), NOW).unwrap();
    for number in (0..rules.len()).step_by(100) {
        for rule in [&rules[number], &changed[number]] {
            assert_eq!(store.peek(rule, key(number), NOW, 0).remaining, 170);
        }
    }
}

#[test]
fn without_room_for_all_nothing_is_changed() {
    let store = MemoryStore::new();
    let day = |cells: u32| Policy::token_bucket(Quota::per_day(cells)).unwrap();
    let new = |limits: std::ops::Range<usize>| limits.map(|limit| wanted(100, None, limit));
    let rules = store.put(&new(0..65_000).collect::<Vec<_>>(), NOW).unwrap();
    let changed = rules.iter().enumerate().map(|(limit, rule)| wanted(200, Some(rule), limit));
    let wanted: Vec<Wanted<'_>> = changed.chain(new(65_000..65_600)).collect();
    assert!(store.put(&wanted, NOW).is_err());
    assert!(rules.iter().all(|rule| store.policy(rule) == day(100)));
    assert!(store.put(&wanted[..65_500], NOW).is_ok());
    assert!(rules.iter().all(|rule| store.policy(rule) == day(200)));
}
