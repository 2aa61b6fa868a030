//! Permits in Redis: renewals and releases that overlap.

use std::time::Duration;

use tidegate_core::Span;
use tidegate_gate::{Admission, Gate, Sample};

use crate::on_redis::still;

const POLICY: &str = "rules:
  - { name: rate, limit: 100/day }
  - { name: work, limit: 2 in flight, algorithm: concurrency, lease: 30s, match: { path: /work } }
  - { name: tried, limit: 9 in flight, algorithm: concurrency, lease: 20s, shadow: true,
      match: { path: /work } }";

fn work() -> Sample {
    Sample::new("GET /work")
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
    // Two more than before would have been left: one is taken by the request that looks.
    assert_eq!(rate(&gate.admit(&Sample::new("GET /")).await), before);
}
