//! Who leaves a queue whose other limits count them, in the order in which they leave.

use tidegate_core::Span;
use tidegate_gate::Sample;

use crate::stand::{done, gate, looks};

const SHARED: &str = "rules:
  - { name: queue, limit: 32/s, burst: 160, algorithm: leaky-queue }
  - { name: daily, key: 'header:client', algorithm: fixed-window, limit: 5/day }
  - { name: held, key: 'header:client', algorithm: concurrency, limit: 9 in flight, lease: 1h }";

/// One client with five requests a day is not enough to fill a queue that all share, however it
/// sends and drops.
#[test]
fn whoever_leaves_a_slot_that_cannot_come_back_stays_charged_for_it() {
    let (gate, clock) = gate(SHARED);
    let by = |who| Sample::new("GET /").with_header("client", who);
    let look = |who| looks(&gate, &by(who));
    assert!(gate.decide(&by("somebody else")).verdict().passes());
    // Dropped in the order in which they came: all but the last leave an empty slot.
    let mut passed = 0;
    for _ in 0..32 {
        let starts: Vec<_> = (0..5).map(|_| gate.decide(&by("mallory"))).collect();
        let starts = starts.into_iter().filter(|it| it.verdict().passes());
        let starts: Vec<_> = starts.map(tidegate_gate::Admission::start).collect();
        passed += starts.len();
        starts.into_iter().for_each(drop);
    }
    assert!(4 < passed);
    assert_eq!(
        look("mallory"),
        [159, 1, 9],
        "empty slots came back with the last, and are paid for"
    );
    // As long as another stands behind, they are taken.
    let mallory = gate.decide(&by("mallory")).start();
    let honest = gate.decide(&by("ada")).start();
    drop(mallory);
    assert_eq!(look("mallory"), [157, 0, 9]);
    assert!(!gate.decide(&by("mallory")).verdict().passes());
    assert_eq!(look("ada"), [157, 4, 8]);
    drop(honest);
    assert_eq!(look("ada"), [159, 5, 9]);
    // To give a decision back before its turn is the same; after its turn it was used.
    let [mut early, mut late] = [0; 2].map(|_| gate.decide(&by("bob")));
    let _behind = gate.decide(&by("ada")).start();
    let refund = |it: &mut tidegate_gate::Admission| done(it.refund());
    refund(&mut early);
    assert_eq!(look("bob")[1], 3);
    clock.advance(Span::from_secs(1));
    refund(&mut late);
    assert_eq!(look("bob")[1], 4);
    drop((early, late));
    assert_eq!(look("bob")[1..], [4, 9]);
}

/// A refusal is free, whatever it leaves behind.
#[test]
fn whoever_is_refused_while_it_waits_pays_nothing() {
    let (gate, clock) = gate(
        "rules:
  - { name: queue, limit: 1/s, burst: 9, algorithm: leaky-queue }
  - { name: daily, key: 'header:client', algorithm: fixed-window, limit: 5/day }
share: [{ name: all, capacity: 1 in flight, by: 'header:client', wait: 2s }]",
    );
    let by = |who| Sample::new("GET /").with_header("client", who);
    let _busy = gate.decide(&by("somebody else"));
    let mut waits = std::pin::pin!(gate.admit(&by("ada")));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(waits.as_mut().poll(&mut context).is_pending());
    let mut behind = std::pin::pin!(gate.admit(&by("bob")));
    assert!(behind.as_mut().poll(&mut context).is_pending());
    clock.advance(Span::from_secs(2));
    let std::task::Poll::Ready(refused) = waits.as_mut().poll(&mut context) else {
        panic!("it has waited for as long as it may")
    };
    assert!(!refused.verdict().passes());
    assert_eq!(looks(&gate, &by("ada"))[1], 5);
}
