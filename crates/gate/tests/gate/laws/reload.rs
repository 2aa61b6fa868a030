//! Another policy while keys are live: what was consumed is kept, nothing is dropped.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate_core::{Span, Tick};
use tidegate_gate::{Gate, Reloaded, Sample};

use super::laws::{gate, turns};
use crate::stand::{
    Answered, Folder, becomes, by, counts, done, left, looks, passed, passes, replace, room,
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
    done(one.settle(&Answered(200, "", "")));
    drop(one);
    becomes(&gate, || room(&gate, &request()), [1, 7]);
    drop((two, three));
    becomes(&gate, || room(&gate, &request()), [3, 7]);
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
                            done(admission.refund());
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
    for turn in 0..turns(200).into() {
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
    let free = || room(&gate, &by("bob")).last().copied();
    becomes(&gate, free, Some(64));
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
