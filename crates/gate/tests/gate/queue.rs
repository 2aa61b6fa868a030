//! A queue's output is smooth, also when somebody leaves it: no two are started together.

use tidegate_core::{Span, Verdict};
use tidegate_gate::Sample;

use crate::stand::gate;

#[test]
fn whoever_leaves_from_the_middle_leaves_an_empty_place() {
    let (gate, _clock) =
        gate("rules: [{ name: q, limit: 10/s, burst: 9, algorithm: leaky-queue }]");
    let request = Sample::new("GET /");
    let by = |millis| Some(Span::from_millis(millis));
    let [_first, second, third] = [0; 3].map(|_| gate.decide(&request).start());
    drop(second);
    let fourth = gate.decide(&request);
    assert_eq!(fourth.delay(), by(300), "together with the third");
    drop(fourth.start());
    assert_eq!(gate.decide(&request).delay(), by(300), "the last place comes back");
    drop(third);
}

#[test]
fn whoever_cannot_wait_takes_no_place() {
    let (gate, _clock) =
        gate("rules: [{ name: q, limit: 10/s, burst: 9, algorithm: leaky-queue }]");
    let request = Sample::new("GET /");
    let _held = [0; 3].map(|_| gate.decide(&request).start());
    let late = gate.decide(&request).within(Span::from_millis(250));
    assert!(!late.verdict().passes());
    assert_eq!(gate.decide(&request).delay(), Some(Span::from_millis(300)));
}

#[test]
fn every_queue_that_takes_too_long_refuses() {
    let (gate, _clock) = gate(
        "rules:
  - { name: slow, limit: 1 per 5s, burst: 4, algorithm: leaky-queue }
  - { name: mid, limit: 1 per 3s, burst: 4, algorithm: leaky-queue }
  - { name: fast, limit: 1/s, burst: 4, algorithm: leaky-queue }",
    );
    let request = Sample::new("GET /");
    let _held = gate.decide(&request).start();
    let late = gate.decide(&request).within(Span::from_secs(1));
    let after = |seconds| Verdict::Deny { retry_after: Span::from_secs(seconds) };
    assert_eq!(late.verdict(), after(4));
    let violated: Vec<_> = late.violated().map(|it| (it.rule, it.decision.verdict)).collect();
    assert_eq!(violated, [("slow", after(4)), ("mid", after(2))]);
}
