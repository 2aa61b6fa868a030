//! A queue that finds out how much there is, before a service in virtual time.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate_core::{Span, Tick};
use tidegate_fair::adapt::{Fraction, Outcome, Settings};
use tidegate_fair::{Acquire, FairQueue, Permit};
use tidegate_sim::rng::Rng;
use tidegate_store::{Clock, ManualClock};

/// A service with so many workers, and more who want it than it can serve.
struct Crowd {
    queue: FairQueue,
    clock: Arc<ManualClock>,
    workers: BinaryHeap<Reverse<u64>>,
    served: HashMap<u64, Permit>,
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    waiting: Vec<(&'static str, Acquire)>,
    rng: Rng,
    names: HashMap<u64, &'static str>,
    count: HashMap<&'static str, u64>,
    number: u64,
    outcome: Outcome,
}

const SERVICE_US: u64 = 20_000;

impl Crowd {
    fn new(workers: usize, settings: Settings) -> Crowd {
        let clock = Arc::new(ManualClock::new());
        clock.advance(Span::from_secs(1_000_000));
        let queue = FairQueue::adaptive(settings).unwrap().clock(clock.clone()).build();
        let mut crowd = Crowd {
            queue,
            clock,
            workers: BinaryHeap::new(),
            served: HashMap::new(),
            ends: BinaryHeap::new(),
            waiting: Vec::new(),
            rng: Rng::new(7),
            names: HashMap::new(),
            count: HashMap::new(),
            number: 0,
            outcome: Outcome::Served,
        };
        crowd.has(workers);
        crowd
    }

    /// From now on it has so many workers.
    fn has(&mut self, workers: usize) {
        self.workers = (0..workers).map(|_| Reverse(self.now())).collect();
    }

    fn now(&self) -> u64 {
        self.clock.now().get()
    }

    /// Twenty of each tenant wait at any time.
    fn run(&mut self, time: Span, tenants: &[(&'static str, u32, u32)]) {
        let end = self.now() + time.get();
        while self.now() < end {
            for (name, weight, cost) in tenants {
                let there = self.waiting.iter().filter(|(it, _)| it == name).count();
                for _ in there..20 {
                    let ask = self.queue.of(*name).weight(*weight).cost(*cost);
                    self.waiting.push((name, ask.acquire(Span::from_secs(60))));
                }
            }
            self.start_who_may();
            let Reverse((at, number)) = self.ends.pop().unwrap();
            let at = at.max(self.now());
            self.clock.advance(Tick::from_micros(at).since(self.clock.now()));
            let permit = self.served.remove(&number).unwrap();
            permit.finish(1, self.outcome);
            *self.count.entry(self.names[&number]).or_default() += 1;
        }
    }

    fn start_who_may(&mut self) {
        let mut index = 0;
        while index < self.waiting.len() {
            let acquire = Pin::new(&mut self.waiting[index].1);
            match acquire.poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => index += 1,
                Poll::Ready(permit) => {
                    let (name, _) = self.waiting.swap_remove(index);
                    self.serve(name, permit.unwrap());
                }
            }
        }
    }

    fn serve(&mut self, name: &'static str, permit: Permit) {
        let Reverse(free) = self.workers.pop().unwrap();
        let takes = SERVICE_US / 2 + self.rng.below(SERVICE_US);
        let ends = free.max(self.now()) + takes;
        self.workers.push(Reverse(ends));
        self.number += 1;
        self.ends.push(Reverse((ends, self.number)));
        self.served.insert(self.number, permit);
        self.names.insert(self.number, name);
    }

    fn limit(&self) -> u32 {
        self.queue.stats().limit
    }
}

const TWO: [(&str, u32, u32); 2] = [("a", 1, 1), ("b", 3, 1)];

#[test]
fn it_finds_what_a_service_bears_and_follows_it_down_and_up() {
    let mut crowd = Crowd::new(40, Settings::default());
    assert_eq!(crowd.limit(), 20);
    crowd.run(Span::from_secs(10), &TWO);
    assert!((38..=52).contains(&crowd.limit()), "{}", crowd.limit());
    crowd.has(20);
    crowd.run(Span::from_secs(2), &TWO);
    assert!((17..=26).contains(&crowd.limit()), "{}", crowd.limit());
    crowd.has(40);
    crowd.run(Span::from_secs(10), &TWO);
    assert!((38..=52).contains(&crowd.limit()), "{}", crowd.limit());
}

#[test]
fn what_there_is_is_shared_by_weight() {
    let mut crowd = Crowd::new(40, Settings::default());
    crowd.run(Span::from_secs(10), &TWO);
    crowd.count.clear();
    crowd.run(Span::from_secs(10), &TWO);
    let (a, b) = (crowd.count["a"], crowd.count["b"]);
    assert!((b / 3).abs_diff(a) <= a / 50, "{a} {b}");
    // Nearly all that it can: 40 workers, 50 requests a second each.
    assert!(19_000 < a + b, "{a} {b}");
}

#[test]
fn a_request_takes_one_place_and_its_tenant_pays_what_it_costs() {
    let mut crowd = Crowd::new(40, Settings::default());
    // Both truly cost one: what counts at first is what they said, then what they took.
    crowd.run(Span::from_secs(10), &[("wide", 1, 1_000), ("narrow", 1, 1)]);
    assert!((38..=52).contains(&crowd.limit()), "{}", crowd.limit());
    assert!(crowd.queue.stats().in_flight <= 52);
    let (wide, narrow) = (crowd.count["wide"], crowd.count["narrow"]);
    assert!(wide <= narrow && 0 < wide, "{wide} {narrow}");
}

#[test]
fn failures_brake_and_it_recovers_from_them() {
    let mut crowd = Crowd::new(40, Settings::default());
    crowd.run(Span::from_secs(10), &TWO);
    let before = crowd.limit();
    crowd.outcome = Outcome::Failed;
    crowd.run(Span::from_secs(2), &TWO);
    assert!(crowd.limit() <= before / 2, "{}", crowd.limit());
    assert!(crowd.queue.reading().unwrap().factor < Fraction::from_percent(50));
    crowd.outcome = Outcome::Served;
    crowd.run(Span::from_secs(20), &TWO);
    assert!((34..=52).contains(&crowd.limit()), "{}", crowd.limit());
}

#[test]
fn a_word_about_load_lowers_it() {
    let mut crowd = Crowd::new(40, Settings::default());
    crowd.run(Span::from_secs(10), &TWO);
    let before = crowd.limit();
    crowd.queue.load(Fraction::from_percent(200));
    crowd.run(Span::from_secs(1), &TWO);
    assert!(crowd.limit() <= before * 6 / 10, "{before} {}", crowd.limit());
    crowd.queue.pressure(Fraction::WHOLE);
    crowd.run(Span::from_secs(1), &TWO);
    assert!(crowd.limit() <= before * 4 / 10, "{before} {}", crowd.limit());
}

#[test]
fn bounds_hold_and_change_while_it_runs() {
    let settings = Settings { limit_max: 30, ..Settings::default() };
    let mut crowd = Crowd::new(40, settings);
    crowd.run(Span::from_secs(5), &TWO);
    assert_eq!(crowd.limit(), 30);
    crowd.queue.set_adaptive(Settings { limit_max: 10, limit_start: 5, ..settings }).unwrap();
    crowd.run(Span::from_secs(1), &TWO);
    assert_eq!(crowd.limit(), 10);
    assert!(crowd.queue.stats().in_flight <= 10);
    crowd.queue.set_adaptive(Settings::default()).unwrap();
    crowd.run(Span::from_secs(10), &TWO);
    assert!((38..=52).contains(&crowd.limit()), "{}", crowd.limit());
    let wrong = Settings { limit_min: 0, ..settings };
    assert!(crowd.queue.set_adaptive(wrong).is_err() && FairQueue::adaptive(wrong).is_err());
}

#[test]
fn who_leaves_without_a_word_teaches_nothing_and_leaves_nothing_behind() {
    let clock = Arc::new(ManualClock::new());
    let queue = FairQueue::adaptive(Settings::default()).unwrap().clock(clock.clone()).build();
    for _ in 0..10_000 {
        let mut acquire = queue.of("a").acquire(Span::from_secs(1));
        let permit = Pin::new(&mut acquire).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(permit, Poll::Ready(Ok(_))));
        clock.advance(Span::from_micros(10));
    }
    assert_eq!((queue.stats().in_flight, queue.stats().limit), (0, 20));
    assert_eq!(queue.reading().unwrap().latency_base, Span::ZERO);
    assert_eq!(FairQueue::in_flight(1).build().reading(), None);
}
