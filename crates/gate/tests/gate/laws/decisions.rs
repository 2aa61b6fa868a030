//! Several rules at once: all or nothing, shadow, costs, and rules that end the list.

use std::fmt::Write as _;

use tidegate_core::{Span, Verdict};
use tidegate_gate::{Field, Gate, Reason, Sample};

use super::gate;
use crate::stand::{
    at, becomes, by, counts, done, left, looks, passed, passes, retry_after, room, to,
};

const TWO: &str = "
identify: { client: [header:x-api-key] }
costs: [{ path: /export, cost: 5 }]
rules:
  - { name: per-client, key: client, limit: 10/min }
  - { name: per-path, key: [client, path], limit: 30/min, cost: 3 }
  - { name: everybody, limit: 24/h, algorithm: sliding-log }
";

#[test]
fn a_request_passes_all_limits_or_is_charged_to_none() {
    let (gate, _clock) = gate(TWO);
    assert_eq!(left(&gate.decide(&to("GET /export", "ada"))), [5, 27, 19]);
    assert_eq!(left(&gate.decide(&to("GET /", "ada"))), [4, 27, 18]);
    let refused = gate.decide(&to("GET /export", "ada"));
    assert!(matches!(refused.verdict(), Verdict::Deny { .. }));
    let violated: Vec<&str> = refused.violated().map(|answer| answer.rule).collect();
    assert_eq!((violated, refused.reason()), (vec!["per-client"], Reason::Judged));
    assert_eq!(looks(&gate, &to("GET /", "ada")), [4, 27, 18], "a refusal is free");
    assert_eq!(looks(&gate, &to("GET /export", "bob")), [10, 30, 18]);
}

/// How often a limit would let the request pass again says how close it is, not how many cells it
/// has: they are bytes under one and requests under another.
#[test]
fn the_closest_limit_is_the_one_that_lets_the_fewest_requests_pass() {
    let (gate, _clock) = gate(
        "rules:
          - { name: bytes, limit: 10kB/h, cost: 1000 }
          - { name: requests, limit: 100/h }
          - { name: hidden, limit: 11/h, headers: false }",
    );
    let request = Sample::new("GET /");
    for left in (1..10).rev() {
        let admission = gate.decide(&request);
        assert_eq!(
            (admission.decision().limit, admission.decision().remaining),
            (10_000, left * 1_000)
        );
        let mut told = Vec::new();
        admission.fields(|field, value| told.push((field, value.to_owned())));
        assert!(told.contains(&(Field::XRemaining, (left * 1_000).to_string())), "{told:?}");
    }
}

/// That one of them holds the request back says nothing of how close it is.
#[test]
fn a_queue_that_has_room_is_not_the_closest_limit() {
    let (gate, _clock) = gate(
        "rules:
          - { name: queue, limit: 1/s, burst: 50, algorithm: leaky-queue }
          - { name: few, limit: 2/h }",
    );
    let request = Sample::new("GET /");
    let _first = gate.decide(&request);
    let delayed = gate.decide(&request);
    assert_eq!(delayed.verdict(), Verdict::Delay { by: Span::from_secs(1) });
    assert_eq!((delayed.decision().limit, delayed.decision().remaining), (2, 0));
    assert_eq!(delayed.decision().verdict, delayed.verdict());
    let refused = gate.decide(&request);
    assert_eq!((refused.decision().limit, refused.decision().verdict), (2, refused.verdict()));
}

/// A quota in units of more than a byte is not told as one of bytes.
#[test]
fn units_of_many_bytes_are_told_by_their_name() {
    for (unit, listed) in [
        ("B", r#""up";q=10000000;w=60;qu="content-bytes""#),
        ("kB", r#""up";q=10000;w=60;qu="kB""#),
        ("MB", r#""up";q=10;w=60;qu="MB""#),
    ] {
        let cost = "cost: { from: content-length }";
        let (gate, _clock) =
            gate(&format!("rules: [{{ name: up, limit: 10MB/min, unit: {unit}, {cost} }}]"));
        let mut told = Vec::new();
        gate.decide(&Sample::new("GET /")).fields(|field, value| {
            told.push((field, value.to_owned()));
        });
        assert!(told.contains(&(Field::RateLimitPolicy, listed.to_owned())), "{told:?}");
    }
}

#[test]
fn what_is_hidden_is_not_named_in_a_refusal() {
    let (gate, _clock) = gate(
        "rules:
          - { name: shown, limit: 1/h }
          - { name: hidden, limit: 1/h, headers: false }",
    );
    let request = Sample::new("GET /");
    assert!(passes(&gate, &request));
    let refused = gate.decide(&request);
    assert_eq!(refused.violated().count(), 2);
    let problem = refused.problem();
    assert!(problem.contains(r#""violated-policies":["shown"]"#), "{problem}");
}

#[test]
fn whoever_refuses_for_longest_says_when_to_come_back() {
    let (gate, clock) = gate(
        "rules:
          - { name: second, limit: 1/s }
          - { name: hour, limit: 1/h }
          - { name: minute, limit: 1/min }
          - { name: roomy, limit: 100/day }",
    );
    let request = Sample::new("GET /");
    assert!(passes(&gate, &request));
    let refused = gate.decide(&request);
    assert_eq!(retry_after(&refused), Some(Span::from_secs(3_600)));
    let violated: Vec<&str> = refused.violated().map(|answer| answer.rule).collect();
    assert_eq!(violated, ["second", "hour", "minute"]);
    assert_eq!((refused.decision().limit, refused.decision().remaining), (1, 0));
    // Exactly then, and not a tick sooner.
    clock.advance(Span::from_micros(3_600_000_000 - 1));
    assert_eq!(retry_after(&gate.decide(&request)), Some(Span::from_micros(1)));
    clock.advance(Span::from_micros(1));
    assert!(passes(&gate, &request));
}

#[test]
fn what_can_never_pass_is_never_told_to_wait() {
    let (gate, _clock) = gate("rules: [{ name: r, limit: 5/s, cost: { from: header:x-cost } }]");
    let of = |cost: &str| Sample::new("GET /").with_header("x-cost", cost);
    assert_eq!(gate.decide(&of("6")).verdict(), Verdict::Never);
    assert_eq!(gate.decide(&of("99999999999999")).verdict(), Verdict::Never);
    assert_eq!(left(&gate.decide(&of("5"))), [0]);
}

#[test]
fn shadow_rules_are_judged_and_counted_and_never_refuse() {
    let (gate, _clock) = gate(
        "rules:
          - { name: tried, limit: 2/min, shadow: true }
          - { name: real, limit: 4/min }",
    );
    let request = Sample::new("GET /");
    for expected in [[3, 1], [2, 0], [1, 0], [0, 0]] {
        let admission = gate.decide(&request);
        assert!(admission.verdict().passes());
        assert_eq!(admission.violated().count(), 0);
        assert_eq!(left(&admission), expected);
    }
    assert_eq!((counts(&gate, "tried"), counts(&gate, "real")), ((2, 0, 2), (4, 0, 0)));
    let refused = gate.decide(&request);
    assert!(!refused.verdict().passes());
    let violated: Vec<&str> = refused.violated().map(|answer| answer.rule).collect();
    assert_eq!(violated, ["real"]);
}

#[test]
fn a_refusal_is_free_under_shadow_rules_too() {
    let (gate, clock) = gate(
        "rules:
          - { name: tried, limit: 10/day, shadow: true }
          - { name: real, limit: 1/s }",
    );
    let request = Sample::new("GET /");
    assert_eq!(left(&gate.decide(&request)), [0, 9]);
    for _ in 0..5 {
        assert_eq!(left(&gate.decide(&request)), [0, 9]);
    }
    clock.advance(Span::from_secs(1));
    assert_eq!(left(&gate.decide(&request)), [0, 8]);
}

#[test]
fn a_rule_is_enforced_for_a_tenth_of_the_keys_and_always_the_same() {
    let (gate, _clock) = gate(
        "{ identify: { client: [header:x-api-key] },
           rules: [{ name: r, key: client, limit: 1/day, enforce: 10% }] }",
    );
    let refused = || -> Vec<usize> {
        let keys = 0..4_000_usize;
        keys.filter(|id| !passes(&gate, &by(&format!("client-{id}")))).collect()
    };
    assert_eq!(refused(), [] as [usize; 0]);
    let tenth = refused();
    assert!((320..=480).contains(&tenth.len()), "{} of 4,000", tenth.len());
    assert_eq!(refused(), tenth);
    let (_, denied, shadow) = counts(&gate, "r");
    assert_eq!(denied, 2 * tenth.len() as u64);
    assert_eq!(denied + shadow, 8_000);
}

#[test]
fn rules_that_end_the_list() {
    let (gate, _clock) = gate(
        "
tiers: { header: x-tier, default: free }
rules:
  - { name: first, limit: 3/day }
  - { name: health, match: { path: /health }, unlimited: true }
  - { name: bots, match: { header: { user-agent: '*bot*' } }, block: true }
  - { name: login, match: { path: /login }, limit: 2/day, last: true }
  - { name: urgent, match: { path: /urgent }, limit: 1/day, priority: 9, last: true }
  - { name: tiered, limit: { free: 1/day, paid: unlimited, banned: block } }
  - { name: bottom, limit: 2/day }
",
    );
    let health = gate.decide(&Sample::new("GET /health"));
    assert_eq!((health.reason(), health.stopped_by()), (Reason::Unlimited, Some("health")));
    assert_eq!(left(&health), [2]);
    let bot = gate.decide(&Sample::new("GET /").with_header("user-agent", "a bot"));
    assert_eq!((bot.verdict(), bot.status()), (Verdict::Never, 403));
    assert_eq!((bot.reason(), bot.stopped_by()), (Reason::Blocked, Some("bots")));
    assert_eq!(looks(&gate, &Sample::new("GET /health")), [2], "what is blocked costs nothing");
    // The last of a list, and one that goes before all others.
    assert_eq!(left(&gate.decide(&Sample::new("GET /login"))), [1, 1]);
    assert_eq!(left(&gate.decide(&Sample::new("GET /urgent"))), [0]);
    let tier = |name: &str| Sample::new("GET /").with_header("x-tier", name);
    assert_eq!(looks(&gate, &tier("free")), [1, 1, 2]);
    assert_eq!(looks(&gate, &tier("nonsense")), [1, 1, 2]);
    assert_eq!(looks(&gate, &tier("paid")), [1, 2], "no limit there, but those below count");
    let banned = gate.decide(&tier("banned"));
    assert_eq!((banned.reason(), banned.stopped_by()), (Reason::Blocked, Some("tiered")));
    assert_eq!(counts(&gate, "bots"), (0, 1, 0));
}

/// What lets pass what is below has not refused what is above.
#[test]
fn a_limit_above_an_unlimited_rule_refuses_by_itself() {
    let (gate, _clock) = gate(
        "rules:
          - { name: first, limit: 1/day }
          - { name: health, match: { path: /health }, unlimited: true }",
    );
    let request = Sample::new("GET /health");
    assert!(passes(&gate, &request));
    let refused = gate.decide(&request);
    assert!(matches!(refused.verdict(), Verdict::Deny { .. }));
    assert_eq!((refused.reason(), refused.stopped_by()), (Reason::Judged, None));
    assert_eq!(counts(&gate, "health"), (1, 0, 0));
    assert_eq!(counts(&gate, "first"), (1, 1, 0));
}

#[test]
fn single_keys_have_quotas_of_their_own() {
    let (gate, _clock) = gate(
        "
identify: { client: [header:x-api-key, ip], pair: [header:x-api-key] }
rules:
  - name: r
    key: client
    limit: 1/day
    overrides: { acme: 3/day, '192.0.2.7': 2/day, evil: block, friend: unlimited }
  - name: both
    match: { path: /both }
    key: [pair, path]
    limit: 1/day
    overrides: [{ key: [acme, /both], limit: 2/day }]
",
    );
    for (request, most) in [(by("acme"), 3), (by("other"), 1), (by("evil"), 0), (by("friend"), 9)] {
        assert_eq!(passed(&gate, &request, 9), most);
    }
    assert_eq!(passed(&gate, &at("192.0.2.7"), 9), 2);
    assert_eq!(passed(&gate, &at("192.0.2.8"), 9), 1);
    assert_eq!(gate.decide(&by("evil")).reason(), Reason::Blocked);
    assert_eq!(passed(&gate, &to("GET /both", "friend"), 9), 1);
    let acme = gate.decide(&by("acme"));
    assert_eq!(acme.each().next().unwrap().variant, "=acme");
}

#[test]
fn requests_without_a_key_count_together_or_not_at_all() {
    let policy = |missing: &str| {
        format!("rules: [{{ name: r, key: header:x-api-key, limit: 2/day{missing} }}]")
    };
    for (missing, most) in [("", 2), (", if_missing: together", 2), (", if_missing: skip", 9)] {
        let (gate, _clock) = gate(&policy(missing));
        assert_eq!(passed(&gate, &Sample::new("GET /"), 9), most, "{missing}");
        assert_eq!(passed(&gate, &by("(missing)"), 9), 2, "{missing}");
    }
}

/// No rule counts for a tier that it does not name: the default's quota does.
#[test]
fn a_tier_that_a_rule_does_not_name_is_the_default() {
    let (gate, _clock) = gate(
        "
tiers: { header: x-tier, default: free, names: [free, pro, gold] }
rules: [{ name: r, limit: { free: 1/day, gold: 3/day } }]
",
    );
    let tier = |name: &str| Sample::new("GET /").with_header("x-tier", name);
    assert_eq!(passed(&gate, &tier("gold"), 9), 3);
    assert_eq!(passed(&gate, &tier("pro"), 9), 1);
    assert_eq!(passed(&gate, &tier("free"), 9), 0);
}

#[test]
fn more_limits_than_can_be_judged_together_never_pass() {
    let rule =
        |id: usize| format!("  - {{ name: r{id}, match: {{ method: GET }}, limit: 9/day }}\n");
    let of = |rules: usize| {
        let list: String = (0..rules).map(rule).collect();
        gate(&format!("rules:\n{list}")).0
    };
    let request = Sample::new("GET /");
    assert_eq!(left(&of(16).decide(&request)), [8; 16]);
    let gate = of(17);
    let refused = gate.decide(&request);
    assert_eq!((refused.verdict(), refused.reason()), (Verdict::Never, Reason::TooManyLimits));
    assert!(refused.problem().contains("more limits are for this request"));
    assert_eq!(gate.keys(), 0);
}

#[test]
fn permits_come_back_when_an_admission_is_dropped() {
    let (gate, _clock) = gate(
        "rules:
          - { name: flights, limit: 2 in flight, algorithm: concurrency }
          - { name: tried, limit: 1 in flight, algorithm: concurrency, shadow: true }
          - { name: starts, limit: 9/day }",
    );
    let request = Sample::new("GET /");
    let (one, two) = (gate.decide(&request), gate.decide(&request));
    assert_eq!((left(&one), left(&two)), (vec![1, 8, 0], vec![0, 7, 0]));
    let refused = gate.decide(&request);
    assert!(!refused.verdict().passes());
    drop(refused);
    assert!(!passes(&gate, &request), "who was refused holds nothing");
    drop(one);
    becomes(&gate, || room(&gate, &request), [1, 7, 1]);
    let third = gate.decide(&request);
    assert_eq!(left(&third), [0, 6, 0]);
    drop((two, third));
    becomes(&gate, || room(&gate, &request), [2, 6, 1]);
    assert_eq!(left(&gate.decide(&request)), [1, 5, 0]);
}

#[test]
fn clones_are_the_same_gate_and_async_is_the_same_decision() {
    let (gate, _clock) = gate("rules: [{ name: r, limit: 2/day }]");
    let clone = Gate::clone(&gate);
    assert_eq!(left(&done(clone.admit(&Sample::new("GET /")))), [1]);
    assert_eq!(left(&gate.decide(&Sample::new("GET /"))), [0]);
}

/// A log line with one of them does not hold the policy.
#[test]
fn gates_and_admissions_are_shown_on_one_line() {
    let mut policy = "name: shop\nrules:".to_owned();
    for number in 0..3_000 {
        let _ =
            write!(policy, "\n  - {{ name: r{number}, match: {{ path: /{number} }}, limit: 9/s }}");
    }
    let (gate, _clock) = gate(&policy);
    assert_eq!(
        format!("{:?}", *gate),
        r#"Gate { policy: Policy { name: Some("shop"), rules: 3000, .. }, .. }"#
    );
    let shown = format!("{:?}", gate.decide(&to("GET /7", "ada")));
    assert!(shown.len() < 2_000 && !shown.contains('\n'), "{shown}");
}

/// A program that returns an error from `main` prints it by `Debug`.
#[test]
fn an_error_of_a_policy_reads_well_where_main_returns_it() {
    let error = Gate::from_text("rules: [{ name: a, limit: 5/fortnight }]").unwrap_err();
    let shown = format!("{error:?}");
    assert_eq!(shown, error.to_string());
    assert!(shown.contains("policy.yaml") && shown.contains("fortnight"), "{shown}");
}
