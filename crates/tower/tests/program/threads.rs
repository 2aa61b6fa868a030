//! Clones of one service, called by many threads; services that are ready and never called;
//! responses that are dropped before anybody has seen them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use http::Response;
use tidegate_gate::{Gate, Sample};
use tidegate_tower::TidegateLayer;
use tower::{Layer as _, Service};

use crate::stage::{PERMITS, PLACES, Program, rest};
use crate::support::{self, Hello, Text, call, poll, request};

fn left(gate: &Gate) -> Vec<u32> {
    let looked = gate.peek(&Sample::new("GET /")).ready().unwrap();
    looked.each().map(|answer| answer.decision.remaining).collect()
}

#[test]
fn clones_on_many_threads_lose_nothing_and_give_nothing_twice() {
    let (gate, _) = support::gate(crate::stage::POLICY);
    let hello = Hello::default();
    let service = TidegateLayer::new(gate.clone()).layer(hello.clone());
    let now = Arc::new(AtomicU32::new(0));
    let caller = |number: u32| {
        let (mut service, now) = (service.clone(), Arc::clone(&now));
        move || {
            for round in 0..2_000 {
                let mut future = Box::pin(service.call(request("/")));
                match (poll(&mut future), (round + number) % 3) {
                    (Poll::Ready(Ok(response)), drops) if response.status() == 200 => {
                        assert!(now.fetch_add(1, Ordering::SeqCst) < PLACES, "one too many");
                        now.fetch_sub(1, Ordering::SeqCst);
                        if drops == 0 {
                            drop(future);
                            drop(response);
                        } else {
                            assert_eq!(support::text(response.into_body()), "hello");
                        }
                    }
                    // One that waits hangs up, at once or a little later.
                    (Poll::Pending, 0) => drop(future),
                    (Poll::Pending, _) => drop((thread::yield_now(), poll(&mut future))),
                    _ => {}
                }
            }
        }
    };
    let threads: Vec<_> = (0..PERMITS).map(|number| thread::spawn(caller(number))).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let share = gate.stats().shares.remove(0);
    let charged = u32::try_from(hello.calls()).unwrap();
    let all = (share.in_flight, share.waiting, left(&gate));
    assert_eq!(all, (0, 0, vec![PERMITS, 100_000 - charged]));
}

/// A service with slots, one of which is kept for a caller that `poll_ready` has let in.
struct Slotted {
    taken: Arc<AtomicU32>,
    has_slot: bool,
}

impl Clone for Slotted {
    fn clone(&self) -> Slotted {
        Slotted { taken: Arc::clone(&self.taken), has_slot: false }
    }
}

impl Drop for Slotted {
    fn drop(&mut self) {
        self.taken.fetch_sub(u32::from(self.has_slot), Ordering::SeqCst);
    }
}

impl Service<http::Request<()>> for Slotted {
    type Response = Response<Text>;
    type Error = support::Error;
    type Future = std::future::Ready<Result<Response<Text>, support::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), support::Error>> {
        self.taken.fetch_add(u32::from(!self.has_slot), Ordering::SeqCst);
        self.has_slot = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<()>) -> Self::Future {
        assert!(self.has_slot, "called without being ready");
        self.has_slot = false;
        self.taken.fetch_sub(1, Ordering::SeqCst);
        std::future::ready(Ok(Response::new(Text::new("done"))))
    }
}

#[test]
fn who_is_refused_keeps_no_slot_of_the_service_behind() {
    for policy in [
        "rules: [{ name: a, limit: 1/day }]",
        "rules: [{ name: a, block: true, match: { path: /blocked } }, { name: b, limit: 1/day }]",
        "rules: [{ name: a, algorithm: leaky-queue, limit: 1/s, burst: 2 }]",
    ] {
        let (gate, _) = support::gate(policy);
        let taken = Arc::new(AtomicU32::new(0));
        let slotted = Slotted { taken: Arc::clone(&taken), has_slot: false };
        let mut service = TidegateLayer::new(gate).layer(slotted);
        let hasty = || {
            let mut request = request("/blocked");
            request.extensions_mut().insert(tidegate_tower::Deadline(std::time::Duration::ZERO));
            request
        };
        let mut refused = 0;
        for _ in 0..3 {
            refused += u32::from(call(&mut service, hasty()).status() != 200);
            assert_eq!(taken.load(Ordering::SeqCst), 0, "{policy}");
        }
        assert!(0 < refused, "{policy}");
    }
}

#[test]
fn a_service_that_is_ready_and_not_called_charges_nothing() {
    let (mut service, hello, _) = support::limited(crate::stage::POLICY);
    let before = left(service.gate());
    for _ in 0..100 {
        let mut clone = service.clone();
        for service in [&mut service, &mut clone] {
            let mut context = Context::from_waker(Waker::noop());
            let ready = Service::<http::Request<()>>::poll_ready(service, &mut context);
            assert!(ready.is_ready());
        }
        drop(service.call(request("/")));
    }
    assert_eq!(left(service.gate())[0], before[0]);
    assert_eq!(before[1] - left(service.gate())[1], u32::try_from(hello.calls()).unwrap());
}

/// Something around the layer answers in its own words, here or on a thread of its own.
#[test]
fn a_response_that_is_dropped_before_it_is_sent_keeps_no_place() {
    let program = Program::layered(|gate, router| {
        let replace = async |request: Request, next: Next| {
            let response = next.run(request).await;
            thread::spawn(move || drop(response)).join().unwrap();
            "something else"
        };
        router.layer(TidegateLayer::new(gate.clone())).layer(from_fn(replace))
    });
    for path in ["/", "/endless", "/stalls", "/torn"] {
        let reply = rest(
            program.send(&format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")),
        );
        assert!(reply.ends_with("something else"), "{reply}");
    }
    program.all_is_back();
}
