//! Layers around layers, and routes within routes.

use std::time::Duration;

use axum::Router;
use tidegate_gate::{Gate, Sample};
use tidegate_tower::{Deadline, TidegateLayer};
use tower::{Layer as _, Service};

use crate::stage::{PERMITS, PLACES, POLICY, Program, rest, until};
use crate::support::{self, Hello, call, header, poll, request};

fn left(gate: &Gate) -> Vec<u32> {
    let looked = gate.peek(&Sample::new("GET /")).ready().unwrap();
    looked.each().map(|answer| answer.decision.remaining).collect()
}

/// What one layer refuses says nothing about the service: a share around it learns nothing from
/// that, or clients that provoke refusals would take its capacity away. And the client learns why.
#[test]
fn what_a_layer_refuses_is_no_failure_to_those_around_it() {
    let around = "
rules:
  - { name: busy, algorithm: concurrency, limit: 3 in flight }
  - { name: outer, limit: 100/day, algorithm: fixed-window }
share: [{ name: backend, capacity: 100 in flight, adaptive: 5%, by: ip }]";
    for (within, code, told) in [
        ("rules: [{ name: inner, limit: 1/day }]", 429, Some("inner")),
        ("rules: [{ name: inner, block: true }]", 403, None),
        ("share: [{ name: inner, capacity: 1 in flight, by: ip, wait: 1h }]", 503, None),
    ] {
        let ((outer, clock), (inner, _)) = (support::gate(around), support::gate(within));
        let inside = TidegateLayer::new(inner).layer(Hello::default());
        let mut service = TidegateLayer::new(outer.clone()).layer(inside.clone());
        let hasty = || {
            let mut request = request("/");
            request.extensions_mut().insert(Deadline(Duration::ZERO));
            request
        };
        // It takes what there is, where there is something.
        let _held = call(&mut inside.clone(), hasty());
        let before = outer.stats().shares[0].limit;
        for _ in 0..64 {
            let refused = call(&mut service, hasty());
            assert_eq!(refused.status(), code);
            let tells = header(&refused, "ratelimit").map(|it| it.contains("inner"));
            assert_eq!(tells, told.map(|_| true), "{code}: only of what refused");
            clock.advance(tidegate_core::Span::from_millis(10));
        }
        // Each layer charges what it lets in.
        assert_eq!(left(&outer), [3, 100 - 64], "{code}");
        assert!(before <= outer.stats().shares[0].limit, "{code}: it has learned from refusals");
    }
}

/// One gate in two layers charges twice, and both charges come back.
#[test]
fn one_gate_twice_gives_everything_back() {
    let (gate, _) = support::gate(POLICY);
    let layer = TidegateLayer::new(gate.clone());
    let mut service = layer.layer(layer.layer(Hello::default()));
    let response = call(&mut service, request("/"));
    assert_eq!(response.status(), 200);
    assert_eq!((left(&gate)[0], gate.stats().shares[0].in_flight), (PERMITS - 2, 2));
    let mut waiting: Vec<_> = (0..4).map(|_| Box::pin(service.call(request("/")))).collect();
    for it in &mut waiting {
        let _ = poll(it);
    }
    drop((response, waiting));
    let share = gate.stats().shares.remove(0);
    assert_eq!((left(&gate)[0], share.in_flight, share.waiting), (PERMITS, 0, 0));
}

/// A layer around everything, and one around some routes: each request is judged once by each.
#[test]
fn nested_routes_are_judged_once_by_each_layer() {
    let (inner, _) = support::gate(
        "rules:
          - { name: busy, algorithm: concurrency, limit: 2 in flight, match: { path: /api/** } }
          - { name: quota, limit: 1000/day, algorithm: fixed-window, match: { path: /api/** } }",
    );
    let gate = inner.clone();
    let program = Program::layered(|outer, router| {
        let api = router.clone().layer(TidegateLayer::new(gate));
        let all = Router::new().nest("/api", api).fallback_service(router);
        all.layer(TidegateLayer::new(outer.clone()))
    });
    let api = || {
        let looked = inner.peek(&Sample::new("GET /api/x")).ready().unwrap();
        looked.each().map(|answer| answer.decision.remaining).collect::<Vec<u32>>()
    };
    let held: Vec<_> = (0..2).map(|_| program.begin("GET /api/hang")).collect();
    program.wait_for(2, 0);
    assert_eq!(api(), [0, 998]);
    assert_eq!(program.server.ask("GET /api/none").status(), 429);
    // The layer around has let that in, and charges it.
    drop(program.inside.enter());
    assert_eq!(program.server.ask("GET /none").status(), 200);
    drop(held);
    program.is_quiet();
    for path in ["/api/panic", "/api/torn", "/api/error"] {
        (0..PLACES).for_each(|_| drop(rest(program.begin(&format!("GET {path}")))));
    }
    until(api, vec![2, 998 - 3 * PLACES]);
    program.is_over();
}
