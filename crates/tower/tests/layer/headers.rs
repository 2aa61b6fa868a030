//! Responses that clients see, to the byte.

use crate::support::{Hello, call, from, header, limited, request, status, told, with};
use tidegate_core::Span;
use tidegate_gate::Rules;
use tidegate_tower::TidegateService;

/// Two limits: the second is the one that speaks for both.
const TWO: &str = "
rules:
  - { name: per-client, key: ip, limit: 100/min }
  - { name: daily, key: ip, algorithm: fixed-window, limit: 3/day }
";

#[track_caller]
fn check(dialect: &str, expected: &str) {
    let (mut service, _, _) = limited(&format!("headers: {dialect}\n{TWO}"));
    let response = call(&mut service, request("/"));
    assert_eq!(told(&response), expected.trim_start(), "{dialect}");
}

/// The draft's fields of the first request. It is noon, less a minute, in UTC.
const DRAFT: &str = r#"
ratelimit-policy: "per-client";q=100;w=60, "daily";q=3;w=86400
ratelimit: "per-client";r=99;t=1, "daily";r=2;t=43260
"#;

const LEGACY: &str = "
x-ratelimit-limit: 3
x-ratelimit-remaining: 2
x-ratelimit-reset: 1721088000
";

#[test]
fn every_dialect_is_told_as_it_is_written() {
    check("draft", DRAFT);
    check("legacy", LEGACY);
    check("both", &format!("{}{}", DRAFT.trim_start(), LEGACY.trim_start()));
    check(
        "github",
        "
x-ratelimit-limit: 3
x-ratelimit-remaining: 2
x-ratelimit-reset: 1721088000
x-ratelimit-resource: daily
x-ratelimit-used: 1
",
    );
    check(
        "envoy",
        r#"
x-ratelimit-limit: 3, 100;w=60;name="per-client", 3;w=86400;name="daily"
x-ratelimit-remaining: 2
x-ratelimit-reset: 43260
"#,
    );
    check("none", "");
}

#[test]
fn both_is_what_a_file_means_that_says_nothing() {
    let (mut service, _, _) = limited(TWO);
    let response = call(&mut service, request("/"));
    let expected = format!("{}{}", DRAFT.trim_start(), LEGACY.trim_start());
    assert_eq!(told(&response), expected);
}

#[test]
fn a_refusal_says_when_to_come_back() {
    let (mut service, _, clock) = limited("rules: [{ name: per-client, key: ip, limit: 2/min }]");
    for _ in 0..2 {
        assert_eq!(status(&mut service, request("/")), 200);
    }
    clock.advance(Span::from_millis(29_001));
    let response = call(&mut service, request("/"));
    assert_eq!(response.status(), 429);
    let expected = r#"
ratelimit-policy: "per-client";q=2;w=60
ratelimit: "per-client";r=0;t=31
retry-after: 1
x-ratelimit-limit: 2
x-ratelimit-remaining: 0
x-ratelimit-reset: 1721044800
"#;
    assert_eq!(told(&response), expected.trim_start());
}

/// How long `Retry-After` asks clients to wait, `early` before a request would pass.
#[track_caller]
fn retry_after(early: Span) -> String {
    let (mut service, _, clock) = limited("rules: [{ name: slow, key: ip, limit: 1/10s }]");
    assert_eq!(status(&mut service, request("/")), 200);
    clock.advance(Span::from_micros(10_000_000 - early.get()));
    let response = call(&mut service, request("/"));
    header(&response, "retry-after").expect("it is refused").to_owned()
}

#[test]
fn retry_after_rounds_up_and_is_never_zero() {
    let waits = [(10_000_000, "10"), (9_000_001, "10"), (9_000_000, "9"), (1_000_001, "2")];
    for (early, said) in waits.into_iter().chain([(1_000_000, "1"), (500_000, "1"), (1, "1")]) {
        assert_eq!(retry_after(Span::from_micros(early)), said, "{early}");
    }
}

#[test]
fn a_client_that_waits_as_told_passes() {
    let (mut service, _, clock) = limited("rules: [{ name: slow, key: ip, limit: 7/13s }]");
    for step in 0..200 {
        let response = call(&mut service, request("/"));
        if response.status() == 429 {
            let wait = header(&response, "retry-after").unwrap().parse().unwrap();
            clock.advance(Span::from_secs(wait));
            assert_eq!(status(&mut service, request("/")), 200, "{step}");
        }
        clock.advance(Span::from_micros(777_777));
    }
}

#[test]
fn a_refusal_that_waiting_does_not_help_says_no_time() {
    let policy = "
costs: [{ path: /huge, cost: 11 }]
rules: [{ name: ten, key: ip, limit: 10/min }]
";
    let (mut service, hello, _) = limited(policy);
    let response = call(&mut service, request("/huge"));
    assert_eq!(response.status(), 429);
    assert_eq!(header(&response, "retry-after"), None);
    assert_eq!(hello.calls(), 0);
    assert_eq!(status(&mut service, request("/small")), 200);
}

#[test]
fn nothing_is_said_where_no_limit_is_for_a_request() {
    let (mut service, _, _) =
        limited("rules: [{ name: a, match: { path: /a }, key: ip, limit: 1/min }]");
    assert_eq!(told(&call(&mut service, request("/b"))), "");
    assert_ne!(told(&call(&mut service, request("/a"))), "");
}

#[test]
fn a_hidden_rule_refuses_without_a_word() {
    let (mut service, _, _) =
        limited("rules: [{ name: secret, key: ip, limit: 1/min, headers: false }]");
    assert_eq!(told(&call(&mut service, request("/"))), "");
    let refused = call(&mut service, request("/"));
    assert_eq!((refused.status().as_u16(), &*told(&refused)), (429, "retry-after: 60\n"));
}

#[test]
fn each_client_is_told_of_its_own() {
    let (mut service, _, _) = limited("rules: [{ name: per-client, key: ip, limit: 5/min }]");
    for (peer, left) in [("192.0.2.1", "4"), ("192.0.2.2", "4"), ("192.0.2.1", "3")] {
        let response = call(&mut service, from(peer, "/"));
        assert_eq!(header(&response, "x-ratelimit-remaining"), Some(left), "{peer}");
    }
}

/// A field of the answer to a request.
fn field(service: &mut TidegateService<Hello>, line: &str, name: &str) -> String {
    header(&call(service, request(line)), name).expect("the field").to_owned()
}

fn quotas(service: &mut TidegateService<Hello>, line: &str) -> String {
    field(service, line, "ratelimit-policy")
}

/// What was written for another is not sent again.
#[test]
fn quotas_are_those_of_the_request_whoever_asked_before() {
    const MANY: &str = "
rules:
  - { name: all, key: ip, limit: 100/min }
  - { name: paid, match: { path: /paid }, key: ip, limit: { free: 1/s, pro: 7/s } }
tiers: { header: x-tier, default: free }
";
    let (mut one, _, _) = limited("rules: [{ name: one, key: ip, limit: 100/min }]");
    let (mut many, _, _) = limited(MANY);
    let paid = r#""all";q=100;w=60, "paid";q=1;w=1"#;
    for _ in 0..2 {
        assert_eq!(quotas(&mut one, "/paid"), r#""one";q=100;w=60"#);
        assert_eq!(quotas(&mut many, "/"), r#""all";q=100;w=60"#);
        assert_eq!(quotas(&mut many, "/paid"), paid);
        let pro = call(&mut many, with(request("/paid"), "x-tier", b"pro"));
        assert_eq!(header(&pro, "ratelimit-policy"), Some(&*paid.replace("q=1;", "q=7;")));
        assert_eq!(header(&pro, "x-ratelimit-limit"), Some("7"));
        assert_eq!(field(&mut one, "/", "x-ratelimit-limit"), "100");
    }
}

#[test]
fn quotas_change_with_the_policy() {
    let (mut service, _, clock) = limited("rules: [{ name: all, limit: 5/min }]");
    assert_eq!(quotas(&mut service, "/"), r#""all";q=5;w=60"#);
    let rules = Rules::from_text("rules: [{ name: all, limit: 9/min }]").unwrap().rules;
    service.gate().replace(rules).unwrap();
    assert_eq!(quotas(&mut service, "/"), r#""all";q=9;w=60"#);
    let reset = field(&mut service, "/", "x-ratelimit-reset");
    clock.advance(Span::from_secs(2));
    assert_ne!(field(&mut service, "/", "x-ratelimit-reset"), reset, "time has passed");
}
