//! A key gets a quota of its own, or loses it, in the middle of a period: nobody starts afresh.

use tidegate_core::Span;
use tidegate_gate::Sample;

use super::laws::gate;
use crate::stand::{at, by, looks, passed, passes, replace};

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
    // An address is no name: a client that sends it as one has no part in it.
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
