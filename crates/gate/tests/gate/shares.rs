//! Turns in a share: who waits, who is refused, and that nothing is charged or lost on the way.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate_core::{Span, Verdict};
use tidegate_gate::{Admission, Admit, CrowdedBy, Gate, Reason, Rules, Sample, ShareStats};
use tidegate_store::ManualClock;

use crate::stand::{by, gate, to};

const TWO: &str = "
identify: { client: [header:x-api-key] }
tiers: { header: x-tier, default: free, names: [free, pro] }
costs: [{ path: /export, cost: 2 }, { path: /asked, cost: { from: response:x-cells } }]
rules: [{ name: per-client, key: client, limit: 1000/h }]
share:
  - name: backend
    match: { not: { path: /health } }
    capacity: 2 in flight
    by: client
    weight: { free: 1, pro: 4 }
    class: { high: { path: /now } }
    wait: 2s
";

fn poll(admit: &mut Admit) -> Option<Admission> {
    match Pin::new(admit).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(admission) => Some(admission),
        Poll::Pending => None,
    }
}

#[track_caller]
fn now(gate: &Gate, request: &Sample) -> Admission {
    *gate.admit(request).ready().expect("there is a place")
}

#[track_caller]
fn waits(gate: &Gate, request: &Sample) -> Admit {
    gate.admit(request).ready().expect_err("there is no place")
}

/// What is left under each limit, without asking for a turn.
fn looks(gate: &Gate, request: &Sample) -> Vec<u32> {
    let looked = gate.peek(request).ready().unwrap();
    looked.each().map(|answer| answer.decision.remaining).collect()
}

fn stats(gate: &Gate) -> ShareStats {
    gate.stats().shares.remove(0)
}

fn refused_by(gate: &Gate, why: CrowdedBy) -> u64 {
    stats(gate).refused.iter().find(|(it, _)| *it == why).unwrap().1
}

/// Serves one after the other; in whose name each was.
fn served(
    held: &mut Vec<Admission>,
    waiting: &mut Vec<(&'static str, Admit)>,
    count: usize,
) -> Vec<&'static str> {
    let mut served = Vec::new();
    for _ in 0..count {
        drop(held.pop());
        let mut found = None;
        for (at, (_, admit)) in waiting.iter_mut().enumerate() {
            found = found.or_else(|| Some((at, poll(admit)?)));
        }
        let (at, admission) = found.expect("somebody is next");
        assert!(admission.verdict().passes());
        served.push(waiting.remove(at).0);
        held.push(admission);
    }
    served
}

fn full(gate: &Gate) -> Vec<Admission> {
    (0..2).map(|_| now(gate, &by("held"))).collect()
}

#[test]
fn while_there_is_room_the_answer_is_there_at_once() {
    let (gate, _clock) = gate(TWO);
    let first = now(&gate, &by("ada"));
    assert_eq!((first.share(), first.waited()), (Some("backend"), Some(Span::ZERO)));
    assert!(first.has_permits() && first.has_place() && first.crowded().is_none());
    let second = now(&gate, &by("bob"));
    let mut third = waits(&gate, &by("eve"));
    assert!(poll(&mut third).is_none());
    let health = now(&gate, &to("GET /health", "eve"));
    assert_eq!((health.share(), health.has_permits()), (None, false), "no share is for it");
    drop(second);
    let third = poll(&mut third).unwrap();
    assert_eq!((third.verdict(), third.reason()), (Verdict::Allow, Reason::Judged));
    assert_eq!((stats(&gate).in_flight, stats(&gate).dispatched), (2, 3));
    drop((first, third));
    assert_eq!((stats(&gate).in_flight, stats(&gate).waiting), (0, 0));
}

#[test]
fn a_quiet_tenant_goes_before_the_crowd_of_a_noisy_one() {
    let (gate, _clock) = gate(TWO);
    let mut held = full(&gate);
    let mut waiting: Vec<_> = (0..100).map(|_| ("noisy", waits(&gate, &by("noisy")))).collect();
    waiting.push(("quiet", waits(&gate, &by("quiet"))));
    let served = served(&mut held, &mut waiting, 3);
    assert!(served.contains(&"quiet"), "{served:?}");
}

#[test]
fn tiers_share_by_weight() {
    let (gate, _clock) = gate(TWO);
    let mut held = full(&gate);
    let mut waiting = Vec::new();
    for _ in 0..50 {
        waiting.push(("free", waits(&gate, &by("f"))));
        waiting.push(("pro", waits(&gate, &by("p").with_header("x-tier", "pro"))));
    }
    let served = served(&mut held, &mut waiting, 50);
    let pro = served.iter().filter(|name| **name == "pro").count();
    assert!((39..=41).contains(&pro), "{pro} of 50");
}

#[test]
fn a_class_comes_before_weights() {
    let (gate, _clock) = gate(TWO);
    let mut held = full(&gate);
    let mut waiting: Vec<_> = (0..9).map(|_| ("usual", waits(&gate, &by("a")))).collect();
    waiting.push(("high", waits(&gate, &to("GET /now", "a"))));
    assert_eq!(served(&mut held, &mut waiting, 1), ["high"]);
}

#[test]
fn whoever_gets_no_turn_is_charged_nothing_and_told_when_to_come_back() {
    let (gate, clock) = gate(TWO);
    let _held = full(&gate);
    let before = looks(&gate, &by("ada"));
    let mut admit = waits(&gate, &by("ada"));
    assert_eq!(looks(&gate, &by("ada")), [before[0] - 1], "it is charged while it waits");
    clock.advance(Span::from_millis(1_999));
    assert!(poll(&mut admit).is_none());
    clock.advance(Span::from_millis(2));
    let crowded = poll(&mut admit).expect("it has waited for two seconds");
    assert!(matches!(crowded.verdict(), Verdict::Deny { retry_after } if Span::ZERO < retry_after));
    assert_eq!((crowded.reason(), crowded.status()), (Reason::Crowded, 503));
    assert_eq!((crowded.share(), crowded.crowded()), (Some("backend"), Some(CrowdedBy::Expired)));
    assert!(crowded.problem().contains("temporary-reduced-capacity"), "{}", crowded.problem());
    assert_eq!(looks(&gate, &by("ada")), before);
    assert_eq!(refused_by(&gate, CrowdedBy::Expired), 1);
    let mut fields = Vec::new();
    crowded.fields(|field, _| fields.push(field.name()));
    assert!(fields.contains(&"retry-after"), "{fields:?}");
}

#[test]
fn whoever_goes_away_leaves_no_trace() {
    let (gate, _clock) = gate(TWO);
    let held = full(&gate);
    let before = looks(&gate, &by("ada"));
    let admit = waits(&gate, &by("ada"));
    assert_eq!(stats(&gate).waiting, 1);
    drop(admit);
    assert_eq!((stats(&gate).waiting, looks(&gate, &by("ada"))), (0, before.clone()));
    // One that has its turn already, and does not know.
    let admit = waits(&gate, &by("ada"));
    drop(held);
    assert_eq!(stats(&gate).in_flight, 1);
    drop(admit);
    assert_eq!((stats(&gate).in_flight, looks(&gate, &by("ada"))), (0, before));
}

#[test]
fn a_caller_may_have_less_patience_than_the_share() {
    let (gate, clock) = gate(TWO);
    let _held = full(&gate);
    let mut admit = waits(&gate, &by("ada").with_patience(Span::from_millis(100)));
    clock.advance(Span::from_millis(101));
    assert_eq!(poll(&mut admit).unwrap().reason(), Reason::Crowded);
}

#[test]
fn a_request_takes_what_it_costs_and_its_tenant_pays_what_it_did() {
    let (gate, _clock) = gate(TWO);
    let mut export = now(&gate, &to("GET /export", "ada"));
    assert_eq!(stats(&gate).in_flight, 2);
    drop(waits(&gate, &by("bob")));
    // It was ten times as much: the place stays taken, and ada pays for it.
    drop(export.set_cost(20));
    assert_eq!(stats(&gate).in_flight, 2);
    let mut waiting = Vec::new();
    for _ in 0..12 {
        waiting.push(("ada", waits(&gate, &by("ada"))));
        waiting.push(("bob", waits(&gate, &by("bob"))));
    }
    drop(export);
    let mut held: Vec<Admission> = Vec::new();
    let first = served(&mut held, &mut waiting, 2);
    let next = served(&mut held, &mut waiting, 9);
    let bob = first.iter().chain(&next).filter(|name| **name == "bob").count();
    assert!(10 <= bob, "{first:?} {next:?}");
}

#[test]
fn what_costs_nothing_only_looks_and_peeking_does_not_wait() {
    let (gate, _clock) = gate(TWO);
    let _held = full(&gate);
    assert_eq!(now(&gate, &by("ada").with_cost(0)).share(), None);
    assert!(gate.peek(&by("ada")).ready().is_ok_and(|it| it.verdict().passes()));
    let request = by("ada");
    let together = gate.admit_jointly(&[&request]).ready().unwrap();
    assert_eq!((together.verdict, together.each[0].has_place()), (Verdict::Allow, false));
}

#[test]
fn code_that_does_not_wait_is_refused_at_once() {
    let (gate, _clock) = gate(TWO);
    let held: Vec<Admission> = (0..2).map(|_| gate.decide(&by("ada"))).collect();
    let before = looks(&gate, &by("ada"));
    let refused = gate.decide(&by("ada"));
    assert_eq!((refused.reason(), refused.status()), (Reason::Crowded, 503));
    assert_eq!((looks(&gate, &by("ada")), stats(&gate).waiting), (before, 0));
    assert_eq!(refused_by(&gate, CrowdedBy::Expired), 1, "the queue knows of it");
    drop(held);
    assert_eq!(gate.decide(&by("ada")).reason(), Reason::Judged);
}

#[test]
fn a_place_may_be_left_before_the_admission_is_dropped() {
    let (gate, _clock) = gate(TWO);
    let mut admission = now(&gate, &by("ada"));
    admission.leave();
    admission.leave();
    assert_eq!((stats(&gate).in_flight, admission.has_place()), (0, false));
    let mut other = now(&gate, &by("ada"));
    drop(other.release());
    assert_eq!(stats(&gate).in_flight, 0);
}

fn replaced(gate: &Gate, policy: &str) {
    gate.replace(Rules::from_text(policy).unwrap().rules).unwrap();
}

#[test]
fn a_reload_keeps_the_queue_and_changes_its_capacity() {
    let (gate, _clock) = gate(TWO);
    let mut held = full(&gate);
    let mut admits: Vec<Admit> = (0..3).map(|_| waits(&gate, &by("ada"))).collect();
    replaced(&gate, &TWO.replace("2 in flight", "4 in flight"));
    let passed: Vec<Admission> = admits.iter_mut().filter_map(poll).collect();
    assert_eq!((passed.len(), stats(&gate).in_flight, stats(&gate).limit), (2, 4, 4));
    replaced(&gate, &TWO.replace("2 in flight", "1 in flight"));
    held.clear();
    drop(passed);
    assert_eq!((stats(&gate).in_flight, stats(&gate).waiting), (1, 0), "it is the last one's");
    drop(waits(&gate, &by("bob")));
}

#[test]
fn a_reload_with_other_bounds_counts_from_then_on() {
    let (gate, _clock) = gate(TWO);
    let _held = full(&gate);
    let _waiting: Vec<Admit> = (0..2).map(|_| waits(&gate, &by("ada"))).collect();
    replaced(&gate, &format!("{TWO}    queue: {{ total: 10, each: 2 }}\n"));
    let refused = now(&gate, &by("ada"));
    assert_eq!(refused.crowded(), Some(CrowdedBy::FlowFull));
    drop(waits(&gate, &by("bob")));
}

#[test]
fn who_waits_for_what_is_not_shared_any_more_passes() {
    for capacity in ["2 in flight", "2/s"] {
        let policy = TWO.replace("2 in flight", capacity);
        let (gate, _clock) = gate(&policy);
        let held = full(&gate);
        let mut admits: Vec<Admit> = (0..3).map(|_| waits(&gate, &by("ada"))).collect();
        let (without, _) = policy.split_once("share:").unwrap();
        replaced(&gate, without);
        assert!(admits.iter_mut().all(|it| poll(it).unwrap().verdict().passes()), "{capacity}");
        assert!(gate.stats().shares.is_empty());
        drop(held);
    }
}

#[test]
fn a_rate_is_shared_as_places_are() {
    let (gate, clock) = gate(&TWO.replace("2 in flight", "2/s"));
    drop((now(&gate, &by("ada")), now(&gate, &by("ada"))));
    let mut noisy: Vec<Admit> = (0..5).map(|_| waits(&gate, &by("ada"))).collect();
    let mut quiet = waits(&gate, &by("bob"));
    clock.advance(Span::from_millis(500));
    clock.advance(Span::from_millis(500));
    assert!(poll(&mut quiet).unwrap().verdict().passes());
    assert_eq!(noisy.iter_mut().filter_map(poll).count(), 1);
}

#[test]
fn organizations_share_before_their_members_do() {
    let policy = TWO.replace("by: client", "by: [header:x-org, client]");
    let (gate, _clock) = gate(&policy);
    let of = |org: &str, name: &str| by(name).with_header("x-org", org);
    let mut held = full(&gate);
    let mut waiting = Vec::new();
    for at in 0..40 {
        let name = format!("user-{at}");
        waiting.push(("large", waits(&gate, &of("large", &name))));
        waiting.push(("small", waits(&gate, &of("small", "only"))));
    }
    let served = served(&mut held, &mut waiting, 20);
    let small = served.iter().filter(|name| **name == "small").count();
    assert!((9..=11).contains(&small), "{small} of 20");
}

#[test]
fn a_refusal_by_a_limit_asks_for_no_turn() {
    let (gate, _clock) = gate(&TWO.replace("1000/h", "1/h"));
    drop(now(&gate, &by("ada")));
    let refused = now(&gate, &by("ada"));
    assert_eq!((refused.reason(), refused.status(), refused.share()), (Reason::Judged, 429, None));
    assert_eq!(stats(&gate).dispatched, 1);
}

/// A thousand waits on many threads: all come to an end, and nothing is left behind.
#[test]
fn nothing_is_lost_under_threads() {
    let clock = Arc::new(ManualClock::new());
    let gate = Gate::builder().text(TWO).clock(clock).open().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let gate = &gate;
            scope.spawn(move || {
                for at in 0..250_u32 {
                    let mut admit = gate.admit(&by(["a", "b", "c", "d"][thread]));
                    for _ in 0..at % 7 {
                        if poll_ready(&mut admit) {
                            break;
                        }
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    assert_eq!((stats(&gate).in_flight, stats(&gate).waiting), (0, 0));
}

fn poll_ready(admit: &mut Admit) -> bool {
    poll(admit).is_some()
}

/// A request that goes away, or is refused, while a limit holds it back has not been served: its
/// share has the cells again.
#[test]
fn who_is_not_served_takes_nothing_of_a_share() {
    let (gate, clock) = gate(
        "rules: [{ name: q, limit: 1/s, burst: 20, algorithm: leaky-queue }]
share: [{ name: backend, capacity: 3/h, by: ip, wait: 1ms }]"
            .trim(),
    );
    let request = Sample::new("GET /");
    let served = now(&gate, &request);
    assert_eq!(served.delay(), None);
    for _ in 0..5 {
        drop(now(&gate, &request).start());
        let late = now(&gate, &request).within(Span::from_millis(1));
        assert!(!late.verdict().passes());
    }
    clock.advance(Span::from_secs(20));
    let after = [(); 2].map(|()| now(&gate, &request));
    assert!(after.iter().all(|it| it.verdict().passes()), "{after:?}");
    assert_eq!(now(&gate, &request).reason(), Reason::Crowded, "the share has three in all");
}
