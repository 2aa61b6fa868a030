//! The layer by Redis: what was wished for is done and reported, no matter which side goes away.

#![allow(clippy::unwrap_used, reason = "a test ends where it is wrong")]

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body as _;
use tidegate_core::Span;
use tidegate_gate::Sample;
use tidegate_redis::{Fleet, RedisStore, Settings};
use tidegate_store::{Clock, ManualClock};
use tidegate_testbed::Server;
use tidegate_tower::{Deadline, Gate, LimitedBody, Limits, TidegateLayer};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::{START, Text, request, told};

/// Longer than any server of a test needs for anything.
const LONG: Duration = Duration::from_secs(20);

const THREE: &str = "
rules:
  - { name: a, key: ip, limit: 100/day, algorithm: fixed-window }
  - { name: b, key: ip, limit: 1000/day, algorithm: fixed-window }
  - { name: c, limit: 10000/day, algorithm: fixed-window }
";

/// A gate on a server of its own, whose time stands still until a test moves it.
async fn still(policy: &str) -> (Server, Gate, Arc<ManualClock>) {
    let server = Server::start().unwrap();
    let clock = Arc::new(ManualClock::new());
    clock.advance(Span::from_secs(START));
    let gate = gate_by(&server, policy, &clock, &clock).await;
    (server, gate, clock)
}

/// A gate by a clock, on a server that gets its time from another.
async fn gate_by(
    server: &Server,
    policy: &str,
    here: &Arc<ManualClock>,
    there: &Arc<ManualClock>,
) -> Gate {
    let judge = Arc::clone(there) as Arc<dyn Clock>;
    let builder = RedisStore::builder(Settings::from_url(&server.url()).unwrap());
    let store = builder.deadline(LONG).judged_by(judge).connect().await.unwrap();
    let builder = Gate::builder().text(policy).store(Fleet::new(store));
    builder.clock(Arc::clone(here) as Arc<dyn Clock>).open().unwrap()
}

/// A service whose handler is given the limits, and ends as `handler` does.
fn handled<H, F>(
    gate: &Gate,
    handler: H,
) -> impl Service<Request<()>, Response = Response<LimitedBody<Text>>, Error = Infallible>
where
    H: Fn(Limits) -> F + Clone,
    F: Future<Output = ()>,
{
    TidegateLayer::new(gate.clone()).layer(service_fn(move |request: Request<()>| {
        let done = handler(request.extensions().get::<Limits>().unwrap().clone());
        async move {
            done.await;
            Ok(Response::new(Text::new("done")))
        }
    }))
}

/// What is left under each limit.
async fn left(gate: &Gate) -> Vec<u32> {
    let asked = Sample::new("GET /").from_peer("192.0.2.1".parse().unwrap());
    gate.peek(&asked).await.each().map(|answer| answer.decision.remaining).collect()
}

/// Waits until each of three limits has been charged eleven cells; by other tasks, not by time.
#[track_caller]
fn all_are_charged(gate: &Gate) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let mut last = Vec::new();
        for _ in 0..2_000 {
            last = left(gate).await;
            if last == [89, 989, 9_989] {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("in vain at {caller}: {last:?}");
    }
}

/// Polls once, for the task that waits here.
async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

#[tokio::test]
async fn what_a_body_says_is_charged_to_every_limit_when_it_ends_or_is_dropped() {
    for is_read in [true, false] {
        let (_server, gate, _) = still(THREE).await;
        let (hand_over, taken) = mpsc::channel();
        let service = handled(&gate, |limits| {
            hand_over.send(limits).unwrap();
            async {}
        });
        let mut body = Box::pin(service.oneshot(request("/")).await.unwrap().into_body());
        assert_eq!(left(&gate).await, [99, 999, 9_999]);
        taken.recv().unwrap().charge_more(10);
        while is_read && poll_fn(|it| body.as_mut().poll_frame(it)).await.is_some() {}
        drop(body);
        all_are_charged(&gate).await;
    }
}

#[tokio::test]
async fn a_client_that_goes_while_it_is_served_pays_for_what_was_done() {
    let (_server, gate, _) = still(THREE).await;
    let (tell, told) = mpsc::channel();
    let service = handled(&gate, |limits| {
        limits.charge_more(10);
        tell.send(()).unwrap();
        pending()
    });
    let mut response = Box::pin(service.oneshot(request("/")));
    while told.try_recv().is_err() {
        assert!(poll_once(response.as_mut()).await.is_pending());
        tokio::task::yield_now().await;
    }
    drop(response);
    all_are_charged(&gate).await;
}

#[tokio::test]
async fn a_client_that_goes_while_it_is_settled_pays_as_well() {
    let (_server, gate, _) = still(THREE).await;
    let (tell, told) = mpsc::channel();
    let service = handled(&gate, |limits| {
        limits.charge_more(10);
        tell.send(()).unwrap();
        async {}
    });
    let mut response = Box::pin(service.oneshot(request("/")));
    while told.try_recv().is_err() {
        assert!(poll_once(response.as_mut()).await.is_pending());
        tokio::task::yield_now().await;
    }
    drop(response);
    all_are_charged(&gate).await;
}

/// What a client hears by Redis, which is what it hears in this process.
async fn told_by_both<H, F>(policy: &str, requests: Vec<Request<()>>, handler: H) -> Vec<String>
where
    H: Fn(Limits, Arc<ManualClock>) -> F + Clone,
    F: Future<Output = ()>,
{
    let (_server, far, far_clock) = still(policy).await;
    let (near, near_clock) = crate::support::gate(policy);
    let mut each = Vec::new();
    for (gate, clock) in [(far, far_clock), (near, near_clock)] {
        let handler = handler.clone();
        let mut service = handled(&gate, move |limits| handler(limits, Arc::clone(&clock)));
        let mut all = Vec::new();
        for request in &requests {
            let ready = service.ready().await.unwrap();
            all.push(told(&ready.call(request.clone()).await.unwrap()));
        }
        each.push(all);
    }
    let [far, near] = <[Vec<String>; 2]>::try_from(each).unwrap();
    assert_eq!(far, near);
    far
}

/// What is left by each response.
fn remaining(told: &[String]) -> Vec<&str> {
    let line = |told: &'_ str| told.find("x-ratelimit-remaining: ").map(|at| at + 23);
    told.iter().map(|it| it[line(it).unwrap()..].lines().next().unwrap()).collect()
}

#[tokio::test]
async fn a_client_is_told_what_is_left_once_it_is_settled() {
    let policy = "rules: [{ name: a, key: ip, limit: 100/day, algorithm: fixed-window }]";
    let turn = Arc::new(AtomicUsize::new(0));
    let told = told_by_both(policy, vec![request("/"); 3], |limits, _| {
        match turn.fetch_add(1, Ordering::Relaxed) % 3 {
            0 => limits.charge_more(40),
            1 => limits.refund(),
            _ => {}
        }
        async {}
    });
    assert_eq!(remaining(&told.await), ["59", "59", "58"]);
    let policy = "rules: [{ name: logins, key: ip, limit: 5/min, counts_when: { status: 401 } }]";
    let told = told_by_both(policy, vec![request("/")], |_, _| async {}).await;
    assert_eq!(remaining(&told), ["5"]);
}

#[tokio::test]
async fn a_reset_counts_from_when_it_was_settled() {
    let policy = "rules: [{ name: a, key: ip, limit: 60/min }]";
    let told = told_by_both(policy, vec![request("/")], |limits, clock| {
        clock.advance(Span::from_secs(30));
        limits.set_cost(20);
        async {}
    });
    let reset = format!("x-ratelimit-reset: {}\n", START + 30 + 19);
    assert!(told.await[0].contains(&reset));
}

#[tokio::test]
async fn whoever_cannot_wait_is_told_what_is_left_without_them() {
    let policy = "rules: [{ name: q, key: ip, algorithm: leaky-queue, limit: 1/min, burst: 5 }]";
    let mut hurried = request("/");
    hurried.extensions_mut().insert(Deadline(Duration::from_secs(1)));
    let told = told_by_both(policy, vec![request("/"), hurried], |_, _| async {}).await;
    assert_eq!(remaining(&told), ["4", "4"]);
    assert!(told[1].contains("retry-after: 59\n"), "{}", told[1]);
}

/// Asks again and again until it is so.
async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..2_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it does not come to that");
}

/// A permit in Redis is renewed as one in this process is; a task of its own writes to Redis.
#[tokio::test]
async fn a_permit_in_redis_is_renewed_for_as_long_as_its_request_is_in_flight() {
    for ahead in [0, 1_000_000] {
        permits_are_renewed(Span::from_secs(ahead)).await;
    }
}

/// Whatever the node's own clock says: it may be ahead of the server's by more than a lease.
async fn permits_are_renewed(ahead: Span) {
    let policy = "rules: [{ name: busy, algorithm: concurrency, limit: 1 in flight }]";
    let server = Server::start().unwrap();
    let (there, clock) = (Arc::new(ManualClock::new()), Arc::new(ManualClock::new()));
    there.advance(Span::from_secs(START));
    clock.advance(Span::from_secs(START));
    clock.advance(ahead);
    let gate = gate_by(&server, policy, &clock, &there).await;
    let mut service = handled(&gate, |_| pending());
    let mut future = Box::pin(service.call(request("/")));
    let look = async || gate.peek(&Sample::new("GET /")).await;
    let is_taken = async || !look().await.verdict().passes();
    until(async || {
        poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await;
        clock.waiting() == 1
    })
    .await;
    for _ in 0..8 {
        there.advance(Span::from_secs(31));
        clock.advance(Span::from_secs(31));
        // Until it is renewed: the next step would be too late.
        until(async || Span::from_secs(45) < look().await.decision().reset_after).await;
        assert!(is_taken().await);
    }
    drop(future);
    until(async || !is_taken().await).await;
}

/// One that waits for a turn here has its permit there from the moment it was decided.
#[tokio::test]
async fn a_permit_in_redis_does_not_lapse_while_its_request_waits_for_a_turn() {
    let policy = "
rules: [{ name: busy, algorithm: concurrency, limit: 1 in flight, match: { path: /work } }]
share: [{ name: one, capacity: 1 in flight, by: ip, wait: 1h }]";
    let (_server, gate, clock) = still(policy).await;
    let mut service = handled(&gate, |_| pending());
    let mut held = Box::pin(service.call(request("/")));
    let mut waits = Box::pin(service.call(request("/work")));
    let look = async || gate.peek(&Sample::new("GET /work")).await;
    for (future, in_flight, waiting) in [(&mut held, 1, 0), (&mut waits, 1, 1)] {
        until(async || {
            poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await;
            let share = gate.stats().shares.remove(0);
            (share.in_flight, share.waiting) == (in_flight, waiting)
        })
        .await;
    }
    for _ in 0..8 {
        clock.advance(Span::from_secs(31));
        until(async || Span::from_secs(45) < look().await.decision().reset_after).await;
        assert!(!look().await.verdict().passes());
    }
    drop(waits);
    until(async || look().await.verdict().passes()).await;
}
