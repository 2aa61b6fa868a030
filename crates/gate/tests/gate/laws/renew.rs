//! Permits that are held for longer than one lease.

#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::Span;
use tidegate_gate::{Admission, Gate, Sample};
use tidegate_store::Clock;

use super::gate;
use crate::stand::{becomes, decide, done, passes, replace};

const POLICY: &str = "rules:
  - { name: rate, limit: 100/day }
  - { name: work, limit: 2 in flight, algorithm: concurrency, lease: 30s, match: { path: /work } }
  - { name: tried, limit: 9 in flight, algorithm: concurrency, lease: 20s, shadow: true,
      match: { path: /work } }";

fn work() -> Sample {
    Sample::new("GET /work")
}

fn renew(admission: &mut Admission) -> bool {
    done(admission.renew()).unwrap()
}

fn in_flight(gate: &Gate) -> u32 {
    let mut admission = decide(gate, &work());
    done(admission.release());
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
    becomes(&gate, || in_flight(&gate), 1);
    done(two.release());
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
}
