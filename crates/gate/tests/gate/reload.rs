//! Another policy while keys are live: what was consumed is kept, nothing is dropped.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate_core::{Policy, Quota, Span};
use tidegate_gate::{Gate, Reloaded, Sample};
use tidegate_store::MemoryStore;

use crate::stand::{Folder, by, clock, gate, looks, passed, passes, replace, rules};

fn request() -> Sample {
    Sample::new("GET /")
}

fn limit(text: &str) -> String {
    format!("rules: [{{ name: r, limit: {text} }}]")
}

/// A tier is a limit of its own: one more or less changes nothing for the others.
#[test]
fn a_tier_begins_anew_and_the_others_go_on() {
    let policy = |limits: &str| {
        format!(
            "tiers: {{ header: x-tier, default: free }}\n\
             rules: [{{ name: r, limit: {limits} }}]"
        )
    };
    let (gate, _clock) = gate(&policy("10/day"));
    assert_eq!(passed(&gate, &request(), 4), 4);
    let tier = |name: &str| request().with_header("x-tier", name);
    // From one limit for all to one for each tier.
    replace(&gate, &policy("{ free: 10/day, pro: 50/day }"));
    assert_eq!(looks(&gate, &request()), [10]);
    assert_eq!(passed(&gate, &tier("pro"), 3), 3);
    replace(&gate, &policy("{ gold: 100/day, pro: 60/day, free: 10/day }"));
    assert_eq!(looks(&gate, &tier("pro")), [57]);
    assert_eq!(looks(&gate, &tier("gold")), [100]);
    // From one for each to one for all: what was consumed under that is not forgotten.
    replace(&gate, &policy("11/day"));
    assert_eq!(looks(&gate, &request()), [7]);
    // And there again: however often, nobody has more than once what each of them gives.
    replace(&gate, &policy("{ free: 12/day, pro: 60/day }"));
    assert_eq!(looks(&gate, &tier("pro")), [57]);
    // Another default: the old one goes on as what it is.
    let policy = policy("{ free: 13/day, pro: 30/day }").replace("default: free", "default: pro");
    replace(&gate, &policy);
    assert_eq!(looks(&gate, &tier("pro")), [27]);
    assert_eq!(looks(&gate, &request()), [27]);
}

/// The answer to the reload says so.
#[test]
fn a_reload_says_under_which_rules_keys_begin_anew() {
    let folder = Folder::new();
    let write = |limits: &str| {
        folder.write(
            "policy.yaml",
            &format!(
                "tiers: {{ header: x-tier, default: free, names: [free, pro, gold] }}\n\
                 identify: {{ client: [header:x-api-key] }}\n\
                 allow: [unverified-key, unverified-tier]\n\
                 rules: [{{ name: r, key: client, {limits} }}]"
            ),
        )
    };
    let gate = Gate::from_file(write("limit: 10/h")).unwrap();
    let tiers = "limit: { free: 10/h, pro: 20/h }";
    for (limits, expected) in [
        ("limit: 12/h", ""),
        ("limit: 12/h, overrides: { ada: 20/h }", ""),
        ("limit: 12/h", ""),
        (tiers, "note: keys begin anew under the rule `r` in the tier `free`, `pro`\n"),
        (
            "limit: { free: 10/h, pro: 20/h, gold: 30/h }",
            "note: keys begin anew under the rule `r` in the tier `gold`\n",
        ),
        (tiers, ""),
        // What it was a moment ago is not forgotten.
        ("limit: 12/h", ""),
        (tiers, ""),
        ("limit: { free: 10/h, pro: 20/h }, overrides: { bob: 20/h }", ""),
    ] {
        let Reloaded::Done { warnings } = gate.reload(write(limits)) else { panic!("{limits}") };
        assert_eq!(warnings, expected, "{limits}");
    }
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

/// Requests that are judged by the policy before, and others by the next, while one key gets a
/// quota of its own and loses it: they share its state.
#[test]
fn overrides_that_come_and_go_under_load_grant_nothing() {
    for [usual, own] in [["token-bucket", "100"], ["fixed-window", "100"], ["sliding-log", "120"]] {
        let policy = |rest: &str| {
            format!(
                "identify: {{ client: [header:x-api-key] }}\n\
                 rules: [{{ name: r, key: client, algorithm: {usual}, limit: 100/day{rest} }}]"
            )
        };
        let with = policy(&format!(", overrides: {{ ada: {own}/day }}"));
        let (gate, _clock) = gate(&policy(""));
        let (stop, sum) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        sum.fetch_add(u64::from(passes(&gate, &by("ada"))), Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..100 {
                replace(&gate, &with);
                replace(&gate, &policy(""));
            }
            stop.store(true, Ordering::Relaxed);
        });
        // However seldom the threads were let run, all of it is taken in the end.
        let (rest, most) = (passed(&gate, &by("ada"), 1_000), own.parse().unwrap());
        let sum = sum.into_inner() + u64::try_from(rest).unwrap();
        assert!((100..=most).contains(&sum), "{usual}: {sum}");
    }
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
