//! A key gets a quota of its own, or loses it, in the middle of a period: nobody starts afresh.

use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_core::Span;
use tidegate_gate::Sample;

use crate::stand::{at, by, gate, left, looks, passed, passes, replace};

fn policy(rest: &str) -> String {
    format!(
        "identify: {{ client: [header:x-api-key, ip] }}\n\
         tiers: {{ header: x-tier, default: free, names: [free, pro] }}\n\
         rules: [{{ name: r, key: client, {rest} }}]"
    )
}

#[test]
fn an_override_does_not_grant_a_fresh_burst() {
    for algorithm in ["token-bucket", "gcra", "fixed-window", "sliding-window", "sliding-log"] {
        let of = |rest: &str| policy(&format!("algorithm: {algorithm}, limit: 100/min{rest}"));
        let (gate, clock) = gate(&of(""));
        assert_eq!(passed(&gate, &by("acme"), 80), 80);
        assert_eq!(passed(&gate, &by("bob"), 30), 30);
        replace(&gate, &of(", overrides: { acme: 5000/min }"));
        assert_eq!(looks(&gate, &by("acme")), [4_920], "{algorithm}: the difference");
        assert_eq!(looks(&gate, &by("bob")), [70], "{algorithm}");
        // Once: another reload takes nothing more.
        replace(&gate, &of(", overrides: { acme: 5000/min }"));
        assert_eq!(looks(&gate, &by("acme")), [4_920], "{algorithm}");
        replace(&gate, &of(", overrides: { acme: 4000/min, bob: 20/min }"));
        assert_eq!(looks(&gate, &by("acme")), [3_920], "{algorithm}");
        assert!(!passes(&gate, &by("bob")), "{algorithm}: a cut never goes below zero");
        // Gone again: what was consumed meanwhile counts, as far as there is room.
        assert_eq!(passed(&gate, &by("acme"), 10), 10);
        replace(&gate, &of(", overrides: { bob: 20/min }"));
        let room = passed(&gate, &by("acme"), 200);
        assert!(room <= 10, "{algorithm}: {room}");
        clock.advance(Span::from_secs(300));
        assert_eq!(looks(&gate, &by("acme")), [100], "{algorithm}");
    }
}

#[test]
fn whatever_the_key_is_from() {
    let (gate, _clock) = gate(&policy("limit: 10/day"));
    let requests = [by("192.0.2.1"), at("192.0.2.1"), at("2001:db8::1")];
    for (taken, request) in [2, 4, 6].into_iter().zip(&requests) {
        assert_eq!(passed(&gate, request, taken), taken);
    }
    replace(
        &gate,
        &policy("limit: 10/day, overrides: { '192.0.2.1': 50/day, '2001:db8::/64': 20/day }"),
    );
    // An address is no name: whoever sends it as one has no part in it.
    for (left, request) in [8, 46, 14].into_iter().zip(&requests) {
        assert_eq!(looks(&gate, request), [left]);
    }
}

#[test]
fn both_of_two_buckets_are_carried_over() {
    let rest = "limit: 10/min, credits: { for: 60s, rate: 3x }";
    let (gate, _clock) = gate(&policy(rest));
    assert_eq!(passed(&gate, &by("acme"), 8), 8);
    assert_eq!(looks(&gate, &by("acme")), [12, 2]);
    replace(&gate, &policy(&format!("{rest}, overrides: {{ acme: 20/min }}")));
    assert_eq!(looks(&gate, &by("acme")), [32, 12]);
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

#[test]
fn to_and_from_no_limit() {
    let (gate, _clock) = gate(&policy("limit: 10/day, overrides: { acme: unlimited }"));
    assert_eq!(passed(&gate, &by("acme"), 50), 50);
    replace(&gate, &policy("limit: 10/day"));
    assert_eq!(looks(&gate, &by("acme")), [10], "nobody has counted");
    assert_eq!(passed(&gate, &by("acme"), 4), 4);
    replace(&gate, &policy("limit: 10/day, overrides: { acme: block }"));
    assert!(!passes(&gate, &by("acme")));
    replace(&gate, &policy("limit: 10/day, overrides: { acme: 20/day }"));
    assert!(passes(&gate, &by("acme")));
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

#[test]
fn an_identity_of_several_attributes_keeps_what_it_had_consumed() {
    let pair = |rest: &str| {
        format!(
            "identify: {{ client: [[header:a, header:b]] }}\n\
             rules: [{{ name: r, key: client, limit: 10/day{rest} }}]"
        )
    };
    let one = Sample::new("GET /").with_header("a", "x").with_header("b", "y");
    let (gate, _clock) = gate(&pair(""));
    assert_eq!(passed(&gate, &one, 9), 9);
    replace(&gate, &pair(", overrides: [{ key: [x, y], limit: 20/day }]"));
    assert_eq!(looks(&gate, &one), [11]);
}

#[test]
fn a_fingerprint_keeps_what_it_had_consumed() {
    let print =
        |rest: &str| format!("rules: [{{ name: r, key: fingerprint, limit: 10/day{rest} }}]");
    let peer = "192.0.2.1".parse().unwrap();
    let one = Sample::new("GET /x").from_peer(peer).with_header("user-agent", "curl");
    let (gate, _clock) = gate(&print(""));
    assert_eq!(passed(&gate, &one, 9), 9);
    replace(&gate, &print(", overrides: [{ key: [192.0.2.1, GET, /x, curl], limit: 20/day }]"));
    assert_eq!(looks(&gate, &one), [11]);
}
