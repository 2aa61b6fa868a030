//! Waiting: in order, to the deadline, without polling, and nothing is lost when a waiter leaves.
//!
//! The clock stands still until a test moves it, so every wait is exact and none takes time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tidegate_core::{Decision, Kind, Quota, Span, Verdict};
use tidegate_store::{Acquire, Limiter, LimiterBuilder, ManualClock, Pass};

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicU32);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A waiter that is polled when it is rung for, as an executor would.
struct Task<'a> {
    future: Pin<Box<Acquire<'a>>>,
    bell: Arc<Bell>,
}

impl<'a> Task<'a> {
    fn start(future: Acquire<'a>) -> Task<'a> {
        Task { future: Box::pin(future), bell: Arc::default() }
    }

    fn poll(&mut self) -> Poll<Result<Pass<'a>, Decision>> {
        self.bell.0.store(0, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.bell));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn is_rung(&self) -> bool {
        0 < self.bell.0.load(Ordering::SeqCst)
    }
}

fn passed(poll: &Poll<Result<Pass<'_>, Decision>>) -> bool {
    matches!(poll, Poll::Ready(Ok(_)))
}

fn limiter(rules: impl Fn(LimiterBuilder) -> LimiterBuilder) -> (Limiter, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let builder = Limiter::builder().clock(Arc::<ManualClock>::clone(&clock));
    (rules(builder).build().expect("a limiter"), clock)
}

const HOUR: Span = Span::from_secs(3_600);

#[test]
fn what_passes_at_once_does_not_wait() {
    let (limiter, clock) = limiter(|it| it.each("it", Quota::per_second(2)));
    assert!(passed(&Task::start(limiter.key("ada").acquire(HOUR)).poll()));
    assert!(passed(&Task::start(limiter.key("ada").acquire(Span::ZERO)).poll()));
    assert_eq!(clock.waiting(), 0);
}

#[test]
fn a_waiter_is_woken_at_its_tick_and_not_before() {
    let (limiter, clock) = limiter(|it| it.each("it", Quota::per_second(1)));
    limiter.decide("ada");
    let mut task = Task::start(limiter.key("ada").acquire(Duration::from_secs(5)));
    assert!(task.poll().is_pending());
    assert_eq!(clock.waiting(), 1);
    clock.advance(Span::from_micros(999_999));
    assert!(!task.is_rung(), "polled for nothing");
    clock.advance(Span::from_micros(1));
    assert!(task.is_rung());
    assert!(passed(&task.poll()));
    assert_eq!(clock.waiting(), 0);
}

#[test]
fn first_come_first_served_for_each_key() {
    let (limiter, clock) = limiter(|it| it.each("it", Quota::per_second(1)));
    limiter.decide("ada");
    let mut tasks: Vec<Task<'_>> =
        (0..5).map(|_| Task::start(limiter.key("ada").acquire(HOUR))).collect();
    for task in &mut tasks {
        assert!(task.poll().is_pending());
    }
    // Another key has a line of its own.
    assert!(passed(&Task::start(limiter.key("bob").acquire(HOUR)).poll()));
    for turn in 0..5 {
        clock.advance(Span::from_secs(1));
        // Polled in the wrong order, the right one still passes.
        for index in (turn..5).rev() {
            assert_eq!(passed(&tasks[index].poll()), index == turn, "turn {turn}, task {index}");
        }
        if turn < 4 {
            assert!(tasks[turn + 1].is_rung(), "the next one sleeps on");
            assert!(tasks[turn + 1].poll().is_pending());
        }
    }
}

#[test]
fn a_large_request_is_not_overtaken_by_small_ones() {
    let (limiter, clock) = limiter(|it| it.each("it", Quota::per_second(10)));
    limiter.key("ada").cost(10).decide();
    let mut large = Task::start(limiter.key("ada").cost(10).acquire(HOUR));
    assert!(large.poll().is_pending());
    let mut small: Vec<Task<'_>> =
        (0..20).map(|_| Task::start(limiter.key("ada").acquire(HOUR))).collect();
    for _ in 0..9 {
        clock.advance(Span::from_millis(100));
        assert!(small.iter_mut().all(|task| task.poll().is_pending()), "overtaken");
        assert!(large.poll().is_pending());
    }
    clock.advance(Span::from_millis(100));
    assert!(passed(&large.poll()));
    assert!(small[0].is_rung());
    clock.advance(Span::from_secs(2));
    assert_eq!(small.iter_mut().filter_map(|task| passed(&task.poll()).then_some(())).count(), 10);
}

#[test]
fn a_dropped_waiter_gives_its_place_to_the_next() {
    let (limiter, clock) = limiter(|it| it.each("it", Quota::per_second(10)));
    limiter.key("ada").cost(10).decide();
    let mut first = Task::start(limiter.key("ada").cost(10).acquire(HOUR));
    let mut second = Task::start(limiter.key("ada").cost(2).acquire(HOUR));
    let mut third = Task::start(limiter.key("ada").cost(1).acquire(HOUR));
    for task in [&mut first, &mut second, &mut third] {
        assert!(task.poll().is_pending());
    }
    drop(first);
    assert!(second.is_rung() && !third.is_rung());
    assert!(second.poll().is_pending());
    drop(second);
    assert!(third.poll().is_pending());
    clock.advance(Span::from_millis(100));
    assert!(passed(&third.poll()));
    drop(third);
    assert_eq!(clock.waiting(), 0);
    clock.advance(Span::from_secs(1));
    assert_eq!(limiter.peek("ada").remaining, 10, "a waiter that left was charged");
}

#[test]
fn what_cannot_pass_in_time_is_refused_at_once() {
    let (limiter, clock) = limiter(|it| it.each("it", Quota::per_second(1)));
    limiter.decide("ada");
    let refused = Task::start(limiter.key("ada").acquire(Span::from_millis(999))).poll();
    let Poll::Ready(Err(decision)) = refused else { panic!("waits for nothing") };
    assert_eq!(decision.verdict, Verdict::Deny { retry_after: Span::from_secs(1) });
    let never = Task::start(limiter.key("ada").cost(2).acquire(HOUR)).poll();
    let Poll::Ready(Err(decision)) = never else { panic!("waits for nothing") };
    assert_eq!(decision.verdict, Verdict::Never);
    let long = "k".repeat(5_000);
    assert!(matches!(Task::start(limiter.key(&long).acquire(HOUR)).poll(), Poll::Ready(Err(_))));
    assert_eq!(clock.waiting(), 0);
}

#[test]
fn behind_others_a_deadline_ends_the_wait() {
    let (limiter, clock) = limiter(|it| it.each("it", Quota::per_second(1)));
    limiter.decide("ada");
    let mut first = Task::start(limiter.key("ada").acquire(HOUR));
    let mut second = Task::start(limiter.key("ada").acquire(Span::from_millis(500)));
    let mut third = Task::start(limiter.key("ada").acquire(HOUR));
    for task in [&mut first, &mut second, &mut third] {
        assert!(task.poll().is_pending());
    }
    clock.advance(Span::from_millis(500));
    assert!(second.is_rung() && !first.is_rung());
    assert!(matches!(second.poll(), Poll::Ready(Err(_))));
    clock.advance(Span::from_millis(500));
    assert!(passed(&first.poll()));
    assert!(third.poll().is_pending());
    clock.advance(Span::from_secs(1));
    assert!(passed(&third.poll()));
}

#[test]
fn a_leaky_queue_holds_until_the_slot_and_a_dropped_hold_is_refunded() {
    let queue = (Kind::LeakyQueue, Quota::per_second(10).burst(5));
    let (limiter, clock) = limiter(|it| it.each("out", queue));
    assert!(passed(&Task::start(limiter.key("partner").acquire(HOUR)).poll()));
    let mut second = Task::start(limiter.key("partner").acquire(HOUR));
    let mut third = Task::start(limiter.key("partner").acquire(HOUR));
    assert!(second.poll().is_pending() && third.poll().is_pending());
    clock.advance(Span::from_millis(100));
    assert!(second.is_rung() && !third.is_rung());
    assert!(passed(&second.poll()));
    let before = limiter.peek("partner").remaining;
    drop(third);
    assert_eq!(limiter.peek("partner").remaining, before + 1, "the slot was lost");
    // A slot after the deadline is given back as well.
    limiter.key("partner").cost(4).decide();
    let before = limiter.peek("partner");
    let late = Task::start(limiter.key("partner").acquire(Span::from_millis(1))).poll();
    assert!(matches!(late, Poll::Ready(Err(_))));
    assert_eq!(limiter.peek("partner"), before);
}

#[test]
fn whoever_leaves_a_queue_leaves_nothing_behind_once_all_have_left() {
    let queue = (Kind::LeakyQueue, Quota::per_second(10).burst(10_001));
    let (limiter, clock) = limiter(|it| it.each("out", queue));
    for turn in 0..4 {
        let fresh = limiter.peek("partner");
        assert!(limiter.key("partner").decide().verdict.passes());
        let first = limiter.peek("partner");
        let mut waiting: Vec<Task<'_>> =
            (0..10_000).map(|_| Task::start(limiter.key("partner").acquire(HOUR))).collect();
        assert!(waiting.iter_mut().all(|it| it.poll().is_pending()));
        match turn {
            0 => drop(waiting),
            1 => waiting.into_iter().rev().for_each(drop),
            // Every third, in no order to speak of.
            _ => {
                let mut waiting: Vec<_> = waiting.into_iter().map(Some).collect();
                (0..30_000).for_each(|at| drop(waiting[at * 7_919 % 10_000].take()));
            }
        }
        assert_eq!(limiter.peek("partner"), first, "in turn {turn}");
        clock.advance(Span::from_millis(100));
        assert_eq!(limiter.peek("partner"), fresh);
    }
}

#[test]
fn an_empty_slot_comes_back_only_when_nobody_stands_behind_it() {
    let queue = (Kind::LeakyQueue, Quota::per_second(10).burst(9));
    let (limiter, _clock) = limiter(|it| it.each("out", queue));
    let by = || match limiter.peek("partner").verdict {
        Verdict::Delay { by } => by.get() / 1_000,
        _ => 0,
    };
    let mut waiting: Vec<_> = (0..6)
        .map(|_| {
            let mut task = Task::start(limiter.key("partner").acquire(HOUR));
            let _ = task.poll();
            Some(task)
        })
        .collect();
    // The first starts now, the others at 100, 200 … 500 ms.
    let mut left = |at: usize| {
        waiting[at] = None;
        by()
    };
    assert_eq!((by(), left(2), left(4), left(1)), (600, 600, 600, 600));
    assert_eq!(left(5), 400, "the fifth had left before");
    assert_eq!(left(3), 100, "nobody is left but the first");
    // A request that comes now is not sent together with another, and forgetting forgets empty
    // slots, too.
    let take = || {
        let mut task = Task::start(limiter.key("partner").acquire(HOUR));
        assert!(task.poll().is_pending());
        task
    };
    let (early, late) = (take(), take());
    drop(early);
    assert_eq!(by(), 300);
    limiter.reset("partner");
    drop(late);
    assert!(limiter.key("partner").decide().verdict.passes());
    let (_early, late) = (take(), take());
    drop(late);
    assert_eq!(by(), 200, "the slot of somebody else was given back");
}

/// Otherwise a client with five requests a day could fill a queue that all share.
#[test]
fn a_slot_that_cannot_come_back_is_paid_for_by_every_limit_but_permits() {
    let queue = (Kind::LeakyQueue, Quota::per_second(10).burst(160));
    let permits = (Kind::Concurrency, Quota::per_minute(5));
    let daily = (Kind::FixedWindow, Quota::per_day(5));
    let all = |it: LimiterBuilder| it.each("daily", daily).each("held", permits).all("out", queue);
    let (limiter, clock) = limiter(all);
    let left = |name: &str, who: &str| {
        let answer = limiter.key(who).cost(0).decide_each();
        answer.of(name).map(|it| it.remaining).unwrap()
    };
    assert!(limiter.key("somebody else").decide().verdict.passes());
    let ask = |who: &'static str| {
        let mut task = Task::start(limiter.key(who).acquire(HOUR));
        assert!(task.poll().is_pending());
        task
    };
    // A look has no slot to leave.
    limiter.key("ada").cost(0).enter().unwrap().refund();
    // Alone, or from the end of the queue: all of it comes back.
    (0..200).for_each(|_| drop(ask("ada")));
    assert_eq!((left("daily", "ada"), left("out", "ada")), (5, 159));
    for round in 0..5 {
        let (first, last) = (ask("ada"), ask("bob"));
        drop(first);
        assert_eq!(left("daily", "ada"), 4 - round, "it left an empty slot");
        drop(last);
        assert_eq!((left("daily", "bob"), left("out", "bob")), (5, 159), "both slots are back");
    }
    assert_eq!(left("held", "ada"), 5, "permits are held, not spent");
    // With its day used up it takes no slot any more.
    assert!(!limiter.key("ada").decide().verdict.passes());
    // A pass that is given back before its turn is no other case; after its turn it was used.
    let [first, second] = ["eve"; 2].map(|who| limiter.key(who).enter().unwrap());
    let (third, _last) = (limiter.key("eve").enter().unwrap(), ask("bob"));
    first.refund();
    assert_eq!(left("daily", "eve"), 2);
    clock.advance(Span::from_millis(200));
    second.refund();
    assert_eq!(left("daily", "eve"), 3, "it was sent, and then given back");
    third.refund();
    assert_eq!(left("daily", "eve"), 3);
}

#[test]
fn a_thread_waits_too_and_real_time_wakes_it() {
    let limiter = Limiter::new(Quota::per_second(1_000).burst(1)).unwrap();
    let start = limiter.now();
    for _ in 0..20 {
        limiter.key("ada").acquire_blocking(Duration::from_secs(10)).unwrap();
    }
    let took = limiter.now().since(start);
    assert!(Span::from_millis(19) <= took, "twenty at a thousand a second took {took}");
    assert!(limiter.key("ada").cost(2).acquire_blocking(HOUR).is_err());
}

#[test]
fn threads_in_line_all_get_their_turn() {
    let limiter = Limiter::new(Quota::per_second(2_000).burst(1)).unwrap();
    let start = limiter.now();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..25 {
                    limiter.key("ada").acquire_blocking(Duration::from_mins(1)).unwrap();
                }
            });
        }
    });
    let took = limiter.now().since(start);
    assert!(Span::from_micros(199 * 500) <= took, "200 at 2,000 a second took {took}");
}

#[test]
fn a_permit_that_comes_back_goes_to_the_first_in_line() {
    let permits = (Kind::Concurrency, Quota::in_flight(1, Span::from_secs(60)));
    let (limiter, clock) = limiter(|it| it.each("it", permits));
    let held = limiter.key("ada").enter().unwrap();
    // The lease outlasts the deadline, but the holder may be done before.
    let mut first = Task::start(limiter.key("ada").acquire(Span::from_secs(10)));
    let mut second = Task::start(limiter.key("ada").acquire(Span::from_secs(10)));
    assert!(first.poll().is_pending() && second.poll().is_pending());
    drop(held);
    assert!(first.is_rung() && !second.is_rung());
    let Poll::Ready(Ok(pass)) = first.poll() else { panic!("it was given back") };
    assert!(second.is_rung());
    assert!(second.poll().is_pending());
    clock.advance(Span::from_secs(10));
    let Poll::Ready(Err(decision)) = second.poll() else { panic!("its deadline has come") };
    assert!(matches!(decision.verdict, Verdict::Deny { .. }));
    drop(pass);
}

#[test]
fn a_permit_of_everybody_wakes_the_lines_of_other_keys() {
    let permits = (Kind::Concurrency, Quota::in_flight(1, Span::from_secs(60)));
    let (limiter, _) = limiter(|it| it.all("it", permits));
    let held = limiter.key("ada").enter().unwrap();
    let mut waits = Task::start(limiter.key("bob").acquire(Span::from_secs(10)));
    assert!(waits.poll().is_pending());
    drop(held);
    assert!(waits.is_rung());
    assert!(passed(&waits.poll()));
}

#[test]
fn a_raise_or_a_reset_wakes_whoever_waits() {
    let (limiter, _) = limiter(|it| it.each("it", Quota::per_hour(1)));
    limiter.decide("ada");
    let mut waits = Task::start(limiter.key("ada").acquire(HOUR));
    assert!(waits.poll().is_pending());
    limiter.change("it", Quota::per_hour(2)).unwrap();
    assert!(waits.is_rung());
    assert!(passed(&waits.poll()));
    let mut waits = Task::start(limiter.key("ada").acquire(HOUR));
    assert!(waits.poll().is_pending());
    limiter.reset("ada");
    assert!(passed(&waits.poll()));
}

/// A request that gives up is always refused, even where one that did not wait would pass.
#[test]
fn giving_up_is_never_told_as_a_pass() {
    let (limiter, clock) = limiter(|it| it.each("it", Quota::per_second(10)));
    limiter.key("ada").cost(9).decide();
    let mut large = Task::start(limiter.key("ada").cost(10).acquire(HOUR));
    let mut small = Task::start(limiter.key("ada").acquire(Span::from_millis(1)));
    assert!(large.poll().is_pending() && small.poll().is_pending());
    clock.advance(Span::from_millis(1));
    let Poll::Ready(Err(decision)) = small.poll() else { panic!("its deadline has come") };
    assert!(matches!(decision.verdict, Verdict::Deny { .. }), "{decision:?}");
}

/// An executor may poll, or drop, inside a wake: no lock may be held then.
#[test]
fn a_waker_may_come_back_to_the_limiter() {
    struct Asks(Arc<Limiter>);
    impl Wake for Asks {
        fn wake(self: Arc<Self>) {
            let _ = Task::start(self.0.key("ada").acquire(HOUR)).poll();
            self.0.decide("ada");
        }
    }
    let (limiter, clock) = limiter(|it| it.each("it", Quota::per_second(1)));
    let limiter = Arc::new(limiter);
    limiter.decide("ada");
    let waker = Waker::from(Arc::new(Asks(Arc::clone(&limiter))));
    let mut first = Box::pin(limiter.key("ada").acquire(HOUR));
    let mut second = Box::pin(limiter.key("ada").acquire(HOUR));
    assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(first);
    clock.advance(Span::from_secs(1));
    drop(second);
}
