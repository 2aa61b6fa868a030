//! What only the store in this process keeps when the policy changes: the most of several tiers,
//! what a rule had that was away; and what it does where little room is left.

use tidegate_core::{Policy, Quota, Span};
use tidegate_gate::{Gate, Sample};
use tidegate_store::MemoryStore;

use crate::stand::{clock, gate, looks, passed, replace, rules};

fn request() -> Sample {
    Sample::new("GET /")
}

fn limit(text: &str) -> String {
    format!("rules: [{{ name: r, limit: {text} }}]")
}

#[test]
fn a_policy_that_there_is_no_room_for_changes_nothing() {
    let store = MemoryStore::new();
    let other = Policy::token_bucket(Quota::per_day(1)).unwrap();
    let _others: Vec<_> = (0..65_520).map(|_| store.rule(other).unwrap()).collect();
    let policy = |rules: usize, cells: u32| {
        let rule = |number| format!("{{ name: r{number}, limit: {cells}/day }}");
        format!("rules: [{}]", (0..rules).map(rule).collect::<Vec<_>>().join(", "))
    };
    let builder = Gate::builder().rules(rules(&policy(8, 10))).memory(store);
    let gate = builder.clock(clock()).open().unwrap();
    assert_eq!(passed(&gate, &request(), 4), 4);
    let refused = gate.replace(rules(&policy(16, 99))).unwrap_err().to_string();
    assert!(refused.contains("at most 65,535 rules"), "{refused}");
    assert_eq!(looks(&gate, &request()), [6; 8]);
    // As often as there is room.
    for cells in 20..60 {
        replace(&gate, &policy(14, cells));
        assert_eq!(looks(&gate, &request())[..8], [cells - 4; 8]);
    }
}

#[test]
fn a_tier_more_or_less_changes_nothing_for_the_others() {
    let policy = |limits: &str| {
        format!(
            "tiers: {{ header: x-tier, default: free }}\n\
             rules: [{{ name: r, limit: {limits} }}]"
        )
    };
    let (gate, _clock) = gate(&policy("10/day"));
    assert_eq!(passed(&gate, &request(), 4), 4);
    let tier = |name: &str| request().with_header("x-tier", name);
    // From one limit for all to one for each tier: the default's goes on.
    replace(&gate, &policy("{ free: 10/day, pro: 50/day }"));
    assert_eq!(looks(&gate, &request()), [6]);
    assert_eq!(passed(&gate, &tier("pro"), 3), 3);
    replace(&gate, &policy("{ gold: 100/day, pro: 60/day, free: 10/day }"));
    // Those who are of a new tier had the default's.
    assert_eq!(looks(&gate, &tier("pro")), [53]);
    assert_eq!(looks(&gate, &tier("free")), [6]);
    assert_eq!(looks(&gate, &tier("gold")), [96]);
    // From one for each to one for all: the most that was consumed counts.
    replace(&gate, &policy("11/day"));
    assert_eq!(looks(&gate, &request()), [4]);
    // Another default: the old one goes on as what it is.
    replace(&gate, &policy("{ free: 12/day, pro: 60/day }"));
    let policy =
        policy("{ free: 13/day, basic: 30/day }").replace("default: free", "default: basic");
    replace(&gate, &policy);
    assert_eq!(looks(&gate, &tier("free")), [6]);
    assert_eq!(looks(&gate, &request()), [23]);
}

#[test]
fn a_rule_that_is_away_for_a_moment_does_not_begin_afresh() {
    let away = [
        "{ name: other, limit: 9/h }",
        "{ name: r, match: { path: / }, block: true }",
        "{ name: r, limit: unlimited }",
    ];
    for away in away {
        let (gate, clock) = gate(&limit("10/h"));
        assert_eq!(passed(&gate, &request(), 7), 7);
        replace(&gate, &format!("rules: [{away}]"));
        replace(&gate, &limit("12/h"));
        assert_eq!(looks(&gate, &request()), [5], "{away}");
        replace(&gate, &format!("rules: [{away}]"));
        clock.advance(Span::from_secs(1_800));
        replace(&gate, &format!("rules: [{away}, {{ name: more, limit: 9/h }}]"));
        replace(&gate, &limit("12/h"));
        assert_eq!(looks(&gate, &request()), [11], "{away}: half an hour pays six");
    }
}
