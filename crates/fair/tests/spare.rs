//! Places that threads have in advance: nobody can have one too many, and nobody waits for one that
//! is free.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

use tidegate_core::Span;
use tidegate_fair::{Acquire, FairQueue, Permit, Reason, Refused};
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

/// Uses the queue from several threads, so that each has places in advance.
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

#[test]
fn a_tenant_pays_for_what_its_request_took_also_if_nobody_waited_then() {
    let (queue, _clock) = in_flight(LIMIT);
    let mut rest = vec![at_once(&queue, "greedy").unwrap()];
    // The queue has heard of the first, and not of this.
    let surprise = at_once(&queue, "greedy").unwrap();
    rest.extend((2..LIMIT).map(|_| at_once(&queue, "other").unwrap()));
    let mut waiting: Vec<(&str, Acquire)> = ["greedy", "fair"]
        .into_iter()
        .flat_map(|name| (0..40).map(move |_| name))
        .map(|name| (name, queue.of(name).acquire(PATIENCE)))
        .collect();
    assert!(waiting.iter_mut().all(|(_, it)| poll(it).is_none()));
    surprise.complete(1_000);
    drop(rest);
    let started: Vec<(&str, Permit)> =
        waiting.iter_mut().filter_map(|(name, it)| Some((*name, poll(it)?.unwrap()))).collect();
    let fair = started.iter().filter(|(name, _)| *name == "fair").count();
    // Taking turns, each would have had half of the places.
    assert_eq!((started.len(), fair), (64, 40), "who took more waits longer");
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
    // As many as would fit but for one, and all at the edge of what is given in advance.
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
