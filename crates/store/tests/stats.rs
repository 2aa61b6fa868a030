//! What a store says of itself: each number is what it says it is.
#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Kind, Policy, Quota, Span, Tick, Verdict};
use tidegate_store::{MemoryStats, MemoryStore};

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

fn bucket() -> Policy {
    Policy::token_bucket(Quota::per_minute(60)).unwrap()
}

fn permits() -> Policy {
    Policy::new(Kind::Concurrency, Quota::in_flight(5, Span::from_secs(60))).unwrap()
}

#[test]
fn keys_are_counted_and_what_is_reset_is_not_forgotten() {
    let store = MemoryStore::with_keys_max(10_000);
    assert_eq!((store.stats().keys, store.stats().crowded, store.stats().forgotten), (0, 0, 0));
    for policy in [bucket(), permits(), Policy::new(Kind::FixedWindow, Quota::per_day(5)).unwrap()]
    {
        let rule = store.rule(policy).unwrap();
        for id in 0..100 {
            store.decide(&rule, store.key(id).unwrap(), NOW, 1);
        }
        store.reset(&rule, store.key(0).unwrap());
    }
    let MemoryStats { keys, crowded, forgotten, .. } = store.stats();
    assert_eq!((keys, crowded, forgotten), (297, 0, 0));
    assert_eq!(keys, store.len());
}

/// Whatever passed has a state of its own, was judged with others, or was forgotten.
#[test]
fn what_comes_in_stays_finds_no_room_or_is_forgotten() {
    let store = MemoryStore::with_keys_max(1_000);
    let rule = store.rule(bucket()).unwrap();
    for id in 0..20_000 {
        store.decide(&rule, store.key(id).unwrap(), NOW, 1);
    }
    let MemoryStats { keys, groups, crowded, forgotten, .. } = store.stats();
    assert_eq!(forgotten, 0, "nothing was fresh");
    assert_eq!((keys, keys as u64 + crowded), (1_000, 20_000));
    assert!((240..=250).contains(&groups), "{groups} groups");
    // An hour later all of them are fresh: newcomers take their places.
    let later = NOW.after(Span::from_secs(3_600));
    for id in 20_000..20_800 {
        let decision = store.decide(&rule, store.key(id).unwrap(), later, 1);
        assert_eq!(decision.verdict, Verdict::Allow);
    }
    let stats = store.stats();
    assert_eq!((stats.forgotten, stats.groups, stats.crowded), (1_000, 0, crowded));
    assert_eq!(stats.keys, 800);
}

#[test]
fn idle_keys_are_forgotten_and_counted_once() {
    for policy in [bucket(), permits()] {
        let store = MemoryStore::with_keys_max(100_000);
        let rule = store.rule(policy).unwrap();
        for id in 0..10_000 {
            store.decide(&rule, store.key(id).unwrap(), NOW, 1);
        }
        let later = NOW.after(Span::from_secs(3_600));
        let hot = store.key("hot").unwrap();
        for _ in 0..200_000 {
            store.decide(&rule, hot, later, 1);
        }
        let stats = store.stats();
        assert_eq!((stats.keys, stats.forgotten, stats.crowded), (1, 10_000, 0));
    }
}

#[test]
fn bytes_are_slots_that_were_touched_and_events_that_are_kept() {
    let store = MemoryStore::with_keys_max(100_000);
    let empty = store.stats().bytes;
    // A lock of a cache line, three lines behind it and a hint of two words for each of 64 shards,
    // three times.
    assert_eq!(empty, 3 * 64 * (64 + 192 + 16));
    let rule = store.rule(bucket()).unwrap();
    for id in 0..50_000 {
        store.decide(&rule, store.key(id).unwrap(), NOW, 1);
    }
    let bytes = store.stats().bytes - empty;
    // Slots of 16 bytes, of which three in four are taken at most; and not all that is reserved.
    assert!((50_000 * 16 * 4 / 3..100_000 * 16 * 7 / 4).contains(&bytes), "{bytes} bytes");

    let log = store.rule(Policy::new(Kind::SlidingLog, Quota::per_hour(1_000)).unwrap()).unwrap();
    let (before, key) = (store.stats().bytes, store.key("ada").unwrap());
    for event in 0..1_000 {
        let at = NOW.after(Span::from_micros(event));
        assert_eq!(store.decide(&log, key, at, 1).verdict, Verdict::Allow);
    }
    let events = store.stats().bytes - before;
    assert!((8_000..10_500).contains(&events), "{events} bytes");
    store.reset(&log, key);
    let left = store.stats().bytes - before;
    assert!(left < 2_000, "{left} bytes of a list that is gone");
}

/// What it says is what the process really has in memory.
#[cfg(target_os = "linux")]
#[test]
fn bytes_are_what_the_system_says() {
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim_end_matches("kB").trim().parse::<usize>().unwrap() * 1_024
    };
    let store = MemoryStore::with_keys_max(8_000_000);
    let rule = store.rule(bucket()).unwrap();
    let (before, said) = (resident(), store.stats().bytes);
    for id in 0..4_000_000 {
        store.decide(&rule, store.key(id).unwrap(), NOW, 1);
    }
    let (grown, said) = (resident() - before, store.stats().bytes - said);
    let of = |part: usize| grown * part / 100;
    // Other tests of this file come and go meanwhile; pages are touched whole.
    assert!((of(80)..of(110)).contains(&said), "{said} bytes said, {grown} bytes grown");
}
