//! Permits of requests that wait for a turn or a slot in this process, and of rules that lend none
//! any more.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tidegate_core::Span;
use tidegate_gate::{Admission, Gate, Reason, Sample};

use crate::stand::{gate, passes, replace};

fn work() -> Sample {
    Sample::new("GET /work")
}

/// Renews at once: in this process that is always so.
fn renew(admission: &mut Admission) -> bool {
    admission.renew().ready().expect("there is nothing to wait for").expect("it cannot fail")
}

fn in_flight(gate: &Gate) -> u32 {
    2 - gate.peek(&work()).ready().unwrap().each().next().unwrap().decision.remaining
}

/// What holds permits of a short lease while it waits: polled once, and then left alone.
fn poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    match Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

const SHORT: &str = "rules:
  - { name: work, limit: 2 in flight, algorithm: concurrency, lease: 300ms, match: { path: /work } }
  - { name: smooth, limit: 1/min, burst: 5, algorithm: leaky-queue, match: { path: /later } }
  - { name: later, limit: 1 in flight, algorithm: concurrency, lease: 300ms,
      match: { path: /later, method: PUT } }
share: [{ name: one, match: { path: /work }, capacity: 1 in flight, by: ip, wait: 1h }]";

#[test]
fn a_permit_of_a_rule_that_lends_none_any_more_is_lost() {
    let (gate, _clock) = gate(SHORT);
    let mut admission = *gate.admit(&work()).ready().unwrap();
    assert!(renew(&mut admission));
    replace(&gate, "rules: [{ name: work, limit: 100/day, match: { path: /work } }]");
    assert!(!renew(&mut admission), "it is no permit any more");
}

#[test]
fn a_permit_does_not_lapse_while_its_request_waits_for_a_turn() {
    let (gate, clock) = gate(SHORT);
    let mut served = *gate.admit(&work()).ready().unwrap();
    let mut waits = gate.admit(&work()).ready().unwrap_err();
    assert!(waits.awaits_turn() && poll(&mut waits).is_none());
    for _ in 0..100 {
        clock.advance(Span::from_millis(200));
        assert!(renew(&mut served));
        let third = gate.admit(&work()).ready().unwrap();
        assert_eq!((third.verdict().passes(), third.reason()), (false, Reason::Judged));
    }
    drop(served);
    let mut served = poll(&mut waits).expect("its turn has come");
    assert!(served.verdict().passes() && renew(&mut served), "it is held since it was decided");
    assert_eq!(in_flight(&gate), 1);
    let gone = gate.admit(&work()).ready().unwrap_err();
    drop((gone, served));
    assert_eq!((in_flight(&gate), clock.waiting()), (0, 1), "but the alarm of the share");
}

#[test]
fn a_permit_does_not_lapse_while_its_request_is_held_back() {
    let (gate, clock) = gate(SHORT);
    let (get, put) = (Sample::new("GET /later"), Sample::new("PUT /later"));
    assert!(passes(&gate, &get));
    let mut waits = gate.decide(&put).start();
    assert!(poll(&mut waits).is_none());
    for _ in 0..299 {
        clock.advance(Span::from_millis(200));
        assert!(!passes(&gate, &put));
    }
    clock.advance(Span::from_millis(200));
    let mut served = poll(&mut waits).expect("its slot has come");
    assert!(renew(&mut served) && !passes(&gate, &put));
    drop(served);
    drop(gate.decide(&put).start());
    assert_eq!(clock.waiting(), 0, "nothing is left behind");
    assert!(gate.decide(&put).verdict().passes());
}
