//! Every interleaving of the small pieces that threads share. Runs only under `--cfg loom`.
#![cfg(loom)]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use loom::thread;
use tidegate_core::{Kind, Policy, Quota, Span, Tick};
use tidegate_store::{Charge, Key, Limiter, ManualClock, MemoryStore, Rule};

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

/// A store of two shards in each table, so that a model is small.
fn store() -> MemoryStore {
    MemoryStore::with_keys_max(8)
}

fn rule(store: &MemoryStore, kind: Kind, cells: u32) -> Rule {
    store.rule(Policy::new(kind, Quota::per_day(cells)).unwrap()).unwrap()
}

#[test]
fn a_new_key_is_made_once() {
    model(|| {
        let store = loom::sync::Arc::new(store());
        let rule = rule(&store, Kind::TokenBucket, 1);
        let key = store.key("key").unwrap();
        let other = {
            let (store, rule) = (store.clone(), rule.clone());
            thread::spawn(move || store.decide(&rule, key, NOW, 1).verdict.passes())
        };
        let here = store.decide(&rule, key, NOW, 1).verdict.passes();
        assert!(here != other.join().unwrap(), "one of two passes");
        assert_eq!(store.len(), 1);
    });
}

#[test]
fn several_limits_are_charged_together_whatever_the_order() {
    model(|| {
        let store = loom::sync::Arc::new(store());
        // States of one word and of two are behind different locks.
        let rules = [rule(&store, Kind::TokenBucket, 2), rule(&store, Kind::FixedWindow, 1)];
        let key = store.key("key").unwrap();
        let decide = move |store: &MemoryStore, order: [usize; 2], rules: &[Rule; 2]| {
            let charges = order.map(|index| Charge { rule: &rules[index], key, cost: 1 });
            store.decide_all(&charges, NOW, |_, _| {}).passes()
        };
        let other = {
            let (store, rules) = (store.clone(), rules.clone());
            thread::spawn(move || decide(&store, [1, 0], &rules))
        };
        let here = decide(&store, [0, 1], &rules);
        assert!(here != other.join().unwrap(), "one of two passes");
        assert_eq!(store.peek(&rules[0], key, NOW, 0).remaining, 1, "the refused one was charged");
    });
}

/// The short way: states of one word that are known, in two shards of one table.
#[test]
fn several_keys_are_charged_together_whatever_the_order() {
    model(|| {
        let store = loom::sync::Arc::new(store());
        let rule = rule(&store, Kind::TokenBucket, 3);
        let key = |upper| {
            let mut keys = (0..64_u32).map(|id| store.key(id).unwrap());
            keys.find(|key| shard_of(*key) == upper).expect("neighbors spread")
        };
        let keys = [key(false), key(true)];
        for key in keys {
            store.decide(&rule, key, NOW, 1);
        }
        let decide = move |store: &MemoryStore, order: [usize; 2], rule: &Rule| {
            let charges = order.map(|index| Charge { rule, key: keys[index], cost: 1 });
            store.decide_all(&charges, NOW, |_, _| {}).passes()
        };
        let other = {
            let (store, rule) = (store.clone(), rule.clone());
            thread::spawn(move || decide(&store, [1, 0], &rule))
        };
        let here = decide(&store, [0, 1], &rule);
        assert!(here && other.join().unwrap(), "there is room for both");
        for key in keys {
            assert_eq!(store.peek(&rule, key, NOW, 0).remaining, 0);
        }
    });
}

/// Whether a key is in the upper of two shards: the first bit of its hash chooses.
fn shard_of(key: Key) -> bool {
    let hash = format!("{key:?}");
    hash.strip_prefix("Key(").is_some_and(|hash| hash.starts_with(|it| "89abcdef".contains(it)))
}

#[test]
fn a_change_of_quota_loses_no_charge_and_makes_none() {
    model(|| {
        let store = loom::sync::Arc::new(store());
        let rule = rule(&store, Kind::TokenBucket, 2);
        let key = store.key("key").unwrap();
        let other = {
            let (store, rule) = (store.clone(), rule.clone());
            thread::spawn(move || u32::from(store.decide(&rule, key, NOW, 1).verdict.passes()))
        };
        // The new policy takes two words: the key moves to another table.
        let wider = Policy::token_bucket(Quota::per_minute(9_999)).unwrap();
        let wider = store.change(&rule, wider, NOW).unwrap();
        let passed = u32::from(store.decide(&wider, key, NOW, 1).verdict.passes());
        let passed = passed + other.join().unwrap();
        assert_eq!(passed, 2);
        assert_eq!(store.peek(&wider, key, NOW, 0).remaining, 9_999 - passed);
        assert_eq!(store.len(), 1);
    });
}

#[derive(Default)]
struct Bell(AtomicU32);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The first in line leaves while the clock comes to its tick: the second is rung for, always.
#[test]
fn whoever_leaves_the_line_wakes_the_next() {
    model(|| {
        let clock = Arc::new(ManualClock::new());
        let hour = Span::from_secs(3_600);
        let limiter = Limiter::builder()
            .each("it", Quota::per_second(1))
            .store(store())
            .clock(Arc::<ManualClock>::clone(&clock))
            .build()
            .unwrap();
        let limiter: &'static Limiter = Box::leak(Box::new(limiter));
        limiter.decide("key");
        let poll = |future: Pin<&mut tidegate_store::Acquire<'static>>, bell: &Arc<Bell>| {
            let waker = Waker::from(Arc::clone(bell));
            future.poll(&mut Context::from_waker(&waker))
        };
        let mut first = Box::pin(limiter.key("key").acquire(hour));
        let mut second = Box::pin(limiter.key("key").acquire(hour));
        let (first_bell, second_bell) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
        assert!(poll(first.as_mut(), &first_bell).is_pending());
        assert!(poll(second.as_mut(), &second_bell).is_pending());
        let leaves = thread::spawn(move || drop(first));
        clock.advance(Span::from_secs(1));
        leaves.join().unwrap();
        assert!(0 < second_bell.0.load(Ordering::SeqCst), "the second sleeps on");
        assert!(matches!(poll(second.as_mut(), &second_bell), Poll::Ready(Ok(_))));
    });
}

fn lends_one() -> &'static Limiter {
    let permits = (Kind::Concurrency, Quota::in_flight(1, Span::from_secs(60)));
    let limiter = Limiter::builder().each("busy", permits).store(store());
    let limiter = limiter.clock(Arc::new(ManualClock::new())).build().unwrap();
    Box::leak(Box::new(limiter))
}

type Waits = Pin<Box<tidegate_store::Acquire<'static>>>;

fn poll(waits: &mut Waits, bell: &Arc<Bell>) -> bool {
    let waker = Waker::from(Arc::clone(bell));
    let poll = waits.as_mut().poll(&mut Context::from_waker(&waker));
    // What has passed stays taken.
    poll.map(|passed| std::mem::forget(passed.unwrap())).is_ready()
}

/// A permit comes back while somebody begins to wait for it: one does not miss the other.
#[test]
fn nobody_sleeps_beside_a_permit_that_has_come_back() {
    model(|| {
        let limiter = lends_one();
        let held = limiter.key("key").enter().unwrap();
        let gives_back = thread::spawn(move || drop(held));
        let mut waits: Waits = Box::pin(limiter.key("key").acquire(Span::from_secs(3_600)));
        let bell = Arc::new(Bell::default());
        let passed = poll(&mut waits, &bell);
        gives_back.join().unwrap();
        assert!(passed || 0 < bell.0.load(Ordering::SeqCst), "it sleeps to its deadline");
        assert!(passed || poll(&mut waits, &bell), "the permit is lost");
    });
}

/// More permits are lent out from now on while somebody begins to wait for one: one does not miss
/// the other.
#[test]
fn nobody_sleeps_beside_a_quota_that_was_raised() {
    model(|| {
        let limiter = lends_one();
        let held = limiter.key("key").enter().unwrap();
        let two = (Kind::Concurrency, Quota::in_flight(2, Span::from_secs(60)));
        let raises = thread::spawn(move || limiter.change("busy", two).unwrap());
        let mut waits: Waits = Box::pin(limiter.key("key").acquire(Span::from_secs(3_600)));
        let bell = Arc::new(Bell::default());
        let passed = poll(&mut waits, &bell);
        raises.join().unwrap();
        assert!(passed || 0 < bell.0.load(Ordering::SeqCst), "it sleeps to its deadline");
        assert!(passed || poll(&mut waits, &bell), "there is room for two");
        drop(held);
    });
}

/// The first in line leaves while a permit comes back: whichever is rung for it, the second has
/// it.
#[test]
fn a_permit_that_comes_back_to_one_who_leaves_is_the_next_one_s() {
    model(|| {
        let limiter = lends_one();
        let held = limiter.key("key").enter().unwrap();
        let acquire = || -> Waits { Box::pin(limiter.key("key").acquire(Span::from_secs(3_600))) };
        let (mut first, mut second) = (acquire(), acquire());
        let bells = [Arc::new(Bell::default()), Arc::new(Bell::default())];
        assert!(!poll(&mut first, &bells[0]) && !poll(&mut second, &bells[1]));
        let leaves = thread::spawn(move || drop(first));
        drop(held);
        leaves.join().unwrap();
        assert!(0 < bells[1].0.load(Ordering::SeqCst), "the second sleeps on");
        assert!(poll(&mut second, &bells[1]), "the permit is lost");
    });
}
