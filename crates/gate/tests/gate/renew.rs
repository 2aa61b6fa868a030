//! Permits that are held for longer than one lease, in this process and in Redis.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tidegate_core::Span;
use tidegate_gate::{Admission, Gate, Reason, Sample};
use tidegate_store::Clock;

use crate::stand::{gate, passes, replace};

const POLICY: &str = "rules:
  - { name: rate, limit: 100/day }
  - { name: work, limit: 2 in flight, algorithm: concurrency, lease: 30s, match: { path: /work } }
  - { name: tried, limit: 9 in flight, algorithm: concurrency, lease: 20s, shadow: true,
      match: { path: /work } }";

fn work() -> Sample {
    Sample::new("GET /work")
}

/// Renews at once: in this process that is always so.
fn renew(admission: &mut Admission) -> bool {
    admission.renew().ready().expect("there is nothing to wait for").expect("it cannot fail")
}

fn in_flight(gate: &Gate) -> u32 {
    let admission = gate.decide(&work());
    let taken = u32::from(admission.verdict().passes());
    let answer = admission.each().find(|answer| answer.rule == "work");
    2 - answer.map_or(0, |answer| answer.decision.remaining) - taken
}

#[test]
fn a_permit_is_held_for_as_long_as_it_is_renewed() {
    let (gate, clock) = gate(POLICY);
    let mut admission = gate.decide(&work());
    assert!(admission.has_permits());
    // The first to lapse is the one in shadow.
    assert_eq!(admission.permits_lapse_at(), Some(clock.now().after(Span::from_secs(20))));
    for _ in 0..10 {
        clock.advance(Span::from_secs(19));
        assert!(renew(&mut admission));
        assert_eq!(in_flight(&gate), 1);
    }
    // In shadow it lapses first, and nobody minds.
    clock.advance(Span::from_secs(25));
    assert!(renew(&mut admission));
    assert_eq!(admission.permits_lapse_at(), Some(clock.now().after(Span::from_secs(30))));
    clock.advance(Span::from_micros(29_999_999));
    assert_eq!(in_flight(&gate), 1);
    clock.advance(Span::from_micros(1));
    assert_eq!(in_flight(&gate), 0);
    assert!(!renew(&mut admission), "it has lapsed");
    assert!(!renew(&mut admission), "and does not come back");
    assert!(!admission.has_permits());
    assert_eq!(in_flight(&gate), 0, "nothing is taken again");
}

#[test]
fn a_renewed_permit_comes_back_when_it_is_released_or_dropped() {
    let (gate, clock) = gate(POLICY);
    let (mut one, mut two) = (gate.decide(&work()), gate.decide(&work()));
    clock.advance(Span::from_secs(10));
    assert!(renew(&mut one) && renew(&mut two));
    assert!(!passes(&gate, &work()));
    drop(one);
    assert_eq!(in_flight(&gate), 1);
    drop(two.release());
    assert_eq!(in_flight(&gate), 0);
    assert!(!two.has_permits());
    assert_eq!(two.permits_lapse_at(), None);
    assert!(!renew(&mut two), "it was given back");
}

#[test]
fn without_permits_there_is_nothing_to_lose() {
    let (gate, _clock) = gate(POLICY);
    let mut plain = gate.decide(&Sample::new("GET /"));
    assert!(!plain.has_permits() && renew(&mut plain));
    let held = [gate.decide(&work()), gate.decide(&work())];
    let mut refused = gate.decide(&work());
    assert!(!refused.verdict().passes() && !refused.has_permits() && renew(&mut refused));
    drop(held);
}

#[test]
fn a_reload_in_between_is_gone_by() {
    let (gate, clock) = gate(POLICY);
    let mut admission = gate.decide(&work());
    replace(&gate, &POLICY.replace("lease: 30s", "lease: 90s").replace("lease: 20s", "lease: 90s"));
    clock.advance(Span::from_secs(10));
    assert!(renew(&mut admission));
    assert_eq!(admission.permits_lapse_at(), Some(clock.now().after(Span::from_secs(90))));
    clock.advance(Span::from_secs(89));
    assert_eq!(in_flight(&gate), 1);
    replace(&gate, "rules: [{ name: work, limit: 100/day, match: { path: /work } }]");
    assert!(!renew(&mut admission), "it is no permit any more");
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

mod in_redis {
    use std::sync::Arc;
    use std::time::Duration;

    use tidegate_redis::{Fleet, RedisStore, Settings};
    use tidegate_store::ManualClock;
    use tidegate_testbed::Server;

    use super::*;
    use crate::stand::{START, clock_at, rules};

    async fn still(policy: &str) -> (Server, Gate, Arc<ManualClock>) {
        let (server, clock) = (Server::start().unwrap(), clock_at(START));
        let judge = Arc::clone(&clock) as Arc<dyn Clock>;
        let builder = RedisStore::builder(Settings::from_url(&server.url()).unwrap());
        let builder = builder.deadline(Duration::from_secs(20)).judged_by(Arc::clone(&judge));
        let fleet = Fleet::new(builder.connect().await.unwrap());
        let gate = Gate::builder().rules(rules(policy)).store(fleet).clock(judge).open().unwrap();
        (server, gate, clock)
    }

    async fn in_flight(gate: &Gate) -> u32 {
        let mut admission = gate.admit(&work()).await;
        let taken = u32::from(admission.verdict().passes());
        let answer = admission.each().find(|answer| answer.rule == "work");
        let in_flight = 2 - answer.map_or(0, |answer| answer.decision.remaining) - taken;
        admission.release().await;
        in_flight
    }

    async fn becomes(gate: &Gate, expected: u32) {
        for _ in 0..2_000 {
            if in_flight(gate).await == expected {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("in vain: {expected} in flight");
    }

    #[tokio::test]
    async fn a_permit_is_held_for_as_long_as_it_is_renewed() {
        let (_server, gate, clock) = still(POLICY).await;
        let mut admission = gate.admit(&work()).await;
        assert!(admission.has_permits());
        assert_eq!(admission.permits_lapse_at(), Some(clock.now().after(Span::from_secs(20))));
        for _ in 0..5 {
            clock.advance(Span::from_secs(19));
            assert!(admission.renew().await.unwrap());
            becomes(&gate, 1).await;
        }
        assert_eq!(admission.permits_lapse_at(), Some(clock.now().after(Span::from_secs(20))));
        clock.advance(Span::from_secs(25));
        assert!(admission.renew().await.unwrap(), "in shadow it may lapse");
        assert_eq!(admission.permits_lapse_at(), Some(clock.now().after(Span::from_secs(30))));
        clock.advance(Span::from_secs(30));
        assert!(!admission.renew().await.unwrap());
        assert!(!admission.renew().await.unwrap(), "it does not come back");
        assert!(!admission.has_permits());
        becomes(&gate, 0).await;
    }

    #[tokio::test]
    async fn whoever_stops_waiting_for_a_renewal_loses_nothing() {
        let (_server, gate, clock) = still(POLICY).await;
        let mut admission = gate.admit(&work()).await;
        clock.advance(Span::from_secs(15));
        // Begun, and given up at once: it goes on.
        let begun = tokio::time::timeout(Duration::ZERO, admission.renew()).await;
        assert!(admission.has_permits());
        drop(begun);
        clock.advance(Span::from_secs(3));
        assert!(admission.renew().await.unwrap(), "one renewal after the other");
        clock.advance(Span::from_secs(19));
        becomes(&gate, 1).await;
        // Released while it is being renewed: it comes back as soon as that is done.
        let begun = tokio::time::timeout(Duration::ZERO, admission.renew()).await;
        drop(admission.release());
        drop(begun);
        becomes(&gate, 0).await;
        assert!(!admission.renew().await.unwrap(), "it was given back");
    }

    #[tokio::test]
    async fn releasing_permits_leaves_the_rest_to_be_settled() {
        let (_server, gate, _clock) = still(POLICY).await;
        let mut admission = gate.admit(&work()).await;
        admission.release().await;
        assert_eq!(in_flight(&gate).await, 0);
        let rate = |admission: &Admission| admission.each().next().unwrap().decision.remaining;
        let before = rate(&gate.admit(&Sample::new("GET /")).await);
        admission.refund().await;
        // Two more than before would have been left: one is taken by whoever looks.
        assert_eq!(rate(&gate.admit(&Sample::new("GET /")).await), before);
    }
}
