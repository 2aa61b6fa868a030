//! Calls by a line of whole ticks, which read all states before they write the first.

use smallvec::smallvec;
use tidegate_core::{Policy, Quota, Tick};
use tidegate_testbed::Flavor;

use super::bench_server::Bench;
use crate::call::{Limit, Outcome, Request, Run};
use crate::key::FleetKey;
use crate::plan::Does;
use crate::rule::FleetRule;

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

fn rule() -> FleetRule {
    FleetRule::new("r", Policy::token_bucket(Quota::per_hour(3)).unwrap())
}

fn request(rule: &FleetRule, key: &str, cost: u32) -> Request {
    let place = rule.place("t:", &FleetKey::new(key).unwrap());
    let limits = smallvec![Limit { rule: rule.clone(), place, cost, formers: 0 }];
    Request { does: Does::Decide, slot: 0, limits }
}

/// How many of each passed; nothing where the state could not be read.
fn passed(bench: &mut Bench, runs: &[(&Request, u32)]) -> Vec<Option<u32>> {
    let runs: Vec<_> = runs.iter().map(|&(request, count)| Run { request, count }).collect();
    let passed = |outcome: &Outcome<'_>| match outcome {
        Outcome::Decided { passed, .. } => Some(*passed),
        _ => None,
    };
    bench.decide(&runs, NOW).iter().map(passed).collect()
}

#[test]
fn a_key_that_is_named_twice_in_a_call_is_charged_twice() {
    for flavor in Flavor::all_there() {
        let mut bench = Bench::start(flavor);
        let rule = rule();
        let [ada, bob] = ["ada", "bob"].map(|key| request(&rule, key, 1));
        let twice = [(&ada, 1), (&bob, 1), (&ada, 1)];
        assert_eq!(passed(&mut bench, &twice), [Some(1), Some(1), Some(1)]);
        assert_eq!(passed(&mut bench, &twice), [Some(1), Some(1), Some(0)]);
        assert_eq!(passed(&mut bench, &[(&bob, 2), (&bob, 2)]), [Some(1), Some(0)]);
    }
}

#[test]
fn a_key_of_another_type_stays_as_it_is_and_stops_nobody() {
    for flavor in Flavor::all_there() {
        let mut bench = Bench::start(flavor);
        let rule = rule();
        for cost in [1, 4] {
            let [ada, list, text] = ["ada", "list", "text"].map(|key| request(&rule, key, cost));
            let name = |request: &Request| request.limits[0].place.name.to_vec();
            let () =
                redis::cmd("RPUSH").arg(name(&list)).arg("a").exec(&mut bench.connection).unwrap();
            let () = redis::cmd("SET")
                .arg(name(&text))
                .arg("not ours")
                .exec(&mut bench.connection)
                .unwrap();
            let ours = u32::from(cost == 1);
            let many = [(&list, 1), (&ada, 1), (&text, 1)];
            assert_eq!(passed(&mut bench, &many), [None, Some(ours), None]);
            for alone in [&list, &text] {
                assert_eq!(passed(&mut bench, &[(alone, 1)]), [None]);
            }
            let kind: String =
                redis::cmd("TYPE").arg(name(&list)).query(&mut bench.connection).unwrap();
            assert_eq!(kind, "list");
            assert_eq!(bench.value(&name(&text)), b"not ours");
        }
    }
}

/// Lua takes more for a number than we do: what it takes for one is one, and is mended.
#[test]
fn what_lua_takes_for_a_number_is_a_state_and_never_stays_for_ever() {
    let mut bench = Bench::start(Flavor::Redis);
    let rule = rule();
    let [ada, bob] = ["ada", "bob"].map(|key| request(&rule, key, 1));
    let name = ada.limits[0].place.name.to_vec();
    for (value, passes) in [
        (format!("{:e}", NOW.get() + 500), 2),
        (format!("{}.0", NOW.get() + 500), 2),
        (format!(" {}\n", NOW.get() + 500), 2),
        (format!(" {}\n", NOW.get() + 3_599_000_000), 0),
        (format!(" {}\n", NOW.get() - 500), 3),
    ] {
        for is_alone in [true, false] {
            redis::cmd("SET").arg(&name).arg(&value).exec(&mut bench.connection).unwrap();
            let runs = [(&ada, 4), (&bob, 1)];
            let answered = passed(&mut bench, &runs[..if is_alone { 1 } else { 2 }]);
            assert_eq!(answered[0], Some(passes), "{value:?}");
            let lives: i64 = redis::cmd("PTTL").arg(&name).query(&mut bench.connection).unwrap();
            assert!(passes == 0 || 0 < lives, "{value:?}: {lives}");
        }
    }
}
