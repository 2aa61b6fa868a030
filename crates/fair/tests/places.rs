//! Places in flight: nobody can have one too many, and nobody waits for one that is free, whichever
//! threads take them and give them back.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

use tidegate_core::Span;
use tidegate_fair::{Acquire, FairQueue, Permit, Reason, Refused, Settings};
use tidegate_sim::rng::Rng;
use tidegate_store::ManualClock;

const LIMIT: u32 = 64;
const PATIENCE: Span = Span::from_secs(10);

fn in_flight(limit: u32) -> (FairQueue, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    (FairQueue::in_flight(limit).clock(clock.clone()).build(), clock)
}

fn poll(acquire: &mut Acquire) -> Option<Result<Permit, Refused>> {
    match Pin::new(acquire).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

fn at_once(queue: &FairQueue, name: &str) -> Option<Permit> {
    poll(&mut queue.of(name).acquire(Span::ZERO)).and_then(Result::ok)
}

/// Uses the queue from several threads.
fn spread(queue: &FairQueue) {
    let at_work: Vec<_> = (0..8)
        .map(|_| {
            let queue = queue.clone();
            thread::spawn(move || (0..20).for_each(|_| drop(at_once(&queue, "a").unwrap())))
        })
        .collect();
    for it in at_work {
        it.join().unwrap();
    }
}

#[test]
fn all_places_can_be_had_by_one_wherever_they_are() {
    let (queue, _clock) = in_flight(LIMIT);
    spread(&queue);
    let all: Vec<Permit> = (0..LIMIT).map(|_| at_once(&queue, "b").unwrap()).collect();
    assert_eq!(queue.stats().in_flight, u64::from(LIMIT));
    assert!(at_once(&queue, "b").is_none(), "one too many");
    drop(all);
    spread(&queue);
    let whole = poll(&mut queue.of("c").cost(LIMIT).acquire(PATIENCE)).unwrap().unwrap();
    assert!(at_once(&queue, "b").is_none(), "one too many");
    drop(whole);
    assert_eq!(queue.stats().in_flight, 0);
}

#[test]
fn what_is_told_of_a_queue_counts_every_request() {
    let (queue, _clock) = in_flight(LIMIT);
    for started in 1..=100 {
        let permit = at_once(&queue, "a").unwrap();
        let stats = queue.stats();
        assert_eq!((stats.started, stats.in_flight, stats.waiting), (started, 1, 0));
        drop(permit);
        assert_eq!(queue.stats().in_flight, 0);
    }
    spread(&queue);
    assert_eq!((queue.stats().started, queue.stats().in_flight), (260, 0));
}

#[test]
fn whoever_waits_gets_the_next_place_wherever_it_was_taken() {
    let (queue, _clock) = in_flight(LIMIT);
    spread(&queue);
    let mut held: Vec<Permit> = (0..LIMIT).map(|_| at_once(&queue, "a").unwrap()).collect();
    let mut waiting: Vec<Acquire> = (0..LIMIT).map(|_| queue.of("b").acquire(PATIENCE)).collect();
    assert!(waiting.iter_mut().all(|it| poll(it).is_none()));
    let mut started = Vec::new();
    while let Some(permit) = held.pop() {
        thread::spawn(move || drop(permit)).join().unwrap();
        let first = waiting.remove(0);
        started.extend([first].iter_mut().filter_map(|it| poll(it)?.ok()));
        assert_eq!(started.len() + held.len(), LIMIT as usize);
        assert!(waiting.iter_mut().all(|it| poll(it).is_none()));
    }
}

#[test]
fn fewer_places_are_fewer_at_once() {
    let (queue, _clock) = in_flight(10 * LIMIT);
    spread(&queue);
    queue.set_limit(4);
    let all: Vec<Permit> = (0..4).map(|_| at_once(&queue, "b").unwrap()).collect();
    assert!(at_once(&queue, "b").is_none(), "one too many");
    drop(all);
    queue.let_go();
    let many: Vec<Permit> = (0..20 * LIMIT).map(|_| at_once(&queue, "b").unwrap()).collect();
    assert_eq!(many.len(), 20 * LIMIT as usize);
}

/// Tenants of one queue, or users of one organization in another.
#[derive(Clone, Copy, Debug)]
enum Level {
    Tenant,
    User,
}

impl Level {
    const ALL: [Level; 2] = [Level::Tenant, Level::User];

    fn queue(self) -> FairQueue {
        let settings = Settings { levels: self as u8 + 1, ..Settings::default() };
        FairQueue::in_flight(LIMIT).settings(settings).clock(Arc::new(ManualClock::new())).build()
    }

    fn of(self, queue: &FairQueue, name: &str) -> Acquire {
        match self {
            Level::Tenant => queue.of(name).acquire(PATIENCE),
            Level::User => queue.of("ours").then(name).acquire(PATIENCE),
        }
    }

    fn now(self, queue: &FairQueue, name: &str) -> Permit {
        poll(&mut self.of(queue, name)).unwrap().unwrap()
    }

    /// Takes what is left, lets forty of `greedy` and of `fair` wait, and gives all places back:
    /// how many of `fair` are served with these.
    fn served_of_fair(self, queue: &FairQueue, mut held: Vec<Permit>) -> usize {
        held.extend(std::iter::from_fn(|| at_once(queue, "theirs")));
        assert_eq!(queue.stats().in_flight, u64::from(LIMIT));
        let names = ["greedy", "fair"].into_iter().flat_map(|name| (0..40).map(move |_| name));
        let mut waiting: Vec<(&str, Acquire)> =
            names.map(|name| (name, self.of(queue, name))).collect();
        assert!(waiting.iter_mut().all(|(_, it)| poll(it).is_none()));
        drop(held);
        let started: Vec<(&str, Permit)> =
            waiting.iter_mut().filter_map(|(name, it)| Some((*name, poll(it)?.unwrap()))).collect();
        assert_eq!(started.len(), LIMIT as usize);
        started.iter().filter(|(name, _)| *name == "fair").count()
    }
}

#[test]
fn a_tenant_pays_for_what_its_request_took_also_if_nobody_waited_then() {
    for (level, is_first_served) in Level::ALL.map(|it| [(it, false), (it, true)]).concat() {
        let queue = level.queue();
        let first = at_once(&queue, "theirs").unwrap();
        let (surprise, other) = (level.now(&queue, "greedy"), level.now(&queue, "other"));
        surprise.complete(1_000);
        // As long as anybody is being served, what is owed stays owed.
        let mut held = vec![other];
        held.extend(Some(first).filter(|_| is_first_served));
        let served = level.served_of_fair(&queue, held);
        assert_eq!(served, 40, "{level:?}: taking turns, each has half of them");
    }
}

#[test]
fn what_was_owed_is_owed_to_nobody_once_nobody_is_served() {
    for (level, is_first_last) in Level::ALL.map(|it| [(it, true), (it, false)]).concat() {
        let queue = level.queue();
        // Once everything was taken and came back.
        spread(&queue);
        let all: Vec<Permit> = std::iter::from_fn(|| at_once(&queue, "theirs")).collect();
        assert_eq!(all.len(), LIMIT as usize);
        drop(all);
        let (first, surprise) = (level.now(&queue, "other"), level.now(&queue, "greedy"));
        let first = Some(first).filter(|_| is_first_last);
        surprise.complete(1_000);
        drop(first);
        assert_eq!(level.served_of_fair(&queue, Vec::new()), 32, "{level:?}");
    }
}

#[test]
fn what_was_owed_is_forgiven_before_the_next_request_comes() {
    let queue = Level::Tenant.queue();
    let (first, surprise) = (at_once(&queue, "theirs"), at_once(&queue, "greedy").unwrap());
    let last = at_once(&queue, "other");
    surprise.complete(1_000);
    drop(first);
    drop(last);
    let wide = poll(&mut queue.of("wide").cost(2).acquire(PATIENCE)).unwrap().unwrap();
    assert_eq!(Level::Tenant.served_of_fair(&queue, vec![wide]), 32);
}

#[test]
fn what_is_charged_late_says_nothing_about_weights() {
    let (queue, _clock) = in_flight(LIMIT);
    let of = |name: &str, weight: u32| queue.of(name).weight(weight).acquire(PATIENCE);
    let first = at_once(&queue, "z").unwrap();
    let old = poll(&mut of("t", 1)).unwrap().unwrap();
    let mut rest = vec![first];
    rest.extend((2..LIMIT).map(|_| at_once(&queue, "z").unwrap()));
    let mut waiting: Vec<(&str, Acquire)> =
        (0..60).flat_map(|_| [("t", of("t", 9)), ("u", of("u", 1))]).collect();
    assert!(waiting.iter_mut().all(|(_, it)| poll(it).is_none()));
    old.complete(2);
    drop(rest);
    let started: Vec<(&str, Permit)> =
        waiting.iter_mut().filter_map(|(name, it)| Some((*name, poll(it)?.unwrap()))).collect();
    let of_t = started.iter().filter(|(name, _)| *name == "t").count();
    assert!(55 < of_t, "{of_t} of {} with nine tenths of the weight", started.len());
}

#[test]
fn what_comes_back_after_nothing_was_scarce_is_counted_still() {
    let (queue, _clock) = in_flight(10 * LIMIT);
    let mut old: Vec<Permit> = (0..40).map(|_| at_once(&queue, "a").unwrap()).collect();
    queue.let_go();
    drop(at_once(&queue, "a"));
    old.clear();
    let held: Vec<Permit> = (0..LIMIT).map(|_| at_once(&queue, "a").unwrap()).collect();
    assert_eq!(queue.stats().in_flight, u64::from(LIMIT));
    queue.set_limit(LIMIT);
    assert!(at_once(&queue, "a").is_none(), "one too many");
    drop(held);
    assert_eq!(queue.stats().in_flight, 0);
}

#[test]
fn each_request_counts_alike_in_how_long_places_are_held() {
    let (queue, clock) = in_flight(LIMIT);
    for _ in 0..200 {
        let wide = poll(&mut queue.of("w").cost(2).acquire(Span::ZERO)).unwrap().unwrap();
        for _ in 0..15 {
            let permit = at_once(&queue, "a").unwrap();
            clock.advance(Span::from_millis(1));
            drop(permit);
        }
        clock.advance(Span::from_secs(2));
        drop(wide);
    }
    let _held: Vec<Permit> = (0..LIMIT).map(|_| at_once(&queue, "a").unwrap()).collect();
    let mut crowd: Vec<Acquire> = (0..LIMIT).map(|_| queue.of("a").acquire(PATIENCE)).collect();
    assert!(crowd.iter_mut().all(|it| poll(it).is_none()));
    let refused = poll(&mut queue.of("a").acquire(Span::from_millis(10))).unwrap().unwrap_err();
    let retry_after = refused.retry_after.unwrap();
    assert!(retry_after < Span::from_millis(500), "{retry_after:?}");
}

#[test]
fn how_long_places_are_held_is_known_all_the_same() {
    let (queue, clock) = in_flight(LIMIT);
    for _ in 0..16 * 16 {
        let permit = at_once(&queue, "a").unwrap();
        clock.advance(Span::from_millis(100));
        drop(permit);
    }
    let _held: Vec<Permit> = (0..LIMIT).map(|_| at_once(&queue, "a").unwrap()).collect();
    let mut crowd: Vec<Acquire> =
        (0..10 * LIMIT).map(|_| queue.of("a").acquire(PATIENCE)).collect();
    assert!(crowd.iter_mut().all(|it| poll(it).is_none()));
    let refused = poll(&mut queue.of("a").acquire(Span::from_millis(10))).unwrap().unwrap_err();
    assert_eq!(refused.reason, Reason::TooLate);
    assert!(Span::from_millis(500) < refused.retry_after.unwrap());
}

#[test]
fn threads_never_have_more_places_than_there_are_and_all_get_one() {
    const THREADS: u64 = 6;
    for limit in [32, 40, 64] {
        let queue = FairQueue::in_flight(limit).build();
        let out = Arc::new(AtomicU32::new(0));
        let work = |seed: u64| {
            let (queue, out) = (queue.clone(), Arc::clone(&out));
            move || {
                let mut rng = Rng::new(seed);
                let mut held: Vec<(u32, Permit)> = Vec::new();
                for _ in 0..20_000 {
                    let cost = if rng.below(8) == 0 { 5 } else { 1 };
                    let ask = queue.of(rng.below(3)).cost(cost);
                    // Nobody waits while it holds something: that could last for ever.
                    let wait = if held.is_empty() { Span::from_secs(60) } else { Span::ZERO };
                    if let Ok(permit) = ask.acquire_blocking(wait) {
                        let before = out.fetch_add(cost, Ordering::SeqCst);
                        assert!(before + cost <= limit, "one too many");
                        held.push((cost, permit));
                    } else {
                        assert!(!held.is_empty(), "nobody waits for a minute");
                    }
                    let keep = rng.below(12);
                    while keep < held.len() as u64 {
                        let (cost, permit) = held.swap_remove(0);
                        out.fetch_sub(cost, Ordering::SeqCst);
                        permit.complete(cost * u32::try_from(1 + rng.below(2)).unwrap());
                    }
                }
                for (cost, permit) in held {
                    out.fetch_sub(cost, Ordering::SeqCst);
                    drop(permit);
                }
            }
        };
        let at_work: Vec<_> = (0..THREADS).map(|seed| thread::spawn(work(seed))).collect();
        for it in at_work {
            it.join().unwrap();
        }
        let stats = queue.stats();
        assert_eq!((stats.in_flight, stats.waiting), (0, 0));
    }
}
