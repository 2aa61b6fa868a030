//! The layer for axum: bodies stay axum's own, and whatever else there is stays as it is.

#![allow(clippy::unwrap_used, reason = "a test ends where it is wrong")]

mod support;
mod wire;

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::get;
use axum::{Router, ServiceExt};
use http::HeaderValue;
use http_body::Body as _;
use support::{Hello, call, from, gate, text};
use tidegate_tower::{Axum, Gate, TidegateLayer};
use tower::{Layer as _, Service};
use wire::Server;

const POLICY: &str = "
rules:
  - { name: per-client, key: ip, limit: 2/min }
  - { name: busy, match: { path: /slow }, key: ip, algorithm: concurrency, limit: 1 in flight }
  - { name: nobody, match: { path: /secret/** }, block: true }
";

fn app() -> Router {
    let app = Router::new().route("/", get(|| async { "hello" }));
    app.route("/slow", get(|| async { "one after the other" }))
}

fn ask(line: &str) -> Request {
    from("192.0.2.1", line).map(|()| Body::empty())
}

/// Status, headers and body.
fn whole(response: Response) -> (u16, Vec<(String, HeaderValue)>, String) {
    let headers = response.headers().iter();
    let headers = headers.map(|(name, value)| (name.to_string(), value.clone())).collect();
    (response.status().as_u16(), headers, text(response.into_body()))
}

#[test]
fn it_answers_as_the_layer_for_everything_does() {
    let ((wrapped, _), (own, _)) = (gate(POLICY), gate(POLICY));
    let mut wrapped = app().layer(TidegateLayer::new(wrapped));
    let mut own = app().layer(TidegateLayer::new(own).for_axum());
    for line in ["GET /", "GET /slow", "HEAD /", "GET /", "GET /secret/plan", "GET /none"] {
        let responses = (call(&mut own, ask(line)), call(&mut wrapped, ask(line)));
        assert_eq!(whole(responses.0), whole(responses.1), "{line}");
    }
}

/// Bodies say how long they are, also over HTTP/2, where no header has to.
#[test]
fn bodies_say_how_long_they_are() {
    let (gate, _) = gate("rules: [{ name: a, limit: 100B/h, cost: { from: content-length } }]");
    let mut app = around(gate);
    let mut status = |line: &str, body: Body| {
        let mut request = ask(line).map(|_| body);
        *request.version_mut() = http::Version::HTTP_2;
        call(&mut app, request).status().as_u16()
    };
    let bytes = |count: usize| Body::from("a".repeat(count));
    assert_eq!(status("POST /none", bytes(60)), 404);
    assert_eq!(status("POST /none", bytes(41)), 429);
    assert_eq!(status("POST /none", bytes(40)), 404, "all of it is used up now");
    for line in ["DELETE /none", "POST /none", "GET /none"] {
        assert_eq!(status(line, Body::empty()), 404, "{line}");
    }
    for line in ["DELETE /none", "POST /none", "GET /none"] {
        // Of a body that comes in pieces nobody knows.
        assert_eq!(status(line, Body::new(InPieces)), 429, "{line}");
    }
}

/// A body that does not know its length.
struct InPieces;

impl http_body::Body for InPieces {
    type Data = bytes::Bytes;
    type Error = support::Error;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, support::Error>>> {
        std::task::Poll::Ready(None)
    }
}

/// A router with the layer around all of it.
fn around(gate: Gate) -> impl Service<Request, Response = Response, Error = support::Error> {
    TidegateLayer::new(gate).for_axum().layer(app())
}

#[test]
fn a_permit_lasts_until_the_body_is_gone() {
    let (gate, _) = gate("rules: [{ name: busy, algorithm: concurrency, limit: 1 in flight }]");
    let mut service = around(gate);
    let first = call(&mut service, ask("/slow"));
    assert_eq!(first.status(), 200);
    assert_eq!(first.body().size_hint().exact(), Some(19), "its length is known all the same");
    assert_eq!(call(&mut service, ask("/slow")).status(), 429);
    assert_eq!(text(first.into_body()), "one after the other");
    let dropped = call(&mut service, ask("/slow"));
    assert_eq!(dropped.status(), 200);
    drop(dropped);
    assert_eq!(call(&mut service, ask("/slow")).status(), 200);
}

#[test]
fn what_was_said_of_refusals_and_the_gate_stays() {
    let (gate, _) = gate("rules: [{ name: none, block: true }]");
    let refuse = |_: &tidegate_tower::Refusal<'_>| {
        http::Response::builder().status(418).body("no tea".into()).unwrap()
    };
    let before: TidegateLayer<Axum> =
        TidegateLayer::new(gate.clone()).on_refusal(refuse).for_axum();
    let after: TidegateLayer<Axum> = TidegateLayer::new(gate).for_axum().on_refusal(refuse);
    for layer in [before, after] {
        assert_eq!(layer.gate().rules().rules()[0].name(), "none");
        let response = call(&mut layer.layer(app()), ask("/"));
        assert_eq!(
            (response.status().as_u16(), text(response.into_body())),
            (418, "no tea".into())
        );
    }
}

/// As behind another layer, whose bodies are not axum's.
#[test]
fn bodies_of_another_kind_become_axum_s() {
    let (gate, _) = gate(POLICY);
    let mut service = TidegateLayer::new(gate).for_axum().layer(Hello::default());
    let response: Response = call(&mut service, ask("/"));
    assert_eq!(text(response.into_body()), "hello");
    let refused: Response = call(&mut service, ask("/secret/plan"));
    assert_eq!(refused.status(), 403);
}

/// What is around a router is asked before it: paths that it does not know count as well.
#[test]
fn axum_serves_a_router_with_the_layer_around_it() {
    let gate = Gate::from_text("rules: [{ name: per-client, key: ip, limit: 2/h }]").unwrap();
    let app = TidegateLayer::new(gate).for_axum().layer(app());
    let app = ServiceExt::<Request>::into_make_service_with_connect_info::<SocketAddr>(app);
    let server = Server::new(async move |listener| axum::serve(listener, app).await);
    let statuses = ["GET /", "GET /unknown", "GET /"].map(|line| server.ask(line).status());
    assert_eq!(statuses, [200, 404, 429]);
}
