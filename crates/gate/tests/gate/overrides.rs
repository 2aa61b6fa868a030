//! A key gets a quota of its own, or loses it, in the middle of a period: nobody starts afresh.

use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_core::Span;
use tidegate_gate::Sample;

use crate::stand::{by, gate, left, looks, passed, passes, replace};

fn policy(rest: &str) -> String {
    format!(
        "identify: {{ client: [header:x-api-key, ip] }}\n\
         tiers: {{ header: x-tier, default: free, names: [free, pro] }}\n\
         rules: [{{ name: r, key: client, {rest} }}]"
    )
}

/// A key with a quota of its own is in no tier: that is a limit of its own.
#[test]
fn a_key_with_a_quota_of_its_own_is_in_no_tier() {
    let limits = "limit: { free: 10/day, pro: 20/day }";
    let (gate, _clock) = gate(&policy(limits));
    let pro = |request: Sample| request.with_header("x-tier", "pro");
    assert_eq!(passed(&gate, &pro(by("acme")), 15), 15);
    assert_eq!(passed(&gate, &by("acme"), 3), 3);
    let with = policy(&format!("{limits}, overrides: {{ acme: 100/day }}"));
    replace(&gate, &with);
    assert_eq!(passed(&gate, &by("acme"), 30), 30);
    assert_eq!(looks(&gate, &pro(by("acme"))), [70], "whatever tier it says");
    // Each of them is there once, however often the key changes between them.
    for _ in 0..3 {
        replace(&gate, &policy(limits));
        assert_eq!([by("acme"), pro(by("acme"))].map(|it| looks(&gate, &it)), [[7], [5]]);
        replace(&gate, &with);
        assert_eq!(looks(&gate, &by("acme")), [70]);
    }
    // Without tiers it is the limit of all keys again.
    replace(&gate, &policy("limit: 50/day"));
    assert_eq!(looks(&gate, &by("acme")), [20]);
}

/// Permits are held, not spent: those under way count under both limits, until they come back.
#[test]
fn permits_that_are_held_count_under_a_quota_of_its_own() {
    let limit = "limit: 5 in flight, algorithm: concurrency, lease: 10min";
    let (gate, clock) = gate(&policy(limit));
    let mut held: Vec<_> = (0..5).map(|_| gate.decide(&by("acme"))).collect();
    assert!(held.iter().all(|held| held.verdict().passes()));
    replace(&gate, &policy(&format!("{limit}, overrides: {{ acme: 6 in flight }}")));
    let sixth = gate.decide(&by("acme"));
    assert_eq!(left(&sixth), [0]);
    assert!(!passes(&gate, &by("acme")));
    // One that comes back makes room, whichever limit it began with.
    held.truncate(3);
    assert_eq!(looks(&gate, &by("acme")), [2]);
    drop(sixth);
    assert_eq!(looks(&gate, &by("acme")), [3]);
    // One that is renewed is held for longer, and one that is lost lapses.
    clock.advance(Span::from_secs(400));
    drop(held[0].renew());
    clock.advance(Span::from_secs(400));
    assert_eq!(looks(&gate, &by("acme")), [5]);
    drop(held);
    assert_eq!(looks(&gate, &by("acme")), [6]);
}

/// A key that nobody has asked about yet under its own quota.
#[test]
fn permits_that_are_renewed_are_known_however_late_somebody_asks() {
    let limit = "limit: 2 in flight, algorithm: concurrency, lease: 10min";
    let (gate, clock) = gate(&policy(limit));
    let mut held = gate.decide(&by("acme"));
    replace(&gate, &policy(&format!("{limit}, overrides: {{ acme: 5 in flight }}")));
    for _ in 0..5 {
        clock.advance(Span::from_secs(400));
        drop(held.renew());
        assert_eq!(passed(&gate, &by("other"), 300), 300);
    }
    assert_eq!(looks(&gate, &by("acme")), [4]);
}

/// Between the moment at which the policy is in force and the one at which all keys have been
/// looked at, nothing passes that would not have.
#[test]
fn overrides_under_load_let_nothing_more_pass() {
    let plain = policy("limit: 100/day");
    let keys = |number: u32| format!("k{number}: {}/day", 100 + number % 2);
    let overrides = (0..2_000).map(keys).collect::<Vec<_>>().join(", ");
    let with = policy(&format!("limit: 100/day, overrides: {{ {overrides} }}"));
    let (gate, _clock) = gate(&plain);
    // The last of them in the order in which keys are looked at.
    assert_eq!(passed(&gate, &by("k1998"), 100), 100);
    let stop = AtomicBool::new(false);
    let passed = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut passed = 0;
            while !stop.load(Ordering::Relaxed) {
                passed += usize::from(passes(&gate, &by("k1998")));
            }
            passed
        });
        for _ in 0..5 {
            replace(&gate, &with);
            replace(&gate, &plain);
        }
        stop.store(true, Ordering::Relaxed);
        asking.join().unwrap()
    });
    assert_eq!(passed, 0);
}
