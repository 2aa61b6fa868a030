//! Handlers, bodies and services that panic.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use http::{Request, Response};
use tidegate_tower::{Refusal, TidegateLayer};
use tower::{Layer as _, Service};

use crate::stage::{PLACES, Program, rest, status};
use crate::support::{self, Text, poll, request};

#[test]
fn a_handler_that_panics_keeps_no_place() {
    let program = Program::new();
    for _ in 0..3 * PLACES {
        assert_eq!(rest(program.begin("GET /panic")), "");
    }
    program.is_over();
}

#[test]
fn a_body_that_panics_keeps_no_place() {
    let program = Program::new();
    for number in 1..=3 * PLACES {
        drop(rest(program.begin("GET /torn")));
        assert_eq!(program.inside.begun(), number);
    }
    program.is_over();
}

/// Those who wait are next, and not lost with the one that panics.
#[test]
fn who_waits_behind_one_that_panics_is_served() {
    let program = Program::new();
    let held: Vec<_> = (0..PLACES).map(|_| program.begin("GET /turn")).collect();
    program.wait_for(PLACES, 0);
    let panics = program.begin("GET /panic");
    program.wait_for(PLACES, 1);
    let mut waits = program.begin("GET /");
    program.wait_for(PLACES, 2);
    program.inside.key.add_permits(1);
    assert_eq!((rest(panics), status(&mut waits)), (String::new(), 200));
    drop((held, waits));
    program.is_over();
}

/// A service that panics before there is a future of it.
#[derive(Clone)]
struct Panics;

impl Service<Request<()>> for Panics {
    type Response = Response<Text>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Text>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        assert!(request.uri() != "/panic", "in a call, as it should");
        ready(Ok(Response::new(Text::new("done"))))
    }
}

const ONE: &str = "
rules:
  - { name: busy, algorithm: concurrency, limit: 2 in flight }
  - { name: smooth, algorithm: leaky-queue, limit: 1/s, burst: 9, match: { method: PUT } }
share: [{ name: one, capacity: 1 in flight, by: ip, wait: 1h }]";

#[test]
fn a_service_that_panics_when_it_is_called_keeps_nothing() {
    let (gate, clock) = support::gate(ONE);
    let mut service = TidegateLayer::new(gate.clone()).layer(Panics);
    let is_free = || {
        let share = gate.stats().shares.remove(0);
        let looked = gate.peek(&tidegate_gate::Sample::new("GET /")).ready().unwrap();
        assert_eq!((share.in_flight, share.waiting, looked.decision().remaining), (0, 0, 2));
    };
    assert!(catch_unwind(AssertUnwindSafe(|| service.call(request("/panic")))).is_err());
    is_free();
    // And one that has waited for its turn.
    let held = support::call(&mut service, request("/"));
    let mut waits = Box::pin(service.call(request("/panic")));
    assert!(poll(&mut waits).is_pending());
    drop(held);
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut waits))).is_err());
    drop(waits);
    is_free();
    // And one that has waited for its slot.
    drop(support::call(&mut service, request("PUT /")));
    let mut waits = Box::pin(service.call(request("PUT /panic")));
    assert!(poll(&mut waits).is_pending());
    clock.advance(tidegate_core::Span::from_secs(1));
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut waits))).is_err());
    drop(waits);
    is_free();
}

#[test]
fn whoever_writes_refusals_may_panic() {
    let program = Program::layered(|gate, router| {
        let refuse = |_: &Refusal<'_>| panic!("in a refusal, as it should");
        router.layer(TidegateLayer::new(gate.clone()).on_refusal(refuse))
    });
    let held: Vec<_> = (0..2 * PLACES).map(|_| program.begin("GET /hang")).collect();
    program.wait_for(PLACES, PLACES);
    for _ in 0..PLACES {
        assert_eq!(rest(program.begin("GET /")), "");
    }
    drop(held);
    program.is_quiet();
}
