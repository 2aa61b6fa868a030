//! How a layer's services hang together, and which of them is called.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use crate::support::{Error, Hello, Text, at_once, call, gate, limited, request, status};
use http::{Request, Response};
use tidegate_core::Span;
use tidegate_tower::TidegateLayer;
use tower::{Layer, Service};

const TWO: &str = "rules: [{ name: per-client, key: ip, limit: 2/min }]";

#[test]
fn clones_count_together() {
    let (service, hello, _) = limited(TWO);
    let statuses: Vec<u16> = (0..4).map(|_| status(&mut service.clone(), request("/"))).collect();
    assert_eq!(statuses, [200, 200, 429, 429]);
    assert_eq!(hello.calls(), 2);
}

#[test]
fn services_of_one_layer_count_together() {
    let (gate, _) = gate(TWO);
    let layer = TidegateLayer::new(gate);
    let another = layer.clone().on_refusal(|refusal| refusal.response().map(|_| "no".into()));
    let mut services = [&layer, &layer, &another].map(|layer| layer.layer(Hello::default()));
    let statuses = [0, 1, 2].map(|at| status(&mut services[at], request("/")));
    assert_eq!(statuses, [200, 200, 429]);
}

#[test]
fn being_ready_costs_nothing() {
    let (mut service, _, _) = limited(TWO);
    for _ in 0..100 {
        let ready = at_once(std::future::poll_fn(|context| {
            Service::<Request<()>>::poll_ready(&mut service, context)
        }));
        assert_eq!(ready, Ok(()));
    }
    let response = call(&mut service, request("/"));
    assert_eq!(crate::support::header(&response, "x-ratelimit-remaining"), Some("1"));
}

/// A service that must be polled until it is ready before each call, and whose clones are not.
#[derive(Default)]
struct Strict {
    is_ready: bool,
    calls: Arc<AtomicUsize>,
}

impl Clone for Strict {
    fn clone(&self) -> Strict {
        Strict { is_ready: false, calls: Arc::clone(&self.calls) }
    }
}

impl Service<Request<()>> for Strict {
    type Response = Response<Text>;
    type Error = Error;
    type Future = Ready<Result<Response<Text>, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(self.is_ready, "called before it was ready");
        self.is_ready = false;
        self.calls.fetch_add(1, Ordering::Relaxed);
        ready(Ok(Response::new(Text::new("ready"))))
    }
}

#[test]
fn the_service_that_was_ready_is_the_one_that_is_called() {
    let (gate, clock) =
        gate("rules: [{ name: smooth, key: ip, algorithm: leaky-queue, limit: 1/s, burst: 9 }]");
    let strict = Strict::default();
    let calls = Arc::clone(&strict.calls);
    let mut service = TidegateLayer::new(gate).layer(strict);
    assert_eq!(status(&mut service, request("/")), 200);
    let Ok(()) = at_once(std::future::poll_fn(|context| service.poll_ready(context)));
    let mut waits = service.call(request("/"));
    assert!(crate::support::poll(&mut waits).is_pending());
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    clock.advance(Span::from_secs(1));
    assert_eq!(at_once(waits).unwrap().status(), 200);
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    drop(service.clone());
}

#[test]
fn an_error_of_the_service_is_passed_on() {
    let (gate, _) =
        gate("rules: [{ name: a, key: ip, algorithm: concurrency, limit: 1 in flight }]");
    let broken = tower::service_fn(|_: Request<()>| ready(Err::<Response<Text>, _>("broken")));
    let mut service = TidegateLayer::new(gate).layer(broken);
    for _ in 0..3 {
        assert_eq!(at_once(service.call(request("/"))).unwrap_err(), "broken");
    }
}
