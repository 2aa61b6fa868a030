//! The shaper in this process: constant rate, exact waits, and no trace of calls that leave.
//!
//! The clock stands still until a test moves it, so every slot is exact and none takes time.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tidegate_core::{Quota, Span};
use tidegate_sim::rng::Rng;
use tidegate_sim::shaping::{self, Asked, Shaped};
use tidegate_store::{AcquireSlot, ManualClock, NoSlot, Shaper, Slot};

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicU32);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A call that is polled when it is rung for, as an executor would.
struct Call<'a> {
    future: Pin<Box<AcquireSlot<'a>>>,
    bell: Arc<Bell>,
}

impl<'a> Call<'a> {
    fn new(future: AcquireSlot<'a>) -> Call<'a> {
        Call { future: Box::pin(future), bell: Arc::default() }
    }

    fn poll(&mut self) -> Poll<Result<Slot, NoSlot>> {
        self.bell.0.store(0, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.bell));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn is_rung(&self) -> bool {
        0 < self.bell.0.load(Ordering::SeqCst)
    }
}

fn shaper(quota: Quota) -> (Shaper, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    clock.advance(Span::from_secs(1_000));
    let shaper = Shaper::builder(quota).clock(Arc::<ManualClock>::clone(&clock)).build();
    (shaper.expect("a possible quota"), clock)
}

fn refused(poll: Poll<Result<Slot, NoSlot>>) -> Span {
    match poll {
        Poll::Ready(Err(NoSlot::Refused { retry_after, .. })) => retry_after,
        other => panic!("not refused: {other:?}"),
    }
}

#[track_caller]
fn waited(poll: Poll<Result<Slot, NoSlot>>) -> Span {
    match poll {
        Poll::Ready(Ok(slot)) => slot.waited,
        other => panic!("not sent: {other:?}"),
    }
}

/// Every call of a shaper under test, in memory.
struct Memory<'a> {
    shaper: &'a Shaper,
    clock: Arc<ManualClock>,
    calls: BTreeMap<u32, Call<'a>>,
}

impl Shaped for Memory<'_> {
    const MOVES_UP: bool = true;

    fn ask(&mut self, call: u32, key: u64, cost: u32, within: Span) -> Asked {
        let mut future = Call::new(self.shaper.acquire_within(key, cost, within));
        match future.poll() {
            Poll::Ready(Ok(slot)) if slot.waited == Span::ZERO => Asked::Sent,
            Poll::Ready(Ok(slot)) => panic!("nobody waits for {slot:?}"),
            Poll::Ready(Err(NoSlot::Refused { retry_after, .. })) => Asked::Refused { retry_after },
            Poll::Ready(Err(_)) => Asked::Never,
            Poll::Pending => {
                self.calls.insert(call, future);
                Asked::Waits
            }
        }
    }

    fn leave(&mut self, call: u32) {
        self.calls.remove(&call).expect("it waits");
        // Calls that were rung poll, as an executor would have them.
        for call in self.calls.values_mut().filter(|call| call.is_rung()) {
            assert!(call.poll().is_pending(), "nobody moves up into the past");
        }
    }

    fn advance(&mut self, by: Span) -> Vec<u32> {
        self.clock.advance(by);
        let rung = |(call, it): (&u32, &mut Call<'_>)| {
            (it.is_rung() && it.poll().is_ready()).then_some(*call)
        };
        let sent: Vec<u32> = self.calls.iter_mut().filter_map(rung).collect();
        for call in &sent {
            self.calls.remove(call);
        }
        sent
    }
}

#[test]
fn law_the_output_is_that_of_a_naive_queue() {
    for seed in 0..600 {
        let quota = Rng::new(seed).small_quota();
        let (shaper, clock) = shaper(quota);
        let mut memory = Memory { shaper: &shaper, clock, calls: BTreeMap::new() };
        shaping::check(&mut memory, quota, seed, 400);
        drop(memory);
        assert_eq!(shaper.waiting(), 0);
    }
}

#[test]
fn law_no_rate_drifts() {
    // A third of a second is no whole number of ticks: the thousandth slot is exact all the same.
    let (shaper, clock) = shaper(Quota::per_second(3).burst(2_000));
    let mut calls: Vec<Call<'_>> = (0..1_000).map(|_| Call::new(shaper.acquire("it", 1))).collect();
    for call in &mut calls[..999] {
        let _ = call.poll();
    }
    assert!(calls[999].poll().is_pending());
    clock.advance(Span::from_micros(332_999_999));
    assert!(!calls[999].is_rung());
    clock.advance(Span::from_micros(1));
    assert_eq!(waited(calls[999].poll()), Span::from_secs(333));
}

#[test]
fn a_slot_comes_at_its_tick_and_not_before() {
    let (shaper, clock) = shaper(Quota::per_second(10));
    assert_eq!(waited(Call::new(shaper.acquire("it", 1)).poll()), Span::ZERO);
    let mut second = Call::new(shaper.acquire("it", 1));
    assert!(second.poll().is_pending());
    assert_eq!(shaper.peek("it", 1), Ok(Span::from_millis(200)));
    clock.advance(Span::from_micros(99_999));
    assert!(!second.is_rung(), "polled for nothing");
    clock.advance(Span::from_micros(1));
    assert_eq!(waited(second.poll()), Span::from_millis(100));
    assert_eq!((shaper.waiting(), clock.waiting()), (0, 0));
    // Another key has a line of its own.
    assert_eq!(waited(Call::new(shaper.acquire("other", 1)).poll()), Span::ZERO);
}

#[test]
fn whoever_stands_behind_one_that_leaves_moves_up() {
    let (shaper, clock) = shaper(Quota::per_second(10));
    let mut calls: Vec<Call<'_>> =
        [1, 3, 1, 2].map(|cost| Call::new(shaper.acquire("it", cost))).into();
    assert!(calls[0].poll().is_ready());
    assert!(calls[1..].iter_mut().all(|call| call.poll().is_pending()));
    clock.advance(Span::from_millis(50));
    drop(calls.remove(1));
    // From 400 and 500 ms to 100 and 200.
    assert!(calls[1].is_rung() && calls[2].is_rung());
    assert!(calls[1].poll().is_pending() && calls[2].poll().is_pending());
    clock.advance(Span::from_millis(50));
    assert_eq!(waited(calls[1].poll()), Span::from_millis(100));
    assert!(!calls[2].is_rung());
    clock.advance(Span::from_millis(100));
    assert_eq!(waited(calls[2].poll()), Span::from_millis(200));
    assert_eq!(shaper.peek("it", 1), Ok(Span::from_millis(200)));
}

#[test]
fn a_slot_whose_time_has_come_is_lost_and_moves_nobody() {
    let (shaper, clock) = shaper(Quota::per_second(10));
    let mut calls: Vec<Call<'_>> = (0..3).map(|_| Call::new(shaper.acquire("it", 1))).collect();
    for call in &mut calls {
        let _ = call.poll();
    }
    // Nobody polls the second, and the third must not wait for that.
    clock.advance(Span::from_millis(150));
    drop(calls.remove(1));
    assert!(!calls[1].is_rung(), "sent half a slot after the one before");
    clock.advance(Span::from_millis(50));
    assert_eq!(waited(calls[1].poll()), Span::from_millis(200));
}

#[test]
fn a_call_that_nobody_polls_holds_nobody_up() {
    let (shaper, clock) = shaper(Quota::per_second(10));
    let mut calls: Vec<Call<'_>> = (0..3).map(|_| Call::new(shaper.acquire("it", 1))).collect();
    for call in &mut calls {
        let _ = call.poll();
    }
    clock.advance(Span::from_millis(200));
    assert_eq!(waited(calls[2].poll()), Span::from_millis(200));
    assert_eq!(waited(calls[1].poll()), Span::from_millis(200));
}

#[test]
fn a_refusal_is_exact_and_leaves_no_trace() {
    let (shaper, clock) = shaper(Quota::per_second(10).burst(3));
    let mut calls: Vec<Call<'_>> = (0..3).map(|_| Call::new(shaper.acquire("it", 1))).collect();
    for call in &mut calls {
        let _ = call.poll();
    }
    // Full: the next has room in 100 ms.
    assert_eq!(refused(Call::new(shaper.acquire("it", 1)).poll()), Span::from_millis(100));
    assert_eq!(refused(Call::new(shaper.acquire("it", 3)).poll()), Span::from_millis(300));
    // Room in 100 ms, but in time only in 150.
    let within = Span::from_millis(150);
    let late = Call::new(shaper.acquire_within("it", 1, within)).poll();
    assert_eq!(refused(late), Span::from_millis(150));
    assert!(matches!(Call::new(shaper.acquire("it", 4)).poll(), Poll::Ready(Err(NoSlot::Never))));
    assert_eq!(shaper.waiting(), 2);
    clock.advance(Span::from_micros(149_999));
    assert_eq!(
        refused(Call::new(shaper.acquire_within("it", 1, within)).poll()),
        Span::from_micros(1)
    );
    clock.advance(Span::from_micros(1));
    let mut fits = Call::new(shaper.acquire_within("it", 1, within));
    assert!(fits.poll().is_pending());
    clock.advance(within);
    assert_eq!(waited(fits.poll()), within);
}

#[test]
fn the_longest_wait_bounds_every_call() {
    let clock = Arc::new(ManualClock::new());
    let builder = Shaper::builder(Quota::per_second(10).burst(100));
    let builder = builder.longest_wait(Duration::from_millis(250));
    let shaper = builder.clock(Arc::<ManualClock>::clone(&clock)).build().unwrap();
    let mut calls: Vec<Call<'_>> =
        (0..3).map(|_| Call::new(shaper.acquire_within("it", 1, Span::MAX))).collect();
    assert!(calls[0].poll().is_ready());
    assert!(calls[1].poll().is_pending() && calls[2].poll().is_pending());
    assert_eq!(refused(Call::new(shaper.acquire("it", 1)).poll()), Span::from_millis(50));
    assert_eq!(
        shaper.peek("it", 1),
        Err(NoSlot::Refused { retry_after: Span::from_millis(50), by: tidegate_store::By::Store })
    );
}

#[test]
fn keys_are_bounded_and_idle_ones_make_room() {
    let clock = Arc::new(ManualClock::new());
    let builder = Shaper::builder(Quota::per_second(10)).keys_max(2);
    let shaper = builder.clock(Arc::<ManualClock>::clone(&clock)).build().unwrap();
    let ask = |key: u32| Call::new(shaper.acquire(key, 1)).poll();
    assert!(waited(ask(1)) == Span::ZERO && waited(ask(2)) == Span::ZERO);
    assert_eq!(refused(ask(3)), Span::from_millis(100));
    clock.advance(Span::from_micros(99_999));
    assert_eq!(refused(ask(3)), Span::from_micros(1));
    clock.advance(Span::from_micros(1));
    assert_eq!(waited(ask(3)), Span::ZERO);
    let long = "k".repeat(5_000);
    assert!(matches!(Call::new(shaper.acquire(&long, 1)).poll(), Poll::Ready(Err(NoSlot::Never))));
}

/// An executor may poll, or drop, inside a wake: no lock may be held then.
#[test]
fn a_waker_may_come_back_to_the_shaper() {
    struct Asks(Arc<Shaper>);
    impl Wake for Asks {
        fn wake(self: Arc<Self>) {
            let _ = Call::new(self.0.acquire("it", 1)).poll();
        }
    }
    let (shaper, clock) = shaper(Quota::per_second(10));
    let shaper = Arc::new(shaper);
    let waker = Waker::from(Arc::new(Asks(Arc::clone(&shaper))));
    let mut calls: Vec<_> = (0..4).map(|_| Box::pin(shaper.acquire("it", 1))).collect();
    for call in &mut calls {
        let _ = call.as_mut().poll(&mut Context::from_waker(&waker));
    }
    drop(calls.remove(1));
    clock.advance(Span::from_secs(1));
}

#[test]
fn threads_are_sent_at_the_rate_by_the_systems_clock() {
    let shaper = Shaper::new(Quota::per_second(2_000).burst(300)).unwrap();
    let start = shaper.now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    shaper.acquire_blocking("it", 1, Duration::from_secs(10)).unwrap();
                }
            });
        }
    });
    let took = shaper.now().since(start);
    assert!(Span::from_micros(199 * 500) <= took, "200 at 2,000 a second took {took}");
}
