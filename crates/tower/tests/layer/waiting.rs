//! Requests that are held back: they leave as they came, and nobody waits for longer than they can.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::support::{Hello, at_once, call, header, limited, poll, request, status, with};
use http::Request;
use tidegate_core::Span;
use tidegate_tower::{Deadline, ResponseFuture, TidegateService};
use tower::Service;

/// One a second, and three more may wait.
const SMOOTH: &str =
    "rules: [{ name: smooth, key: ip, algorithm: leaky-queue, limit: 1/s, burst: 4 }]";

fn begin(service: &mut TidegateService<Hello>, request: Request<()>) -> ResponseFuture<Hello, ()> {
    let mut future = service.call(request);
    assert!(poll(&mut future).is_pending());
    future
}

#[test]
fn a_queue_lets_pass_one_after_the_other() {
    let (mut service, hello, clock) = limited(SMOOTH);
    assert_eq!(status(&mut service, request("/")), 200);
    let mut waiting: Vec<_> = (0..3).map(|_| begin(&mut service, request("/"))).collect();
    let refused = call(&mut service, request("/"));
    assert_eq!((refused.status().as_u16(), header(&refused, "retry-after")), (429, Some("1")));
    for left in [3, 2, 1] {
        assert_eq!((waiting.len(), hello.calls()), (left, 4 - left));
        clock.advance(Span::from_micros(999_999));
        assert!(waiting.iter_mut().all(|future| poll(future).is_pending()));
        clock.advance(Span::from_micros(1));
        let response = at_once(waiting.remove(0)).unwrap();
        assert_eq!(response.status(), 200);
        assert!(header(&response, "ratelimit").is_some());
    }
    assert_eq!(hello.calls(), 4);
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn whoever_waits_is_woken_and_not_asked() {
    let (mut service, _, clock) = limited(SMOOTH);
    assert_eq!(status(&mut service, request("/")), 200);
    let mut waits = service.call(request("/"));
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let poll = |waits: &mut ResponseFuture<Hello, ()>| {
        std::pin::Pin::new(waits).poll(&mut Context::from_waker(&waker))
    };
    assert!(poll(&mut waits).is_pending());
    clock.advance(Span::from_micros(999_999));
    assert_eq!(count.0.load(Ordering::Relaxed), 0);
    clock.advance(Span::from_micros(1));
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert!(matches!(poll(&mut waits), Poll::Ready(Ok(_))));
}

#[test]
fn whoever_goes_away_leaves_the_queue() {
    let (mut service, hello, clock) = limited(SMOOTH);
    assert_eq!(status(&mut service, request("/")), 200);
    let waiting: Vec<_> = (0..3).map(|_| begin(&mut service, request("/"))).collect();
    assert_eq!(status(&mut service, request("/")), 429, "the queue is full");
    assert_eq!(clock.waiting(), 3);
    // From the back: a place in the middle of a queue stays empty.
    waiting.into_iter().rev().for_each(drop);
    assert_eq!(clock.waiting(), 0, "no alarm is left");
    let next = begin(&mut service, request("/"));
    clock.advance(Span::from_secs(1));
    assert_eq!(at_once(next).unwrap().status(), 200, "the places are free again");
    assert_eq!(hello.calls(), 2, "those who left were not served");
}

#[test]
fn whoever_leaves_before_the_first_poll_leaves_too() {
    let (mut service, _, clock) = limited(SMOOTH);
    assert_eq!(status(&mut service, request("/")), 200);
    for _ in 0..10 {
        drop(service.call(request("/")));
    }
    let next = begin(&mut service, request("/"));
    clock.advance(Span::from_secs(1));
    assert_eq!(at_once(next).unwrap().status(), 200);
}

/// Otherwise a client with five requests a day could fill a queue that all share.
#[test]
fn whoever_leaves_a_slot_that_cannot_come_back_stays_charged_for_it() {
    let policy = "
rules:
  - { name: smooth, algorithm: leaky-queue, limit: 1/s, burst: 160 }
  - { name: daily, key: 'header:client', algorithm: fixed-window, limit: 5/day }";
    let (mut service, hello, clock) = limited(policy);
    let by = |who: &[u8]| with(request("/"), "client", who);
    assert_eq!(status(&mut service, by(b"somebody else")), 200);
    let sent: Vec<_> = (0..5).map(|_| begin(&mut service, by(b"mallory"))).collect();
    let honest = begin(&mut service, by(b"ada"));
    sent.into_iter().for_each(drop);
    for _ in 0..155 {
        assert_eq!(status(&mut service, by(b"mallory")), 429, "its day is used up");
    }
    clock.advance(Span::from_secs(6));
    assert_eq!(at_once(honest).unwrap().status(), 200);
    assert_eq!(hello.calls(), 2, "those who left were not served");
}

#[test]
fn whoever_cannot_wait_is_refused_at_once_and_charged_nothing() {
    let policy = "
rules:
  - { name: smooth, key: ip, algorithm: leaky-queue, limit: 1/s, burst: 4 }
  - { name: daily, key: ip, algorithm: fixed-window, limit: 10/day }
";
    let (mut service, hello, _) = limited(policy);
    assert_eq!(status(&mut service, request("/")), 200);
    let hurried = |wait: Duration| {
        let mut request = request("/");
        request.extensions_mut().insert(Deadline(wait));
        request
    };
    for _ in 0..5 {
        let response = call(&mut service, hurried(Duration::from_millis(999)));
        assert_eq!(response.status(), 429);
        assert_eq!(header(&response, "retry-after"), Some("1"));
        let left = Some(r#""smooth";r=3;t=1, "daily";r=9;t=43260"#);
        assert_eq!(header(&response, "ratelimit"), left);
    }
    drop(begin(&mut service, hurried(Duration::from_secs(1))));
    assert_eq!(hello.calls(), 1);
}

#[test]
fn the_deadline_of_a_grpc_call_counts() {
    let (mut service, _, _) = limited(SMOOTH);
    let ask = |timeout: &[u8]| {
        let ask = with(request("POST /a.B/C"), "content-type", b"application/grpc");
        with(ask, "grpc-timeout", timeout)
    };
    assert_eq!(status(&mut service, ask(b"1m")), 200);
    let response = call(&mut service, ask(b"999m"));
    assert_eq!(header(&response, "grpc-status"), Some("8"));
    assert_eq!(header(&response, "grpc-retry-pushback-ms"), Some("1"));
    for patient in [b"1S".as_slice(), b"1000m", b"nonsense", b"\xff", b""] {
        drop(begin(&mut service, ask(patient)));
    }
}

#[test]
fn a_deadline_does_not_matter_to_what_need_not_wait() {
    let (mut service, _, _) = limited("rules: [{ name: a, key: ip, limit: 2/min }]");
    let mut hurried = request("/");
    hurried.extensions_mut().insert(Deadline(Duration::ZERO));
    assert_eq!(status(&mut service, hurried), 200);
}
