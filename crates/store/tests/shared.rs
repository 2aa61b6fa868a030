//! The limiter and the shaper on any store: here on the one in this process, and on one that
//! answers later.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use tidegate_core::{Credits, Kind, Policy, Quota, QuotaError, Span, Tick, Verdict};
use tidegate_sim::rng::Rng;
use tidegate_store::{
    BuildError, By, ChangeError, Charged, Clock, Judgment, KeyForm, Later, LimitCharge, Limiter,
    LimiterBuilder, ManualClock, MemoryStore, NoSlot, Place, PreparedLimits, Shaper, SharedLimiter,
    Standing, Store, StoreFailure, StoreStats, Verb, WantedLimit, Work, at_once,
};

const SECOND: Span = Span::from_secs(1);

/// A store that says when it is polled for the second time what the one in this process says, and
/// does its unfinished work when it is asked to.
#[derive(Debug, Default)]
struct Slow {
    memory: MemoryStore,
    asked: AtomicUsize,
    finished: AtomicUsize,
}

fn later<T: Send + Unpin + 'static>(answer: Later<T>) -> Later<T> {
    let mut is_first = true;
    Later::pending(async move {
        std::future::poll_fn(|_| {
            if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        answer.await
    })
}

impl Store for Slow {
    fn key_form(&self) -> KeyForm<'_> {
        self.memory.key_form()
    }

    fn prepare(
        &self,
        wanted: &[WantedLimit<'_>],
        now: Tick,
    ) -> Result<PreparedLimits<'_>, StoreFailure> {
        Store::prepare(&self.memory, wanted, now)
    }

    fn judge(&self, charges: &[LimitCharge<'_>], verb: Verb, now: Tick) -> Later<Judgment> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        later(self.memory.judge(charges, verb, now))
    }

    fn settle(
        &self,
        at: Place<'_>,
        charged: &mut Charged,
        cells: u32,
        clock: &Arc<dyn Clock>,
    ) -> Later<Standing> {
        later(self.memory.settle(at, charged, cells, clock))
    }

    fn give_up(
        &self,
        charged: &mut [(Place<'_>, &mut Charged)],
        clock: &Arc<dyn Clock>,
    ) -> Later<()> {
        later(Store::give_up(&self.memory, charged, clock))
    }

    fn release(&self, at: Place<'_>, charged: &mut Charged, clock: &Arc<dyn Clock>) -> Later<()> {
        later(self.memory.release(at, charged, clock))
    }

    fn renew(
        &self,
        at: Place<'_>,
        charged: &mut Charged,
        clock: &Arc<dyn Clock>,
    ) -> Later<Result<bool, StoreFailure>> {
        later(Store::renew(&self.memory, at, charged, clock))
    }

    fn lapses_at(&self, at: Place<'_>, charged: &Charged, clock: &dyn Clock) -> Option<Tick> {
        self.memory.lapses_at(at, charged, clock)
    }

    fn reset(&self, at: Place<'_>) -> Later<Result<(), StoreFailure>> {
        later(Store::reset(&self.memory, at))
    }

    fn finish(&self, work: Work<()>) {
        self.finished.fetch_add(1, Ordering::SeqCst);
        wait(work);
    }

    fn stats(&self) -> StoreStats {
        Store::stats(&self.memory)
    }

    fn keys_max(&self) -> usize {
        Store::keys_max(&self.memory)
    }
}

/// Polls until it is done, as an executor would that has nothing else to do.
fn wait<T>(work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..100 {
        if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
            return done;
        }
    }
    panic!("it is never done");
}

fn poll_once<T>(work: impl Future<Output = T>) -> Poll<T> {
    std::pin::pin!(work).poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls it more often than a store is asked for it.
fn poll_often<F: Future>(work: &mut Pin<Box<F>>) -> Poll<F::Output> {
    let mut polls = (0..9).map(|_| poll_once(work.as_mut()));
    polls.find(Poll::is_ready).unwrap_or(Poll::Pending)
}

fn manual() -> Arc<ManualClock> {
    let clock = Arc::new(ManualClock::new());
    clock.advance(Span::from_secs(1_000));
    clock
}

fn on(store: Arc<dyn Store>, builder: LimiterBuilder) -> (SharedLimiter, Arc<ManualClock>) {
    let clock = manual();
    let builder = builder.clock(Arc::<ManualClock>::clone(&clock));
    (builder.build_on(store).unwrap(), clock)
}

/// Both stores, for which the same has to hold.
fn stores() -> [Arc<dyn Store>; 2] {
    [Arc::new(MemoryStore::new()), Arc::new(Slow::default())]
}

fn permits(count: u32, lease: Span) -> Policy {
    Policy::new(Kind::Concurrency, Quota::in_flight(count, lease)).unwrap()
}

#[test]
fn law_a_limiter_on_any_store_answers_as_the_one_in_this_process() {
    for (seed, store) in (0..20).flat_map(|seed| stores().map(|store| (seed, store))) {
        let builder = || {
            let credits = Credits::new(Span::from_secs(2), 3);
            let builder = Limiter::builder().each("client", Quota::per_second(5).burst(9));
            let builder = builder.each("saved", Quota::per_second(4)).credits(credits);
            builder
                .each("log", (Kind::SlidingLog, Quota::per_second(8)))
                .all("everyone", (Kind::FixedWindow, Quota::per_second(20)))
        };
        let (shared, clock) = on(store, builder());
        let same: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let here = builder().clock(same).build().unwrap();
        let mut rng = Rng::new(seed);
        for _ in 0..400 {
            clock.advance(Span::from_micros(rng.below(400_000)));
            let cost = u32::try_from(rng.below(4)).unwrap();
            let (client, route) = (rng.below(3), rng.below(2));
            let ask = here.key(client).key_for("log", ("route", route)).unwrap().cost(cost);
            let other = shared.key(client).key_for("log", ("route", route)).unwrap().cost(cost);
            if rng.one_in(5) {
                assert_eq!(wait(other.peek()).decision(), ask.peek());
                continue;
            }
            let (answer, other) = (ask.decide_each(), wait(other.decide()));
            assert_eq!(answer.each().collect::<Vec<_>>(), other.each().collect::<Vec<_>>());
            assert_eq!(answer.decision(), other.decision());
            assert_eq!((answer.verdict(), other.by()), (other.verdict(), By::Store));
            if rng.one_in(20) {
                here.reset(client);
                wait(shared.reset(client)).unwrap();
            }
            if rng.one_in(20) {
                let quota = Quota::per_second(2 + u32::try_from(rng.below(9)).unwrap());
                here.change("client", quota).unwrap();
                shared.change("client", quota).unwrap();
            }
        }
    }
}

#[test]
fn what_passed_can_be_given_back() {
    for store in stores() {
        let builder = Limiter::builder().each("flights", permits(2, Span::from_secs(30)));
        let (limiter, clock) = on(store, builder.each("starts", Quota::per_second(100)));
        let enter = async || limiter.key("ada").enter().await;
        let left = |rule: &str| wait(limiter.key("ada").cost(0).peek()).of(rule).unwrap().remaining;
        let (one, two) = (wait(enter()).unwrap(), wait(enter()).unwrap());
        assert_eq!((two.by(), two.decision().remaining), (By::Store, 0));
        let refused = wait(enter()).unwrap_err();
        assert_eq!(refused.violated().map(|(name, _)| name).collect::<Vec<_>>(), ["flights"]);
        // Released: the permit is there again, and what else was charged stands.
        wait(one.release());
        assert_eq!((left("flights"), left("starts")), (1, 98));
        // Refunded: all is as if it had not been.
        wait(wait(enter()).unwrap().refund());
        assert_eq!((left("flights"), left("starts")), (1, 98));
        // Dropped: permits come back.
        drop(two);
        assert_eq!((left("flights"), left("starts")), (2, 98));
        // Decided without being entered, or lost: they come back after their lease.
        assert!(wait(limiter.decide("ada")).verdict().passes());
        std::mem::forget(wait(enter()).unwrap());
        assert_eq!(left("flights"), 0);
        clock.advance(Span::from_secs(30));
        assert_eq!(left("flights"), 2);
    }
}

#[test]
fn a_pass_that_is_refunded_before_its_turn_leaves_its_queue() {
    for store in stores() {
        let builder = Limiter::builder().each("daily", (Kind::FixedWindow, Quota::per_day(5)));
        let queue = (Kind::LeakyQueue, Quota::per_second(1).burst(10));
        let (limiter, _clock) = on(store, builder.all("queue", queue));
        let left = |key: &str| wait(limiter.key(key).cost(0).peek()).of("daily").unwrap().remaining;
        assert!(wait(limiter.decide("first")).verdict().passes());
        let early = wait(limiter.key("mallory").enter()).unwrap();
        let behind = wait(limiter.key("ada").enter()).unwrap();
        assert_eq!(behind.decision().verdict, Verdict::Delay { by: Span::from_secs(2) });
        wait(early.refund());
        wait(behind.refund());
        // A queue is not filled for free, unless nobody stands behind.
        assert_eq!((left("mallory"), left("ada")), (4, 5));
    }
}

#[test]
fn keys_of_tenants_count_apart_and_long_ones_never_pass() {
    for store in stores() {
        let (limiter, _clock) = on(store, Limiter::builder().each("user", Quota::per_second(1)));
        for tenant in ["acme", "umbrella"] {
            let ask = || limiter.key("").in_tenant(tenant, "ada");
            assert!(wait(ask().decide()).verdict().passes());
            assert!(!wait(ask().decide()).verdict().passes());
        }
        assert!(wait(limiter.decide("ada")).verdict().passes());
        let own = limiter.key("ada").key_in_tenant_for("user", "acme", "bob").unwrap();
        assert!(wait(own.decide()).verdict().passes());
        let long = "x".repeat(4_097);
        let never = wait(limiter.decide(&*long));
        assert_eq!((never.verdict(), never.each().count()), (Verdict::Never, 0));
        assert_eq!(wait(limiter.key(&*long).enter()).unwrap_err().verdict(), Verdict::Never);
        let error = limiter.key("ada").key_for("usr", "x").unwrap_err();
        assert_eq!(error.to_string(), "no rule is called `usr`; the limiter has `user`");
    }
}

#[test]
fn mistakes_in_building_and_changing_are_those_of_every_limiter() {
    let one = Quota::per_second(1);
    let build = |builder: LimiterBuilder| builder.build_on(Arc::new(MemoryStore::new()));
    assert_eq!(build(Limiter::builder()).err(), Some(BuildError::NoRules));
    let same = Limiter::builder().each("a", one).all("a", one);
    assert_eq!(build(same).err(), Some(BuildError::SameName { name: "a".into() }));
    let peak = Limiter::builder().each("r-peak", one).each("r", one);
    let peak = peak.credits(Credits::new(SECOND, 1));
    assert_eq!(build(peak).err(), Some(BuildError::SameName { name: "r-peak".into() }));
    let former = Limiter::builder().each("a", one).formerly(Quota::per_second(0));
    assert!(matches!(build(former).err(), Some(BuildError::Quota { name, .. }) if &*name == "a"));
    let burst = (Kind::FixedWindow, one.burst(2));
    let error = Shaper::builder(Quota::per_second(0)).build_on("out", Arc::new(Slow::default()));
    assert!(matches!(error, Err(BuildError::Quota { name, .. }) if &*name == "out"));
    let (limiter, _clock) = on(Arc::new(Slow::default()), Limiter::builder().each("a", one));
    assert_eq!(limiter.change("b", one), Err(ChangeError::UnknownRule));
    let error = QuotaError::BurstWithoutBucket;
    assert_eq!(limiter.change("a", burst), Err(ChangeError::Quota(error)));
}

#[test]
fn a_shaper_on_any_store_sends_one_after_the_other() {
    for store in stores() {
        let clock = manual();
        let builder = Shaper::builder(Quota::per_second(10)).clock(Arc::clone(&clock) as _);
        let shaper = builder.longest_wait(Span::from_millis(250)).build_on("out", store).unwrap();
        assert_eq!(wait(shaper.acquire("it", 1)).unwrap().waited, Span::ZERO);
        let mut waiting: Vec<_> = (0..2).map(|_| Box::pin(shaper.acquire("it", 1))).collect();
        for call in &mut waiting {
            assert!(poll_often(call).is_pending());
        }
        // It would have to wait for 300 ms.
        let refused = wait(shaper.acquire("it", 1)).unwrap_err();
        let retry_after = Span::from_millis(50);
        assert_eq!(refused, NoSlot::Refused { retry_after, by: By::Store });
        assert_eq!(wait(shaper.peek("other", 1)), Ok(Span::ZERO));
        clock.advance(Span::from_millis(100));
        let Poll::Ready(Ok(slot)) = poll_often(&mut waiting[0]) else {
            panic!("its slot has come")
        };
        assert_eq!(slot.waited, Span::from_millis(100));
        assert!(poll_often(&mut waiting[1]).is_pending());
        // The last that was handed out comes back.
        drop(waiting);
        assert_eq!(wait(shaper.peek("it", 1)), Ok(Span::from_millis(100)));
        assert_eq!(wait(shaper.acquire("it", 11)), Err(NoSlot::Never));
    }
}

/// A caller that gives up while the store is asked does not lose the slot for everybody.
#[test]
fn a_slot_that_is_given_up_while_it_is_asked_for_comes_back() {
    let (store, clock) = (Arc::new(Slow::default()), manual());
    let builder = Shaper::builder(Quota::per_second(10)).clock(Arc::clone(&clock) as _);
    let shaper = builder.build_on("out", Arc::clone(&store) as _).unwrap();
    wait(shaper.acquire("it", 1)).unwrap();
    let asked = store.asked.load(Ordering::SeqCst);
    assert!(poll_once(shaper.acquire("it", 1)).is_pending());
    assert_eq!(store.asked.load(Ordering::SeqCst), asked + 1);
    assert_eq!(store.finished.load(Ordering::SeqCst), 1);
    assert_eq!(wait(shaper.peek("it", 1)), Ok(Span::from_millis(100)));
}

/// A store that answers at once needs no executor.
#[test]
fn a_store_that_answers_at_once_is_not_waited_for() {
    let (limiter, _clock) = on(
        Arc::new(MemoryStore::new()),
        Limiter::builder().each("it", (Kind::TokenBucket, Quota::per_minute(2))),
    );
    assert_eq!(at_once(limiter.decide("ada")).decision().remaining, 1);
    assert_eq!(at_once(limiter.key("ada").cost(2).enter()).unwrap_err().violated().count(), 1);
}
