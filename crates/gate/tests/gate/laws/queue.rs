//! A queue's output is smooth, also when somebody leaves it: no two are started together.

use tidegate_core::{Span, Verdict};
use tidegate_gate::Sample;

use super::{gate, turns};
use crate::stand::{becomes, counts, done, looks};

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
    becomes(&gate, || done(gate.peek(&request)).delay(), by(300));
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
    let third = Some(Span::from_millis(300));
    becomes(&gate, || done(gate.peek(&request)).delay(), third);
    assert_eq!(gate.decide(&request).delay(), third);
}

/// A place that is taken and given back may be lost, where somebody else came in between. So a
/// caller that says how long it waits is looked at first, and takes none in vain, however many do
/// so at once.
#[test]
fn who_says_how_long_they_wait_takes_no_place_in_vain() {
    let (gate, _clock) = gate(
        "rules:
          - { name: slow, limit: 1 per 60s, burst: 200, algorithm: leaky-queue }
          - { name: quick, limit: 1 per 2s, burst: 200, algorithm: leaky-queue }
          - { name: all, limit: 1000/h }",
    );
    let request = Sample::new("GET /");
    let _held = [0; 2].map(|_| gate.decide(&request).start());
    let hurried = request.clone().with_patience(Span::from_secs(1));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..turns(2_000) {
                    let refused = gate.decide(&hurried);
                    assert!(!refused.verdict().passes(), "{:?}", refused.verdict());
                    let violated: Vec<&str> = refused.violated().map(|it| it.rule).collect();
                    assert_eq!(violated, ["slow", "quick"]);
                }
            });
        }
    });
    assert_eq!(looks(&gate, &request), [198, 198, 998]);
    let denied = u64::from(4 * turns(2_000));
    assert_eq!(counts(&gate, "slow"), (1, denied, 0), "allowed, denied");
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
