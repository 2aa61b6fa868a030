//! Tests of tests: those that hold, and what is said of those that do not.

use tidegate_config::{Format, Suite};

use super::*;

/// Runs these steps against a policy, and compares what is said with `wanted`.
#[track_caller]
fn check(rules: &str, steps: &str, wanted: &[&str]) {
    let text = format!("tests: [{{ name: a, send: GET /, from: 192.0.2.1, steps: [{steps}] }}]");
    let suite = Suite::from_bytes("a", text.as_bytes(), Format::Yaml);
    let suite = suite.unwrap_or_else(|report| panic!("{report}"));
    let loaded = Rules::from_text(&format!("rules: [{rules}]"));
    let rules = loaded.unwrap_or_else(|report| panic!("{report}")).rules;
    let unmet = Tryout::new(rules).run(&suite.tests()[0]).unwrap();
    let said: Vec<String> =
        unmet.iter().map(|unmet| format!("{} ({})", unmet.message, unmet.when)).collect();
    assert_eq!(said, wanted, "{steps}");
}

const CLIENT: &str = "{ name: per-client, key: ip, limit: 2/s }";

#[test]
fn retries_are_exact() {
    let deny = "{ times: 2, expect: allow, remaining: 0 }, { expect: deny, retry_after: 500ms }";
    check(CLIENT, &format!("{deny}, {{ wait: 500ms, expect: allow }}"), &[]);
    let soon = ["expected `allow`, but it was `deny` by `per-client`, retry after 1us \
                 (499999us after the start)"];
    check(CLIENT, &format!("{deny}, {{ at: 499999us, expect: allow }}"), &soon);
}

#[test]
fn the_first_step_that_fails_ends_the_test() {
    let steps = "{ times: 5, every: 100ms, expect: allow }, { expect: deny }";
    let said = ["expected `allow`, but it was `deny` by `per-client`, retry after 300ms \
                 (request 3 of 5, 200ms after the start)"];
    check(CLIENT, steps, &said);
    let said = ["expected `deny`, but it was `allow`, 1 remaining (at the start)"];
    check(CLIENT, "{ expect: deny }", &said);
}

#[test]
fn all_that_is_wrong_with_a_step_is_said() {
    let other = "{ name: shy, limit: 1/s, shadow: true }";
    let steps = "{ times: 2, expect: allow, remaining: 1, cost: 2, rules: shy, shadow: none }";
    let said = [
        "`remaining` is 0, not 1",
        "`cost` is 1 under `per-client`, not 2",
        "`rules` is `per-client`, `shy`, not `shy`",
        "`shadow` is `shy`, not none",
    ];
    let said = said.map(|said| format!("{said} (request 2 of 2, at the start)"));
    check(&format!("{CLIENT}, {other}"), steps, &said.each_ref().map(|said| &**said));
    let steps = "{ times: 2, expect: allow }, { expect: deny, by: shy, retry_after: 1s }";
    let said = ["`by` is `per-client`, not `shy` (at the start)"];
    let also = "`retry_after` is 500ms, not 1s (at the start)";
    check(&format!("{CLIENT}, {other}"), steps, &[said[0], also]);
}

#[test]
fn numbers_can_be_those_of_one_rule() {
    let rules = format!("{CLIENT}, {{ name: big, limit: 100/s, cost: 7 }}");
    let steps = "{ expect: allow, remaining: { per-client: 1, big: 93 }, cost: { big: 7 } }";
    check(&rules, steps, &[]);
    let steps = "{ expect: allow, remaining: { big: 9 }, cost: { per-client: 7 } }";
    let said = ["`remaining` is 93 under `big`, not 9 (at the start)"];
    let also = "`cost` is 1 under `per-client`, not 7 (at the start)";
    check(&rules, steps, &[said[0], also]);
    let nobody = "{ name: posts, match: { method: POST }, limit: 1/s }";
    check(
        nobody,
        "{ expect: allow, rules: none, remaining: 5, cost: { posts: 1 } }",
        &["no rule counts it (at the start)", "`posts` does not count it (at the start)"],
    );
}

/// Of a rule with credits clients see two limits, and a test may name either, or the rule.
#[test]
fn both_limits_of_a_rule_with_credits_have_names() {
    let rule = "{ name: bursty, limit: 10/s, credits: { for: 30s, rate: 10x } }";
    let spent = "{ times: 10, expect: allow, remaining: { bursty: 0, bursty-peak: 0 } }";
    for by in ["bursty", "bursty-peak"] {
        let steps = format!("{spent}, {{ expect: deny, by: {by}, rules: [bursty, {by}] }}");
        check(rule, &steps, &[]);
    }
    let steps = format!("{spent}, {{ expect: deny, by: other }}");
    check(rule, &steps, &["`by` is `bursty-peak`, not `other` (at the start)"]);
    check(
        rule,
        "{ expect: allow, rules: bursty-peak }",
        &["`rules` is `bursty`, `bursty-peak`, not `bursty-peak` (at the start)"],
    );
    let steps = "{ expect: allow, remaining: { bursty-peak: 5 }, cost: { bursty-peak: 1 } }";
    check(rule, steps, &["`remaining` is 9 under `bursty-peak`, not 5 (at the start)"]);
}

#[test]
fn what_is_under_way_ends_when_it_ends() {
    let rule = "{ name: slots, algorithm: concurrency, limit: 2 in flight }";
    check(rule, "{ times: 9, expect: allow, remaining: 1 }", &[]);
    let steps = "{ expect: allow, takes: 5s }, { wait: 1s, expect: allow, takes: 5s }, \
                 { at: 4999ms, expect: deny, by: slots }, { at: 5s, expect: allow, takes: 1s }, \
                 { expect: deny }, { at: 6s, expect: allow, remaining: 1 }";
    check(rule, steps, &[]);
}

#[test]
fn queues_hold_back() {
    let rule = "{ name: queue, algorithm: leaky-queue, limit: 10/s, burst: 3 }";
    check(rule, "{ expect: allow }, { times: 2, expect: delay, delay: 200ms }", &[]);
    let said = ["expected `allow`, but it was `delay` by 100ms, 1 remaining \
                 (request 2 of 3, at the start)"];
    check(rule, "{ times: 3, expect: allow }", &said);
    check(
        rule,
        "{ expect: allow }, { expect: delay, delay: 1s }",
        &["`delay` is 100ms, not 1s (at the start)"],
    );
}

#[test]
fn a_response_settles_when_it_comes() {
    let rule = "{ name: logins, key: ip, algorithm: sliding-log, limit: 2/min, \
                counts_when: { status: 401 } }";
    let good = "{ times: 9, expect: allow, respond: { status: 200 }, remaining: 2, cost: 0 }";
    let bad = "{ times: 2, expect: allow, respond: { status: 401 }, remaining: 0, cost: 1 }";
    check(rule, &format!("{good}, {bad}, {{ expect: deny, by: logins }}"), &[]);
    let slow = "{ times: 2, expect: allow, takes: 5s, respond: { status: 200 }, remaining: 0 }, \
                { at: 4s, expect: deny }, { at: 5s, expect: allow, remaining: 1 }";
    check(rule, slow, &[]);
}

#[test]
fn blocks_and_costs_beyond_the_limit_are_told_apart() {
    check("{ name: no, block: true }", "{ expect: block, by: no, rules: no }", &[]);
    check(&CLIENT.replace("limit", "cost: 3, limit"), "{ expect: never, by: per-client }", &[]);
    let said = ["expected `never`, but it was `block` by `no` (at the start)"];
    check("{ name: no, block: true }", "{ expect: never }", &said);
}
