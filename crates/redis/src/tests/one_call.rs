//! Calls by a line of whole ticks, which read all states before they write the first.

use smallvec::smallvec;
use tidegate_core::{Policy, Quota, Tick};
use tidegate_testbed::Flavor;

use super::bench_server::Bench;
use crate::call::{Limit, Outcome, Request, Run};
use crate::plan::Does;
use crate::rule::FleetRule;
use tidegate_store::TextKey as FleetKey;

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

/// Lua takes more for a number than we do; nothing is made of that, in whatever way it is found.
#[test]
fn what_only_lua_takes_for_a_number_stays_as_it_is() {
    let mut bench = Bench::start(Flavor::Redis);
    let rule = rule();
    let [ada, bob] = ["ada", "bob"].map(|key| request(&rule, key, 1));
    let name = ada.limits[0].place.name.to_vec();
    let soon = NOW.get() + 500;
    for value in [
        format!("{soon:e}"),
        format!("{soon}.0"),
        format!(" {soon}\n"),
        format!(" {}\n", NOW.get() + 3 * 3_600_000_000),
        format!(" {}\n", NOW.get() - 500),
        format!("0x{:x}", NOW.get() - 500),
    ] {
        for many in [1, 2] {
            redis::cmd("SET").arg(&name).arg(&value).exec(&mut bench.connection).unwrap();
            for count in [1, 4] {
                let answered = passed(&mut bench, &[(&ada, count), (&bob, 1)][..many]);
                assert_eq!(answered[0], None, "{value:?}");
                assert_eq!(bench.value(&name), value.as_bytes());
            }
        }
    }
}
