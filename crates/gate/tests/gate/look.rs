//! Looking changes nothing, and a reset makes fresh.

#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Decision, Span, Verdict};
use tidegate_gate::{Admission, Gate, Sample};
use tidegate_sim::rng::Rng;

use crate::stand::{at, by, counts, gate, left, looks, passed, to};

const MIXED: &str = "
identify: { client: [header:x-api-key, ip] }
tiers: { header: x-tier, default: free }
costs: [{ path: /big, cost: 3 }]
rules:
  - { name: bucket, key: client, limit: { free: 20/10s, pro: 60/10s }, burst: 8 }
  - { name: window, key: [client, path], limit: 15/10s, algorithm: fixed-window, cost: 2 }
  - { name: log, limit: 40/10s, algorithm: sliding-log, match: { path: /big } }
  - { name: queue, key: client, limit: 9/10s, algorithm: leaky-queue, match: { path: /a } }
  - { name: saved, key: client, limit: 10/10s, burst: 6, credits: { for: 20s, rate: 3x } }
  - { name: tried, key: client, limit: 5/10s, burst: 1, shadow: true }
  - { name: flights, key: client, limit: 3 in flight, algorithm: concurrency }
  - { name: no, match: { path: /no }, block: true }
";

fn said(admission: &Admission) -> (Verdict, Vec<Verdict>) {
    (admission.verdict(), admission.each().map(|answer| answer.decision.verdict).collect())
}

fn peek(gate: &Gate, request: &Sample) -> Box<Admission> {
    gate.peek(request).ready().unwrap()
}

fn reset(gate: &Gate, request: &Sample, rule: Option<&str>) -> Vec<String> {
    gate.reset(request, rule).ready().unwrap().unwrap()
}

#[test]
fn a_peek_says_what_would_come_of_it_and_changes_nothing() {
    let (looked, clock) = gate(MIXED);
    let (plain, plain_clock) = gate(MIXED);
    let (mut rng, mut held, mut refused) = (Rng::new(1), Vec::new(), 0);
    for step in 0..3_000 {
        let span = Span::from_micros(rng.below(600_000));
        clock.advance(span);
        plain_clock.advance(span);
        let path = ["/big", "/a", "/b", "/no"][usize::try_from(rng.below(4)).unwrap()];
        let name = ["ada", "bob"][usize::try_from(rng.below(2)).unwrap()];
        let request = to(&format!("GET {path}"), name);
        let first = peek(&looked, &request);
        let mut second = peek(&looked, &request);
        let numbers =
            |it: &Admission| -> Vec<Decision> { it.each().map(|it| it.decision).collect() };
        assert_eq!(numbers(&first), numbers(&second), "step {step}");
        assert!(!second.has_permits());
        drop(second.charge_more(5));
        drop(second);
        let (admission, other) = (looked.decide(&request), plain.decide(&request));
        assert_eq!(said(&first), said(&admission), "step {step}: {request:?}");
        assert_eq!(
            (first.reason(), first.stopped_by()),
            (admission.reason(), admission.stopped_by())
        );
        assert_eq!(numbers(&admission), numbers(&other), "step {step}: {request:?}");
        refused += usize::from(!admission.verdict().passes());
        held.push((admission, other));
        if 4 < held.len() {
            held.remove(0);
        }
    }
    assert!(500 < refused && refused < 2_500, "{refused}");
    assert_eq!(looked.counts(), plain.counts());
    assert_eq!(looked.keys(), plain.keys());
}

#[test]
fn the_numbers_of_a_peek_are_those_of_now() {
    let (gate, _clock) = gate("rules: [{ name: r, limit: 5/day }]");
    let request = Sample::new("GET /").with_cost(2);
    assert_eq!(left(&peek(&gate, &request)), [5]);
    assert_eq!(left(&gate.decide(&request)), [3]);
    assert_eq!(left(&peek(&gate, &request)), [3]);
    assert!(!peek(&gate, &Sample::new("GET /").with_cost(4)).verdict().passes());
    assert_eq!(counts(&gate, "r"), (1, 0, 0));
}

#[test]
fn a_reset_makes_fresh() {
    let (gate, _clock) = gate(MIXED);
    let fresh = looks(&gate, &to("GET /big", "ada"));
    for name in ["ada", "bob"] {
        assert_eq!(passed(&gate, &to("GET /big", name), 9), 2);
    }
    let (used, others) =
        (looks(&gate, &to("GET /big", "ada")), looks(&gate, &to("GET /big", "bob")));
    assert_ne!(used, fresh);
    assert_eq!(reset(&gate, &to("GET /big", "ada"), Some("window")), ["window"]);
    let mut expected = used;
    expected[1] = fresh[1];
    assert_eq!(looks(&gate, &to("GET /big", "ada")), expected);
    let names = ["bucket", "window", "log", "saved", "saved-peak", "tried", "flights"];
    let mut reset_names = reset(&gate, &to("GET /big", "ada"), None);
    let mut names: Vec<String> = names.map(String::from).to_vec();
    reset_names.sort();
    names.sort();
    assert_eq!(reset_names, names);
    assert_eq!(looks(&gate, &to("GET /big", "ada")), fresh);
    // The log is everybody's; the rest of another client stays as it was.
    let mut expected = others;
    expected[2] = fresh[2];
    assert_eq!(looks(&gate, &to("GET /big", "bob")), expected);
}

#[test]
fn a_reset_says_what_it_cannot_do() {
    let (gate, _clock) = gate("rules: [{ name: r, key: [ip, path], limit: 5/day }]");
    assert_eq!(reset(&gate, &at("192.0.2.1"), Some("unknown")), [""; 0]);
    let (other, _clock) = crate::stand::gate(
        "rules: [{ name: r, key: [header:a, header:b, header:c, \
                                       header:d, header:e], limit: 5/day }]",
    );
    let mut long = by("ada");
    for name in ["a", "b", "c", "d", "e"] {
        long = long.with_header(name, "x".repeat(1_000));
    }
    let error = other.reset(&long, None).ready().unwrap().unwrap_err().to_string();
    assert!(error.contains("the key has 5"), "{error}");
}
