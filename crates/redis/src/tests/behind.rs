//! What stands behind something else in one call, and what a refund finds that is not its own.

use smallvec::smallvec;
use tidegate_core::{Kind, Policy, Quota, Receipt, Span, Tick};
use tidegate_testbed::Flavor;

use super::bench_server::Bench;
use crate::call::{Limit, Outcome, Request, Run};
use crate::plan::Does;
use crate::rule::FleetRule;
use tidegate_store::TextKey as FleetKey;

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

fn bucket(name: &str, cells: u32) -> FleetRule {
    FleetRule::new(name, Policy::token_bucket(Quota::per_hour(cells)).unwrap())
}

fn limit(rule: &FleetRule, key: &str, cost: u32) -> Limit {
    let place = rule.place("t:", &FleetKey::new(key).unwrap());
    Limit { rule: rule.clone(), place, cost, formers: rule.formers().len() }
}

/// How many passed of each; nothing where a former policy has left a state.
fn passed(bench: &mut Bench, requests: &[&Request]) -> Vec<Option<u32>> {
    let runs: Vec<_> = requests.iter().map(|request| Run { request, count: 1 }).collect();
    let passed = |outcome: &Outcome<'_>| match outcome {
        Outcome::Decided { passed, .. } => Some(*passed),
        _ => None,
    };
    bench.decide(&runs, NOW).iter().map(passed).collect()
}

/// A request whose rule had other policies before names more keys than it has limits. Those behind
/// it are judged by their own, whatever it does and finds.
#[test]
fn who_stands_behind_a_rule_that_was_changed_is_judged_by_its_own_key() {
    for flavor in Flavor::all_there() {
        let mut bench = Bench::start(flavor);
        let changed = bucket("r", 9).change(Policy::token_bucket(Quota::per_hour(8)).unwrap(), NOW);
        let changed = changed.change(Policy::token_bucket(Quota::per_hour(7)).unwrap(), NOW);
        assert_eq!(changed.formers().len(), 2);
        let (plain, more) = (bucket("plain", 3), bucket("more", 30));
        let refund = Does::refund(&Receipt::new(NOW, 1));
        let does = [Does::Decide, Does::Peek, refund, Does::Debit, Does::Reset];
        for (number, does) in does.into_iter().enumerate() {
            for (limits, is_kept) in [(1, false), (2, false), (1, true), (2, true)] {
                let key = |who: &str| format!("{who} {number} {limits} {is_kept}");
                let mut first = smallvec![limit(&changed, &key("ada"), 1)];
                if limits == 2 {
                    first.push(limit(&more, &key("ada"), 1));
                }
                let first = Request { does, slot: 0, limits: first };
                let bob = smallvec![limit(&plain, &key("bob"), 1)];
                let bob = Request { does: Does::Decide, slot: 0, limits: bob };
                let formers = changed.formers().iter();
                let formers: Vec<_> =
                    formers.map(|former| first.limits[0].place.former(former)).collect();
                if is_kept {
                    let debt = (NOW.get() + 1_000_000).to_string();
                    redis::cmd("SET")
                        .arg(&formers[1])
                        .arg(debt)
                        .exec(&mut bench.connection)
                        .unwrap();
                }
                for wanted in [1, 1, 1, 0] {
                    let said = passed(&mut bench, &[&first, &bob]);
                    assert_eq!(said[1], Some(wanted), "{does:?} {limits} {is_kept}");
                }
                assert!(!bench.value(&bob.limits[0].place.name).is_empty(), "{does:?} {limits}");
                let is_left = |former: &Vec<u8>| !bench.value(former).is_empty();
                let left = formers.iter().map(is_left).collect::<Vec<_>>();
                assert_eq!(left, [false, is_kept && does != Does::Reset], "{does:?} {limits}");
            }
        }
    }
}

/// A state is moved to its new name only where neither name has changed since it was read.
#[test]
fn a_state_is_carried_over_unless_somebody_was_faster() {
    for flavor in Flavor::all_there() {
        let mut bench = Bench::start(flavor);
        let mut carry = |present: Option<&str>, former: Option<&str>, becomes: &str| {
            for (name, value) in [("present", present), ("former", former)] {
                let mut command = redis::cmd(if value.is_some() { "PSETEX" } else { "DEL" });
                command.arg(name).arg(value.map(|value| (90_000, value)));
                command.exec(&mut bench.connection).unwrap();
            }
            let mut call = redis::cmd("EVAL");
            call.arg(include_str!("../script/carry.lua")).arg(2).arg("present").arg("former");
            call.arg("found").arg(becomes).arg(60_000);
            let moved: u32 = call.query(&mut bench.connection).unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            let values = ["present", "former"].map(|it| text(bench.value(it.as_bytes())));
            (moved, values, bench.lives(b"present"))
        };
        let both = |present: &str, former: &str| [present.to_owned(), former.to_owned()];
        let (moved, values, lives) = carry(None, Some("found"), "new");
        assert_eq!((moved, values), (1, both("new", "")));
        assert!(lives.is_some_and(|millis| (1..=60_000).contains(&millis)), "{lives:?}");
        let fresh = carry(None, Some("found"), "");
        assert_eq!(fresh, (1, both("", ""), None));
        let changed = carry(None, Some("other"), "new");
        assert_eq!((changed.0, changed.1), (0, both("", "other")));
        let gone = carry(None, None, "new");
        assert_eq!((gone.0, gone.1), (0, both("", "")));
        let there = carry(Some("theirs"), Some("found"), "new");
        assert_eq!((there.0, there.1), (0, both("theirs", "found")));
    }
}

/// A refund of more than is there gives back what is there: the receipt is from before a reset.
#[test]
fn a_refund_leaves_no_more_than_the_whole_quota() {
    let hour = Span::from_secs(3_600);
    let day = [NOW, NOW.after(hour), NOW.after(hour).after(hour)];
    for flavor in Flavor::all_there() {
        let mut bench = Bench::start(flavor);
        let kinds = Kind::ALL.map(|kind| Policy::new(kind, Quota::new(10, hour)).unwrap());
        for policy in kinds.into_iter().chain([Policy::calendar(10, day).unwrap()]) {
            let rule = FleetRule::new(&format!("{policy:?}"), policy);
            let mut ask = |does, cost| {
                let limits = smallvec![limit(&rule, "ada", cost)];
                passed(&mut bench, &[&Request { does, slot: 0, limits }])[0]
            };
            assert_eq!(ask(Does::Decide, 5), Some(1));
            ask(Does::Reset, 0);
            assert_eq!(ask(Does::Decide, 2), Some(1));
            ask(Does::refund(&Receipt::new(NOW, 5)), 5);
            let (all, more) = (ask(Does::Decide, 10), ask(Does::Decide, 1));
            let wanted = match policy.kind() {
                // The slot that is given back is not the last one, so nobody moves up.
                Kind::LeakyQueue => (Some(0), Some(1)),
                _ => (Some(1), Some(0)),
            };
            assert_eq!((all, more), wanted, "{policy:?}");
        }
    }
}
