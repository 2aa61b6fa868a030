//! Who waits, who is served, and that nothing is lost on the way.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tidegate_core::{Policy, Quota, Span};
use tidegate_fair::{Acquire, Class, FairQueue, Permit, Reason, Refused, Settings};
use tidegate_sim::rng::Rng;
use tidegate_store::ManualClock;

const PATIENCE: Span = Span::from_secs(10);

fn in_flight(limit: u32) -> (FairQueue, Arc<ManualClock>) {
    with(limit, Settings::default())
}

fn with(limit: u32, settings: Settings) -> (FairQueue, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let queue = FairQueue::in_flight(limit).settings(settings).clock(clock.clone()).build();
    (queue, clock)
}

fn rate(quota: Quota) -> (FairQueue, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let policy = Policy::token_bucket(quota).unwrap();
    (FairQueue::rate(policy).unwrap().clock(clock.clone()).build(), clock)
}

fn poll(acquire: &mut Acquire) -> Option<Result<Permit, Refused>> {
    match Pin::new(acquire).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// One that waits.
fn waiting(queue: &FairQueue, name: &str) -> Acquire {
    let mut acquire = queue.of(name).acquire(PATIENCE);
    assert!(poll(&mut acquire).is_none(), "it does not have to wait");
    acquire
}

fn now(queue: &FairQueue, name: &str) -> Permit {
    poll(&mut queue.of(name).acquire(PATIENCE)).unwrap().unwrap()
}

struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Woken>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn while_there_is_room_nobody_waits() {
    let (queue, clock) = in_flight(3);
    let permits: Vec<Permit> = (0..3).map(|_| now(&queue, "a")).collect();
    assert_eq!((queue.stats().in_flight, clock.waiting()), (3, 0));
    let mut fourth = waiting(&queue, "a");
    drop(permits);
    drop(poll(&mut fourth).unwrap().unwrap());
    assert_eq!((queue.stats().in_flight, queue.stats().waiting), (0, 0));
}

#[test]
fn one_tenant_does_not_keep_another_waiting() {
    let (queue, _clock) = in_flight(1);
    let mut held = Some(now(&queue, "noisy"));
    let mut crowd: Vec<(&str, Acquire)> =
        (0..500).map(|_| ("noisy", waiting(&queue, "noisy"))).collect();
    crowd.push(("quiet", waiting(&queue, "quiet")));
    let mut served = Vec::new();
    for _ in 0..3 {
        drop(held.take());
        let mut done = crowd.iter_mut().filter_map(|(name, it)| Some((*name, poll(it)?)));
        let (name, permit) = done.next().unwrap();
        assert!(done.next().is_none());
        served.push(name);
        held = Some(permit.unwrap());
    }
    assert!(served[..2].contains(&"quiet"), "{served:?}");
}

#[test]
fn shares_are_by_weight() {
    let (queue, _clock) = in_flight(1);
    let mut held = Some(now(&queue, "warm-up"));
    let ask = |name: &'static str, weight| {
        let mut acquire = queue.of(name).weight(weight).acquire(PATIENCE);
        assert!(poll(&mut acquire).is_none());
        (name, weight, acquire)
    };
    let mut waiting = vec![ask("one", 1), ask("one", 1), ask("three", 3), ask("three", 3)];
    let mut served = [0, 0];
    for _ in 0..400 {
        drop(held.take());
        let at = waiting.iter_mut().position(|(_, _, it)| match poll(it) {
            Some(permit) => {
                held = Some(permit.unwrap());
                true
            }
            None => false,
        });
        let (name, weight, _) = waiting.remove(at.unwrap());
        served[usize::from(name == "three")] += 1;
        waiting.push(ask(name, weight));
    }
    assert_eq!(served, [100, 300]);
}

#[test]
fn a_dropped_future_gives_its_turn_to_the_next() {
    let (queue, _clock) = in_flight(1);
    let held = now(&queue, "a");
    let first = waiting(&queue, "b");
    let mut second = waiting(&queue, "b");
    drop(first);
    assert_eq!(queue.stats().waiting, 1);
    drop(held);
    drop(poll(&mut second).unwrap().unwrap());
}

#[test]
fn a_turn_that_nobody_took_goes_to_the_next() {
    let (queue, _clock) = in_flight(1);
    let held = now(&queue, "a");
    let first = waiting(&queue, "b");
    let mut second = waiting(&queue, "c");
    // It is the first one's turn now, and it is dropped before it looks.
    drop(held);
    assert_eq!(queue.stats().in_flight, 1);
    drop(first);
    let permit = poll(&mut second).unwrap().unwrap();
    assert_eq!(queue.stats().in_flight, 1);
    drop(permit);
    assert_eq!(queue.stats().in_flight, 0);
}

#[test]
fn a_deadline_passes_by_the_clock_alone() {
    let (queue, clock) = in_flight(1);
    let _held = now(&queue, "a");
    let woken = Arc::new(Woken(AtomicU32::new(0)));
    let waker = Waker::from(woken.clone());
    let mut acquire = queue.of("b").acquire(Span::from_millis(30));
    assert!(Pin::new(&mut acquire).poll(&mut Context::from_waker(&waker)).is_pending());
    clock.advance(Span::from_millis(29));
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    clock.advance(Span::from_millis(1));
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    let refused = poll(&mut acquire).unwrap().unwrap_err();
    assert_eq!((refused.reason, queue.stats().waiting), (Reason::Expired, 0));
}

#[test]
fn who_cannot_start_in_time_is_told_so_at_once() {
    let (queue, clock) = in_flight(2);
    // Twenty that took a tenth of a second each.
    for _ in 0..20 {
        let permit = now(&queue, "a");
        clock.advance(Span::from_millis(100));
        drop(permit);
    }
    let _held = [now(&queue, "a"), now(&queue, "a")];
    let _crowd: Vec<Acquire> = (0..10).map(|_| waiting(&queue, "a")).collect();
    let impatient = poll(&mut queue.of("a").acquire(Span::from_millis(200))).unwrap();
    let refused = impatient.unwrap_err();
    // Ten before it, two at a time: half a second.
    assert_eq!(refused.reason, Reason::TooLate);
    assert_eq!(refused.retry_after, Some(Span::from_millis(300)));
    assert!(poll(&mut queue.of("b").acquire(Span::from_millis(200))).is_none());
}

#[test]
fn a_new_limit_counts_at_once() {
    let (queue, _clock) = in_flight(1);
    let _held = now(&queue, "a");
    let mut crowd: Vec<Acquire> = (0..4).map(|_| waiting(&queue, "a")).collect();
    queue.set_limit(3);
    let started: Vec<Permit> = crowd.iter_mut().filter_map(poll).map(Result::unwrap).collect();
    assert_eq!((started.len(), queue.stats().in_flight), (2, 3));
    queue.set_limit(1);
    drop(started);
    assert_eq!((queue.stats().in_flight, queue.stats().waiting), (1, 2));
}

#[test]
fn whoever_wants_more_than_there_is_takes_all_of_it() {
    let (queue, _clock) = in_flight(4);
    let held = now(&queue, "a");
    let mut wide = queue.of("b").cost(100).acquire(PATIENCE);
    assert!(poll(&mut wide).is_none());
    drop(held);
    let permit = poll(&mut wide).unwrap().unwrap();
    assert_eq!(queue.stats().in_flight, 4);
    permit.complete(100);
    assert_eq!(queue.stats().in_flight, 0);
}

#[test]
fn cells_of_a_rate_are_handed_out_fairly_as_they_come() {
    let (queue, clock) = rate(Quota::per_second(10).burst(1));
    drop(now(&queue, "a"));
    let mut noisy: Vec<Acquire> = (0..50).map(|_| waiting(&queue, "noisy")).collect();
    let mut quiet: Vec<Acquire> = (0..5).map(|_| waiting(&queue, "quiet")).collect();
    let started = |crowd: &mut Vec<Acquire>| {
        let before = crowd.len();
        crowd.retain_mut(|it| poll(it).is_none());
        before - crowd.len()
    };
    let mut sums = [0, 0];
    for second in 1..=10 {
        clock.advance(Span::from_millis(100));
        let now = [started(&mut noisy), started(&mut quiet)];
        assert_eq!(now[0] + now[1], 1, "one every tenth of a second, at {second}");
        sums[0] += now[0];
        sums[1] += now[1];
    }
    assert_eq!(sums, [5, 5]);
}

#[test]
fn more_than_a_policy_ever_lets_pass_is_refused_at_once() {
    let (queue, _clock) = rate(Quota::per_second(10).burst(5));
    let refused = poll(&mut queue.of("a").cost(6).acquire(PATIENCE)).unwrap().unwrap_err();
    assert_eq!((refused.reason, refused.retry_after), (Reason::TooWide, None));
    drop(poll(&mut queue.of("a").cost(5).acquire(PATIENCE)).unwrap().unwrap());
}

#[test]
fn who_is_first_and_cannot_be_paid_for_in_time_is_told_so_at_once() {
    let (queue, clock) = rate(Quota::per_second(1).burst(3));
    drop(poll(&mut queue.of("a").cost(3).acquire(PATIENCE)).unwrap().unwrap());
    let within = |span| queue.of("b").cost(2).acquire(span);
    let refused = poll(&mut within(Span::from_millis(1_500))).unwrap().unwrap_err();
    assert_eq!(refused.reason, Reason::TooLate);
    assert_eq!(refused.retry_after, Some(Span::from_millis(500)));
    clock.advance(Span::from_millis(500));
    let mut waits = within(Span::from_millis(1_500));
    assert!(poll(&mut waits).is_none());
    clock.advance(Span::from_millis(1_500));
    drop(poll(&mut waits).unwrap().unwrap());
}

#[test]
fn a_cell_of_a_rate_that_nobody_took_is_there_for_the_next() {
    let (queue, clock) = rate(Quota::per_second(1).burst(1));
    drop(now(&queue, "a"));
    let first = waiting(&queue, "b");
    let mut second = waiting(&queue, "c");
    clock.advance(Span::from_secs(1));
    drop(first);
    assert!(poll(&mut second).is_some());
}

#[test]
fn a_changed_rate_keeps_what_was_used() {
    let (queue, clock) = rate(Quota::per_second(10).burst(10));
    drop(poll(&mut queue.of("a").cost(10).acquire(PATIENCE)).unwrap().unwrap());
    let mut next = waiting(&queue, "a");
    queue.set_policy(Policy::token_bucket(Quota::per_second(100).burst(10)).unwrap()).unwrap();
    assert!(poll(&mut next).is_none(), "a new rate is no new burst");
    clock.advance(Span::from_millis(10));
    drop(poll(&mut next).unwrap().unwrap());
}

#[test]
fn whoever_is_pushed_out_hears_of_it() {
    let settings = Settings { requests_max: 4, ..Settings::default() };
    let (queue, _clock) = with(1, settings);
    let _held = now(&queue, "a");
    let mut noisy: Vec<Acquire> = (0..4).map(|_| waiting(&queue, "noisy")).collect();
    let _quiet = waiting(&queue, "quiet");
    let told: Vec<Reason> =
        noisy.iter_mut().filter_map(poll).map(|it| it.unwrap_err().reason).collect();
    assert_eq!(told, [Reason::PushedOut]);
    let refused = queue.stats().refused;
    assert_eq!(refused.iter().map(|(_, count)| count).sum::<u64>(), 1);
}

#[test]
fn a_higher_class_goes_first() {
    let (queue, _clock) = in_flight(1);
    let held = now(&queue, "a");
    let _normal = waiting(&queue, "a");
    let mut critical = queue.of("b").class(Class::Critical).acquire(PATIENCE);
    assert!(poll(&mut critical).is_none());
    drop(held);
    assert!(poll(&mut critical).is_some());
}

#[test]
fn threads_never_hold_more_than_there_is_and_leave_nothing_behind() {
    const LIMIT: u32 = 3;
    let queue = FairQueue::in_flight(LIMIT).build();
    let out = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..6_u64 {
            let (queue, out) = (&queue, &out);
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                for _ in 0..2_000 {
                    let ask = queue.of(thread % 3);
                    if rng.one_in(4) {
                        // Left before it was served, or at the very moment.
                        let mut acquire = ask.acquire(PATIENCE);
                        drop(poll(&mut acquire));
                        continue;
                    }
                    let permit = ask.acquire_blocking(PATIENCE).unwrap();
                    assert!(out.fetch_add(1, Ordering::SeqCst) < LIMIT);
                    out.fetch_sub(1, Ordering::SeqCst);
                    permit.complete(rng.below_u32(4));
                }
            });
        }
    });
    let stats = queue.stats();
    assert_eq!((stats.in_flight, stats.waiting), (0, 0));
}

#[test]
fn whoever_waits_for_what_is_scarce_no_more_passes() {
    let second = rate(Quota::new(1, Span::from_secs(1)));
    for (queue, clock) in [in_flight(1), second] {
        let held = now(&queue, "a");
        let mut crowd: Vec<Acquire> = (0..5).map(|_| waiting(&queue, "a")).collect();
        queue.let_go();
        let passed: Vec<Permit> = crowd.iter_mut().map(|it| poll(it).unwrap().unwrap()).collect();
        drop((held, now(&queue, "b"), passed));
        clock.advance(PATIENCE);
        assert_eq!((queue.stats().waiting, queue.stats().started), (0, 7));
    }
}

#[test]
fn bounds_change_while_somebody_waits() {
    let (queue, _clock) = in_flight(1);
    let _held = now(&queue, "a");
    let _crowd: Vec<Acquire> = (0..3).map(|_| waiting(&queue, "a")).collect();
    queue.set_bounds(Settings { flow_requests_max: 3, levels: 3, ..Settings::default() });
    let refused = poll(&mut queue.of("a").acquire(PATIENCE)).unwrap().unwrap_err();
    assert_eq!(refused.reason, Reason::FlowFull);
    let _other = waiting(&queue, "b");
    // Levels stay as they were.
    queue.set_bounds(Settings { flow_requests_max: 4, ..Settings::default() });
    let _fourth = waiting(&queue, "a");
}
