//! What a thread remembers of a route is what would be found.

use serde_json::{Value, json};
use tidegate_core::Tick;

use super::laws::{shown, walked};
use crate::chance::Chance;
use crate::request::Sample;
use crate::route::{Route, SLOTS_MAX};
use crate::rules::Rules;
use crate::source::Format;

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

/// A rule that is chosen by method and path. Most are steady; some end the list, and whether they
/// do depends on the key that they count.
fn ruled(chance: &mut Chance, number: usize) -> Value {
    let path = *chance.pick(&["/**", "/x/**", "/x/y", "/*/y", "/{id}/**", "/y"]);
    let mut matches = json!({ "path": path });
    match chance.below(4) {
        0 => matches["method"] = json!(chance.pick(&["GET", "get", "P*"])),
        1 => matches["not"] = json!({ "path": chance.pick(&["/x", "/*/y"]) }),
        _ => {}
    }
    let key = chance.pick(&["client", "header:a", "path", "segment:1", "ip"]);
    let missing = chance.pick(&["skip", "together"]);
    let mut rule = json!({ "name": format!("rule-{number}"), "match": matches });
    match chance.below(48) {
        0 => rule["unlimited"] = json!(true),
        1 => rule["block"] = json!(true),
        is => {
            (rule["key"], rule["if_missing"]) = (json!(key), json!(missing));
            rule["limit"] = json!("5/s");
            match is {
                2 => rule["shadow"] = json!(true),
                3 => rule["cost"] = json!(2),
                4 | 5 => rule["last"] = json!(true),
                _ => {}
            }
        }
    }
    rule
}

fn sample(chance: &mut Chance) -> Sample {
    let method = chance.pick(&["GET", "GET", "get", "POST"]);
    let path =
        chance.pick(&["/x/y", "/x/y", "/x", "/y", "/", "/x//y", "/x%2Fy", "/x/../y", "/%79"]);
    let mut sample = Sample::new(&format!("{method} {path}"));
    for name in ["a", "b"] {
        if chance.below(2) == 0 {
            sample = sample.with_header(name, chance.pick(&["1", "2"]));
        }
    }
    sample
}

#[test]
fn a_route_that_comes_again_is_judged_by_the_same_rules() {
    let (mut known, mut charged) = (0, 0);
    for seed in 0..1_500 {
        let mut chance = Chance::of(seed);
        // Two policies in turn, as while one takes the other's place.
        let policies = [(); 2].map(|()| {
            let count = usize::try_from(1 + chance.below(14)).unwrap();
            let rules: Vec<Value> = (0..count).map(|number| ruled(&mut chance, number)).collect();
            let mut policy =
                json!({ "identify": { "client": ["header:b", "ip"] }, "rules": rules });
            if chance.below(8) == 0 {
                policy["costs"] = json!([{ "path": "/x/**", "cost": 3 }]);
            }
            let text = policy.to_string();
            let loaded = Rules::from_bytes("policy", text.as_bytes(), Format::Json);
            loaded.unwrap_or_else(|report| panic!("{report}\n{text}")).rules
        });
        for _ in 0..150 {
            let (rules, sample) = (chance.pick(&policies), sample(&mut chance));
            let facts = rules.facts(&sample, NOW);
            let plan = rules.plan(&facts);
            assert_eq!(shown(&plan), shown(&walked(rules, &facts, plan.route_cost)), "{seed}");
            if matches!(facts.route, Route::Known(_)) {
                known += 1;
                charged += plan.charges.len();
            }
        }
    }
    assert!(10_000 < known && 10_000 < charged, "{known} known routes with {charged} rules");
}

/// Whether a thread knows the route of `line` by now.
fn is_known(rules: &Rules, line: &str) -> bool {
    let sample = Sample::new(line);
    let facts = rules.facts(&sample, NOW);
    let _ = rules.plan(&facts);
    matches!(facts.route, Route::Known(_))
}

/// The number by which a thread finds a route that it does not know.
fn number_of(rules: &Rules, line: &str) -> u64 {
    let sample = Sample::new(line);
    match rules.facts(&sample, NOW).route {
        Route::New { hash, .. } => hash,
        route => panic!("{line}: {route:?}"),
    }
}

#[test]
fn what_comes_often_is_known_and_what_comes_once_is_not() {
    let of = |rules: &str| Rules::from_text(&format!("rules: [{rules}]")).unwrap().rules;
    // One path of two policies, and by two methods: with places of their own, which a thread does
    // not promise. Other tests have a say in it.
    let policies = || [of("{ name: all, key: ip, limit: 5/s }"), of("{ name: all, limit: 5/s }")];
    let is_apart = |[rules, others]: &[Rules; 2]| {
        let often = [(rules, "GET /often"), (rules, "POST /often"), (others, "GET /often")];
        let [a, b, c] = often.map(|(rules, line)| number_of(rules, line) % SLOTS_MAX as u64);
        a != b && b != c && a != c
    };
    let [rules, others] = std::iter::repeat_with(policies).take(99).find(is_apart).unwrap();
    let often = [(&rules, "GET /often"), (&rules, "POST /often"), (&others, "GET /often")];
    for (rules, line) in often {
        assert_eq!([0; 3].map(|_| is_known(rules, line)), [false, false, true], "{line}");
    }
    // Some of these have the place of one of those.
    for number in 0..2_000 {
        assert!(!is_known(&rules, &format!("GET /once/{number}")), "{number}");
        for (rules, line) in often {
            assert!(is_known(rules, line), "{line} after {number}");
        }
    }
}

/// What is not chosen by method and path alone, or goes on for too long, is looked up each time.
#[test]
fn other_routes_are_not_remembered() {
    let by = |conditions: &str| {
        format!("rules: [{{ name: all, match: {conditions}, key: ip, limit: 5/s }}]")
    };
    let long = format!("GET /{}", "x".repeat(400));
    let policies = [
        (by("{ path: /** }"), "GET /x/../y"),
        (by("{ path: /** }"), "GET /%78"),
        (by("{ path: /** }"), &long),
        (by("{ header: { x: y } }"), "GET /x"),
        (by("{ host: a.example }"), "GET /x"),
        (by("{ not: { ip: 192.0.2.0/24 } }"), "GET /x"),
        ("rules: [{ name: all, limit: 5/s, shadow: true }]".to_owned(), "GET /x"),
        ("share: [{ name: all, capacity: 9 in flight, by: ip }]".to_owned(), "GET /x"),
        ("costs: [{ path: /x, cost: 2 }]\nrules: [{ name: all, limit: 5/s }]".to_owned(), "GET /x"),
    ];
    for (policy, line) in policies {
        let rules = Rules::from_text(&policy).unwrap().rules;
        assert!(!(0..4).any(|_| is_known(&rules, line)), "{policy} {line}");
    }
}
