//! Requests in flight: a permit lasts for as long as the response is being sent.

#![allow(clippy::unwrap_used, reason = "a test ends where it is wrong")]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{pending, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::support::{at_once, call, gate, header, limited, poll, request, status, text};
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use tidegate_core::Span;
use tidegate_tower::{Gate, Limits, TidegateLayer};
use tower::{Layer, Service, service_fn};

const ONE: &str = "rules: [{ name: busy, key: ip, algorithm: concurrency, limit: 1 in flight }]";

/// A body that comes in pieces, and fails at the end if it is to.
#[derive(Clone, Debug)]
struct Pieces(VecDeque<Result<&'static str, &'static str>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        let piece = self.0.pop_front();
        Poll::Ready(piece.map(|piece| piece.map(|text| Frame::data(text.into()))))
    }
}

type Served = Response<Pieces>;

fn in_pieces(
    gate: &Gate,
) -> impl Service<
    Request<()>,
    Response = Response<tidegate_tower::LimitedBody<Pieces>>,
    Error = Infallible,
> + use<> {
    let pieces = Pieces([Ok("one"), Ok("two")].into());
    let serve =
        move |_: Request<()>| ready(Ok::<Served, Infallible>(Response::new(pieces.clone())));
    TidegateLayer::new(gate.clone()).layer(service_fn(serve))
}

fn next<R: Body + Unpin>(body: &mut R) -> Option<Result<Frame<R::Data>, R::Error>> {
    at_once(std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)))
}

#[test]
fn a_permit_lasts_until_the_body_ends() {
    let (gate, _) = gate(ONE);
    let mut service = in_pieces(&gate);
    let response = call(&mut service, request("/"));
    assert_eq!(header(&response, "x-ratelimit-remaining"), Some("0"));
    let mut body = response.into_body();
    for _ in 0..2 {
        assert_eq!(status(&mut service, request("/")), 429);
        assert!(next(&mut body).is_some());
    }
    assert_eq!(status(&mut service, request("/")), 429);
    assert!(next(&mut body).is_none());
    assert_eq!(status(&mut service, request("/")), 200, "though the body is not dropped yet");
    assert!(next(&mut body).is_none());
}

#[test]
fn a_permit_comes_back_when_the_body_is_dropped() {
    let (gate, _) = gate(ONE);
    let mut service = in_pieces(&gate);
    let mut body = call(&mut service, request("/")).into_body();
    assert!(next(&mut body).is_some());
    assert_eq!(status(&mut service, request("/")), 429);
    drop(body);
    assert_eq!(status(&mut service, request("/")), 200);
}

#[test]
fn a_permit_comes_back_when_the_client_goes_away() {
    let (gate, _) = gate(ONE);
    let mut stuck = TidegateLayer::new(gate.clone())
        .layer(service_fn(|_: Request<()>| pending::<Result<Served, Infallible>>()));
    let mut waits = stuck.call(request("/"));
    assert!(poll(&mut waits).is_pending());
    assert_eq!(status(&mut in_pieces(&gate), request("/")), 429);
    drop(waits);
    assert_eq!(status(&mut in_pieces(&gate), request("/")), 200);
}

#[test]
fn a_permit_comes_back_although_somebody_still_has_the_limits() {
    let (gate, _) = gate(ONE);
    let (kept, keeper) = std::sync::mpsc::channel::<Limits>();
    let mut service = TidegateLayer::new(gate.clone()).layer(service_fn(move |it: Request<()>| {
        kept.send(it.extensions().get::<Limits>().unwrap().clone()).unwrap();
        ready(Ok::<Served, Infallible>(Response::new(Pieces([Ok("one")].into()))))
    }));
    let body = call(&mut service, request("/")).into_body();
    assert_eq!(status(&mut in_pieces(&gate), request("/")), 429);
    assert_eq!(text(body), "one");
    assert_eq!(status(&mut in_pieces(&gate), request("/")), 200);
    assert_eq!(keeper.recv().unwrap().each()[0].name, "busy");
}

#[test]
fn a_permit_lasts_while_an_error_is_told() {
    let (gate, _) = gate(ONE);
    let pieces = Pieces([Ok("one"), Err("broken")].into());
    let mut service = TidegateLayer::new(gate.clone()).layer(service_fn(move |_: Request<()>| {
        ready(Ok::<Served, Infallible>(Response::new(pieces.clone())))
    }));
    let mut body = call(&mut service, request("/")).into_body();
    assert!(next(&mut body).unwrap().is_ok());
    assert_eq!(next(&mut body).unwrap().unwrap_err(), "broken");
    drop(body);
    assert_eq!(status(&mut in_pieces(&gate), request("/")), 200);
}

#[test]
fn a_refusal_takes_no_permit() {
    let (mut service, _, _) = limited(ONE);
    let held = call(&mut service, request("/"));
    let refused: Vec<_> = (0..3).map(|_| call(&mut service, request("/"))).collect();
    assert!(refused.iter().all(|response| response.status() == 429));
    drop(held);
    assert_eq!(status(&mut service, request("/")), 200, "though refusals are still being sent");
}

#[test]
fn permits_of_one_client_and_of_all_come_back_together() {
    let (gate, _) = gate(
        "rules:
          - { name: each, key: header:x-api-key, algorithm: concurrency, limit: 1 in flight }
          - { name: all, algorithm: concurrency, limit: 2 in flight }",
    );
    let by = |key: &str| {
        let mut request = request("/");
        request.headers_mut().insert("x-api-key", key.parse().unwrap());
        request
    };
    let mut service = in_pieces(&gate);
    let (ada, bob) = (call(&mut service, by("ada")), call(&mut service, by("bob")));
    assert_eq!(status(&mut service, by("cleo")), 429, "two are in flight");
    drop(ada);
    assert_eq!(status(&mut service, by("bob")), 429, "one of bob's is");
    let cleo = call(&mut service, by("cleo"));
    assert_eq!(cleo.status(), 200);
    assert_eq!(status(&mut service, by("ada")), 429);
    drop((bob, cleo));
    let again = [call(&mut service, by("ada")), call(&mut service, by("bob"))];
    assert!(again.iter().all(|response| response.status() == 200));
}

/// A handler that takes long is not lost, nor is a client that reads slowly, while nobody asks for
/// more of the body.
#[test]
fn a_permit_is_renewed_for_as_long_as_its_request_is_in_flight() {
    let (gate, clock) = gate(ONE);
    let mut service = in_pieces(&gate);
    let body = call(&mut service, request("/")).into_body();
    let hour = |service: &mut _| {
        for _ in 0..80 {
            clock.advance(Span::from_secs(45));
            assert_eq!(status(service, request("/")), 429);
        }
    };
    hour(&mut service);
    drop(body);
    assert_eq!(clock.waiting(), 0, "nothing is left behind");
    assert_eq!(status(&mut service, request("/")), 200);

    let serve = |_: Request<()>| pending::<Result<Served, Infallible>>();
    let mut stuck = TidegateLayer::new(gate).layer(service_fn(serve));
    let future = stuck.call(request("/"));
    hour(&mut service);
    drop(future);
    assert_eq!((clock.waiting(), status(&mut service, request("/"))), (0, 200));
}

#[test]
fn without_permits_nothing_waits_to_be_renewed() {
    let (gate, clock) = gate("rules: [{ name: all, limit: 100/s }]");
    let _body = call(&mut in_pieces(&gate), request("/")).into_body();
    assert_eq!(clock.waiting(), 0);
}
