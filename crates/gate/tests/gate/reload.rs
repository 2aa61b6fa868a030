//! Another policy while keys are live: what was consumed is kept, nothing is dropped.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate_core::{Policy, Quota, Span, Tick};
use tidegate_gate::{Gate, Reloaded, Sample};
use tidegate_store::MemoryStore;

use crate::stand::{
    Answered, Folder, by, clock, counts, gate, left, looks, passed, passes, replace, rules,
};

fn request() -> Sample {
    Sample::new("GET /")
}

fn limit(text: &str) -> String {
    format!("rules: [{{ name: r, limit: {text} }}]")
}

#[test]
fn a_raise_grants_the_difference_and_a_cut_never_goes_below_zero() {
    for algorithm in ["token-bucket", "gcra", "leaky-bucket", "fixed-window", "sliding-log"] {
        let of = |cells: u32| limit(&format!("{cells}/h, algorithm: {algorithm}"));
        let (gate, _clock) = gate(&of(10));
        assert_eq!(passed(&gate, &request(), 6), 6);
        replace(&gate, &of(20));
        assert_eq!(looks(&gate, &request()), [14], "{algorithm}");
        replace(&gate, &of(4));
        assert!(!passes(&gate, &request()), "{algorithm}");
        replace(&gate, &of(8));
        assert_eq!(passed(&gate, &request(), 20), 2, "{algorithm}");
    }
}

/// A hundred cuts and raises in a fifth of a second, by reloads and by overrides.
#[test]
fn no_sequence_of_reloads_lets_more_pass_than_the_larger_quota() {
    let own =
        |rest: &str| format!("rules: [{{ name: r, key: header:x-api-key, limit: 100/s{rest} }}]");
    let by_reloads = [limit("100/s"), limit("50/s")];
    let by_overrides = [own(""), own(", overrides: { ada: 50/s }")];
    let of_burst = [limit("100/s, burst: 100"), limit("100/s, burst: 1")];
    for [full, cut] in [by_reloads, by_overrides, of_burst] {
        let (gate, clock) = gate(&full);
        let mut sum = 0;
        for turn in 0..100 {
            sum += passed(&gate, &by("ada"), 100);
            clock.advance(Span::from_millis(2));
            replace(&gate, if turn % 2 == 0 { &cut } else { &full });
        }
        assert!((100..=120).contains(&sum), "{sum}: {full} and {cut}");
    }
}

#[test]
fn another_algorithm_keeps_what_was_consumed() {
    let kinds = ["token-bucket", "fixed-window", "sliding-log", "gcra", "sliding-window"];
    for (from, to) in kinds.iter().flat_map(|from| kinds.map(|to| (from, to))) {
        let (gate, _clock) = gate(&limit(&format!("10/h, algorithm: {from}")));
        assert_eq!(passed(&gate, &request(), 6), 6);
        replace(&gate, &limit(&format!("10/h, algorithm: {to}")));
        assert_eq!(passed(&gate, &request(), 20), 4, "{from} to {to}");
    }
}

#[test]
fn rules_are_known_by_their_names() {
    let (gate, _clock) = gate("rules: [{ name: a, limit: 9/day }, { name: b, limit: 5/day }]");
    assert_eq!(passed(&gate, &request(), 2), 2);
    replace(
        &gate,
        "rules: [{ name: b, limit: 5/day }, { name: new, limit: 7/day },
                 { name: a, limit: 9/day }]",
    );
    assert_eq!(looks(&gate, &request()), [3, 7, 7]);
    // Gone, and back: nobody has counted meanwhile, but what was consumed is kept.
    replace(&gate, "rules: [{ name: b, limit: 5/day }]");
    assert_eq!(passed(&gate, &request(), 1), 1);
    replace(&gate, "rules: [{ name: a, limit: 9/day }, { name: b, limit: 5/day }]");
    assert_eq!(looks(&gate, &request()), [7, 2]);
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
fn credits_and_values_with_spaces_are_not_mixed_up() {
    let policy = |first: &str| {
        format!(
            "rules:
              - name: r
                key: [header:a, header:b]
                limit: 1/day
                overrides:
                  - {{ key: ['x y', z], limit: {first} }}
                  - {{ key: [x, 'y z'], limit: 50/day }}
              - {{ name: c, key: header:a, limit: 100/day, credits: {{ for: 12h, rate: 2x }},
                   overrides: {{ acme: 10/day, 'acme#peak': 20/day }} }}"
        )
    };
    let (gate, _clock) = gate(&policy("10/day"));
    let one = Sample::new("GET /").with_header("a", "x y").with_header("b", "z");
    let two = Sample::new("GET /").with_header("a", "x").with_header("b", "y z");
    assert_eq!((passed(&gate, &one, 4), passed(&gate, &two, 7)), (4, 7));
    let acme = |name: &str| Sample::new("GET /").with_header("a", name).with_header("b", name);
    assert_eq!(left(&gate.decide(&acme("acme")))[1..], [14, 9]);
    assert_eq!(passed(&gate, &acme("acme#peak"), 1), 1);
    replace(&gate, &policy("11/day"));
    assert_eq!(looks(&gate, &one)[0], 7);
    let other = Sample::new("GET /").with_header("a", "acme#peak").with_header("b", "other");
    assert_eq!(left(&gate.decide(&other))[1..], [28, 18]);
    assert_eq!(looks(&gate, &Sample::new("GET /").with_header("a", "acme"))[1..], [14, 9]);
    assert_eq!(looks(&gate, &two)[0], 43);
    replace(&gate, &policy("12/day"));
    assert_eq!(looks(&gate, &two)[0], 43);
}

#[test]
fn counts_outlive_a_reload() {
    let (gate, _clock) = gate(&limit("2/day"));
    assert_eq!(passed(&gate, &request(), 3), 2);
    let under_way = gate.decide(&request());
    replace(&gate, "rules: [{ name: other, limit: 9/day }, { name: r, limit: 3/day }]");
    drop(under_way);
    assert_eq!(passed(&gate, &request(), 2), 1);
    assert_eq!(counts(&gate, "r"), (3, 3, 0));
    assert_eq!(counts(&gate, "other"), (2, 0, 0));
}

#[test]
fn what_is_under_way_ends_by_the_rules_that_it_began_with() {
    let flights = |permits: u32, name: &str| {
        format!(
            "rules:
              - {{ name: {name}, limit: {permits} in flight, algorithm: concurrency }}
              - {{ name: failed, limit: 9/day, counts_when: {{ status: 401 }} }}"
        )
    };
    let (gate, _clock) = gate(&flights(2, "flights"));
    let (mut one, two) = (gate.decide(&request()), gate.decide(&request()));
    replace(&gate, &flights(3, "flights"));
    let three = gate.decide(&request());
    assert_eq!(left(&three), [0, 6]);
    // Under the new rules it would have counted by another status.
    drop(one.settle(&Answered(200, "", "")));
    drop(one);
    assert_eq!(looks(&gate, &request()), [1, 7]);
    drop((two, three));
    assert_eq!(looks(&gate, &request()), [3, 7]);
    // A rule that is gone takes its permits with it.
    let four = gate.decide(&request());
    replace(&gate, &flights(1, "others"));
    drop(four);
    assert_eq!(left(&gate.decide(&request())), [0, 5]);
}

#[test]
fn a_wrong_file_does_not_replace_a_right_one() {
    let (gate, _clock) = gate(&limit("2/day"));
    let folder = Folder::new();
    let file = folder.write("policy.yaml", "rules: [{ name: r, limit: lots }]");
    let Reloaded::Kept { error } = gate.reload(&file) else { panic!("it is wrong") };
    assert!(error.contains("lots") && error.contains("policy.yaml"), "{error}");
    assert!(matches!(gate.reload(folder.join("none.yaml")), Reloaded::Kept { .. }));
    assert_eq!(gate.rules().rules()[0].name(), "r");
    folder.write("policy.yaml", &limit("7/day"));
    assert_eq!(gate.reload(&file), Reloaded::Done { warnings: String::new() });
    assert_eq!(left(&gate.decide(&request())), [6]);
}

/// Rules come, go and move, but none changes: the law holds to the cell.
#[test]
fn reloads_under_load_drop_nothing() {
    under_load(["token-bucket", "token-bucket"]);
    under_load(["gcra", "gcra"]);
}

/// A state that is charged after the tick of a change, and before the change is known to all, is
/// carried over as of that tick: what the rate gives in between is given once more.
#[test]
fn a_change_under_load_gives_no_more_than_the_time_that_it_takes() {
    under_load(["token-bucket", "gcra"]);
}

/// Threads ask and settle while the policy is replaced all the time. Over the whole run, no more
/// passes than the burst and the rate allow.
#[track_caller]
fn under_load(algorithms: [&str; 2]) {
    let policy = |turn: u64| {
        let algorithm = algorithms[usize::try_from(turn % 2).unwrap()];
        let before =
            if turn.is_multiple_of(3) { "{ name: other, limit: 1000000/s }, " } else { "" };
        format!(
            "{{ identify: {{ client: [header:x-api-key] }},
               rules: [{before}{{ name: r, key: client, limit: 1000/s, burst: 500,
                 algorithm: {algorithm} }}, {{ name: flights, limit: 64 in flight,
                 algorithm: concurrency }}] }}"
        )
    };
    let (gate, clock) = gate(&policy(0));
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let start = gate.now();
    let threads: Vec<_> = (0..3)
        .map(|id| {
            let (gate, clock) = (gate.clone(), Arc::clone(&clock));
            let (stop, asked) = (Arc::clone(&stop), Arc::clone(&asked));
            std::thread::spawn(move || {
                let (mut passed, mut seen) = (0_u64, 0_u64);
                while !stop.load(Ordering::Relaxed) {
                    let mut admission = gate.decide(&by("ada"));
                    if admission.verdict().passes() {
                        seen += 1;
                        if seen.is_multiple_of(5) {
                            drop(admission.refund());
                        } else {
                            passed += 1;
                        }
                    }
                    if id == 0 {
                        clock.advance(Span::from_micros(20));
                    }
                    asked.fetch_add(1, Ordering::Relaxed);
                }
                passed
            })
        })
        .collect();
    let mut changing = 0;
    for turn in 0..200 {
        let rules = crate::stand::rules(&policy(turn));
        let before = gate.now();
        gate.replace(rules).unwrap();
        if algorithms[0] != algorithms[1] {
            changing += gate.now().since(before).get();
        }
        let goal = asked.load(Ordering::Relaxed) + 500;
        tidegate_testbed::until(std::time::Duration::from_secs(20), "they go on", || {
            goal <= asked.load(Ordering::Relaxed)
        })
        .unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    let passed: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    let micros = gate.now().since(start).get();
    let most = 500 + (micros + changing) / 1_000;
    assert!(passed <= most, "{passed} passed, where {most} may in {micros} us");
    let least = 500 + micros / 1_000 - 20;
    assert!(least <= passed || asked.load(Ordering::Relaxed) < most, "{passed} of {least}");
    let permits = gate.decide(&by("bob"));
    let free = permits.each().last().unwrap().decision.remaining;
    assert_eq!(free, 63, "all permits came back");
}

#[test]
fn a_gate_shares_its_store_across_hundreds_of_reloads() {
    let (gate, clock) = gate(&limit("1000/day"));
    for turn in 0..600_u32 {
        assert!(passes(&gate, &request()), "{turn}");
        replace(&gate, &limit(&format!("{}/day", 1_001 + turn)));
    }
    assert_eq!(looks(&gate, &request()), [1_000]);
    clock.advance(Span::from_secs(2 * 86_400));
    assert_eq!(looks(&gate, &request()), [1_600]);
    assert!(Tick::from_micros(0) < Gate::now(&gate));
}

#[test]
fn ten_thousand_limits_can_be_reloaded_for_ever() {
    let policy = |cells: u32| {
        let rule = |number: usize| format!("  - {{ name: r{number}, limit: {cells}/day }}\n");
        let matched = |number: usize| {
            rule(number).replace("limit:", &format!("match: {{ path: /{number} }}, limit:"))
        };
        format!("rules:\n{}", (0..10_000).map(matched).collect::<String>())
    };
    let (gate, _clock) = gate(&policy(100));
    let at = |number: usize| Sample::new(&format!("GET /{number}"));
    // It is under way for all that time, by the rules that it began with.
    let _held = gate.decide(&at(1));
    assert_eq!(passed(&gate, &at(9_999), 40), 40);
    for cells in 101..=115 {
        replace(&gate, &policy(cells));
    }
    assert_eq!(looks(&gate, &at(1)), [114]);
    assert_eq!(looks(&gate, &at(9_999)), [75]);
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
