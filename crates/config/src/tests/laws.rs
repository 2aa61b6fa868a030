//! The index finds what asking every rule finds; what never applies never does; the three formats
//! say the same.

use serde_json::{Value, json};
use tidegate_core::Tick;

use super::model::{Ask, Ruled, TIERS, Want, judges};
use super::written::{FORMATS, written};
use crate::chance::Chance;
use crate::explain::Does;
use crate::key::LastKey;
use crate::load::Loaded;
use crate::plan::{Plan, Planned, Stopped, Turn};
use crate::request::Sample;
use crate::rules::Rules;
use crate::source::Format;

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

pub(super) fn policy(rules: &[Ruled], costs: &[(Want, u32)]) -> Value {
    let rules: Vec<Value> = rules.iter().map(Ruled::json).collect();
    let costs = costs.iter().map(|(want, cost)| json!({ "match": want.json(), "cost": cost }));
    let costs: Vec<Value> = costs.collect();
    let tiers = json!({ "header": "X-Tier", "default": TIERS[0], "names": TIERS });
    let mut policy = json!({ "tiers": tiers, "rules": rules });
    if !costs.is_empty() {
        policy["costs"] = json!(costs);
    }
    policy
}

#[track_caller]
pub(super) fn loaded(policy: &Value, format: Format) -> Loaded {
    let text = written(policy, format);
    let loaded = Rules::from_bytes("policy", text.as_bytes(), format);
    loaded.unwrap_or_else(|report| panic!("{report}\n{text}"))
}

/// All that a plan says.
pub(super) fn shown(plan: &Plan<'_>) -> String {
    let charges = plan.charges.iter().map(|it| {
        let key: Vec<String> = it.key.iter().map(|part| format!("{part:?}")).collect();
        let variant = it.rule.variants()[it.variant].id();
        let flags = (it.is_open, it.is_shadow);
        format!("{}#{} {variant:?} {key:?} costs {} {flags:?}", it.rule.name(), it.number, it.cost)
    });
    let charges: Vec<String> = charges.collect();
    let stopped =
        plan.stopped.map(|it| format!("{}#{} blocks: {}", it.rule.name(), it.number, it.blocks));
    format!("{charges:#?} {stopped:?} {} {:?}", plan.is_too_much, plan.route_cost)
}

pub(super) fn random_rules(chance: &mut Chance) -> Vec<Ruled> {
    let count = usize::try_from(1 + chance.below(12)).unwrap();
    let mut rules: Vec<Ruled> = (0..count).map(|number| Ruled::any(chance, number)).collect();
    // Conditions come many times: what is rare is found under something else.
    for at in 1..count {
        if chance.below(3) == 0 {
            rules[at].any = rules[at - 1].any.clone();
        }
    }
    rules
}

pub(super) fn random_costs(chance: &mut Chance) -> Vec<(Want, u32)> {
    let cost =
        |chance: &mut Chance| (Want::any(chance, 1), u32::try_from(chance.below(9)).unwrap());
    (0..chance.below(5)).map(|_| cost(chance)).collect()
}

/// What a walk over all rules gives, with the real matcher.
pub(super) fn walked<'f>(
    rules: &'f Rules,
    facts: &'f crate::facts::Facts<'_, '_>,
    route_cost: Option<usize>,
) -> Plan<'f> {
    let cost = route_cost.map(|at| &rules.costs[at].1);
    let mut plan = Plan {
        charges: smallvec::SmallVec::new(),
        stopped: None,
        is_unknown_key: false,
        is_too_much: false,
        route_cost,
    };
    for (number, rule) in rules.list.iter().enumerate() {
        let Some(reading) = rule.matcher.reading(facts) else { continue };
        let is_sure = rule.matcher.is_sure(facts);
        // Each looks its key up for itself.
        let mut last = LastKey::default();
        match rules.turn_by_any(number, reading, cost, &mut last) {
            Turn::Charges(asks) => plan.charges.push(Planned { asks, key: last.into_parts() }),
            Turn::Misses => continue,
            Turn::NoLimit { .. } => {}
            Turn::Unlimited if !is_sure => {}
            turn @ (Turn::Blocks | Turn::Unlimited | Turn::WantsLength) => {
                let wants_length = matches!(turn, Turn::WantsLength);
                let blocks = wants_length || matches!(turn, Turn::Blocks);
                plan.stopped = Some(Stopped { rule, number, blocks, wants_length });
                break;
            }
        }
        if rule.is_last && is_sure {
            break;
        }
    }
    plan
}

#[test]
fn the_index_finds_what_asking_every_rule_finds() {
    let mut found = 0;
    for seed in 0..4_000 {
        let mut chance = Chance::of(seed);
        let (rules, costs) = (random_rules(&mut chance), random_costs(&mut chance));
        let loaded = loaded(&policy(&rules, &costs), Format::Json);
        for number in 0..25 {
            // Some as they are sent, some as they are sent to get around a rule.
            let of = if number % 2 == 0 { Ask::any } else { Ask::odd };
            let ask = of(&mut chance);
            let sample = ask.sample();
            let facts = loaded.rules.facts(&sample, NOW);
            let plan = loaded.rules.plan(&facts);
            let walked = walked(&loaded.rules, &facts, plan.route_cost);
            assert_eq!(shown(&plan), shown(&walked), "{seed} {ask:?}");
            let judging: Vec<&str> = plan.charges.iter().map(|it| it.rule.name()).collect();
            let stopped = plan.stopped.map(|it| it.rule.name());
            assert_eq!((judging, stopped), judges(&rules, &ask), "{seed} {ask:?} {rules:#?}");
            let cost = plan.route_cost.map_or(1, |at| costs[at].1);
            assert_eq!(cost, ask.cost(&costs), "{seed} {ask:?} {costs:?}");
            found += plan.charges.len();
        }
    }
    assert!(100_000 < found, "only {found} rules were found: the law holds of nothing");
}

#[test]
fn a_cost_with_two_paths_is_for_what_is_like_both() {
    let text = "costs: [{ path: /a/**, match: { path: /*/b/** }, cost: 3 }]
rules: [{ name: all, limit: 9/s }]";
    let rules = Rules::from_text(text).unwrap().rules;
    for (line, is_for) in [("/a/b", true), ("/a/b/c", true), ("/a/c", false), ("/c/b", false)] {
        let sample = Sample::new(&format!("GET {line}"));
        let route_cost = rules.route_cost(&rules.facts(&sample, NOW));
        assert_eq!(route_cost.is_some(), is_for, "{line}");
    }
}

#[test]
fn what_covers_another_is_for_all_that_the_other_is_for() {
    let (mut covering, mut tried) = (0, 0);
    for seed in 0..40_000 {
        let mut chance = Chance::of(seed);
        let [wide, narrow] = [0; 2].map(|_| {
            // Few conditions: of many, one hardly ever covers the other.
            let any = (0..=chance.below(2)).map(|_| Want::any(&mut chance, 1)).collect();
            Ruled { any, ..Ruled::any(&mut Chance::of(0), usize::from(chance.below(9) == 0)) }
        });
        let both =
            [Ruled { name: "wide".into(), ..wide }, Ruled { name: "narrow".into(), ..narrow }];
        let loaded = loaded(&policy(&both, &[]), Format::Json);
        let matcher =
            |name: &str| &loaded.rules.list.iter().find(|it| it.name() == name).unwrap().matcher;
        if !matcher("wide").covers(matcher("narrow")) {
            continue;
        }
        covering += 1;
        for _ in 0..60 {
            let ask = Ask::any(&mut chance);
            if both[1].matches(&ask) {
                tried += 1;
                assert!(both[0].matches(&ask), "{seed} {ask:?} {both:#?}");
            }
        }
    }
    assert!(500 < covering && 5_000 < tried, "{covering} cover another, {tried} requests");
}

#[test]
fn what_never_applies_never_does() {
    let mut warned = 0;
    for seed in 0..4_000 {
        let mut chance = Chance::of(seed);
        let rules = random_rules(&mut chance);
        let loaded = loaded(&policy(&rules, &[]), Format::Json);
        let never: Vec<&str> = loaded
            .report
            .problems()
            .filter_map(|it| it.message.strip_prefix("rule `")?.split_once("` never applies"))
            .map(|(name, _)| name)
            .collect();
        warned += never.len();
        for _ in 0..30 {
            let ask = Ask::any(&mut chance);
            // What may be for a rule and may not is for those below it, too.
            if rules.iter().any(|rule| rule.matches(&ask) && !rule.is_sure_of(&ask)) {
                continue;
            }
            let (judging, stopped) = judges(&rules, &ask);
            let reached = judging.iter().chain(&stopped).find(|name| never.contains(*name));
            assert_eq!(reached, None, "{seed} {ask:?} {rules:#?}");
        }
    }
    assert!(1_000 < warned, "only {warned} rules were said never to apply");
}

#[test]
fn an_explanation_is_the_plan() {
    for seed in 0..1_500 {
        let mut chance = Chance::of(seed);
        let (rules, costs) = (random_rules(&mut chance), random_costs(&mut chance));
        let loaded = loaded(&policy(&rules, &costs), Format::Json);
        for _ in 0..20 {
            let ask = Ask::odd(&mut chance);
            let sample = ask.sample();
            let facts = loaded.rules.facts(&sample, NOW);
            let plan = loaded.rules.plan(&facts);
            let mut told = Plan { charges: smallvec::smallvec![], stopped: None, ..plan };
            for (number, explained) in loaded.rules.explain(&facts).into_iter().enumerate() {
                assert_eq!(explained.rule.name(), loaded.rules.list[number].name());
                let blocks = matches!(explained.does, Does::Blocks);
                match explained.does {
                    Does::Counts(planned) => told.charges.push(planned),
                    Does::Blocks | Does::LetsPass => {
                        let rule = explained.rule;
                        told.stopped = Some(Stopped { rule, number, blocks, wants_length: false });
                    }
                    _ => {}
                }
            }
            assert_eq!(shown(&told), shown(&loaded.rules.plan(&facts)), "{seed} {ask:?}");
        }
    }
}

#[test]
fn the_three_formats_say_the_same() {
    for seed in 0..1_000 {
        let mut chance = Chance::of(seed);
        let policy = policy(&random_rules(&mut chance), &random_costs(&mut chance));
        let files = FORMATS.map(|format| loaded(&policy, format));
        for _ in 0..10 {
            let sample = Ask::odd(&mut chance).sample();
            let plans = files.each_ref().map(|file| {
                let facts = file.rules.facts(&sample, NOW);
                shown(&file.rules.plan(&facts))
            });
            assert!(plans.iter().all(|plan| *plan == plans[0]), "{seed} {plans:#?}");
        }
        let warnings = files.each_ref().map(|file| file.report.warnings());
        assert!(warnings.iter().all(|it| *it == warnings[0]), "{seed} {warnings:?}");
    }
}

/// Rules as large companies have them: a few for everybody, most for one customer or one endpoint.
pub(super) fn realistic(count: usize) -> Value {
    let rule = |number: usize| {
        let name = format!("rule-{number}");
        let tenant = format!("tenant-{number}");
        match number % 5 {
            0 => json!({ "name": name, "key": "ip", "limit": "50/s", "burst": 100,
                "match": { "method": ["GET", "HEAD"],
                    "path": format!("/v1/service-{number}/**") } }),
            1 => json!({ "name": name, "key": ["ip", "header:x-api-key"], "limit": "5000/day",
                "algorithm": "fixed-window", "match": { "header": { "x-tenant": tenant } } }),
            2 => json!({ "name": name, "key": "ip", "algorithm": "sliding-window",
                "limit": { "free": "10/min", "pro": "100/min" },
                "match": { "path": format!("/v2/{{user}}/thing-{number}"), "method": "POST" } }),
            3 => json!({ "name": name, "key": "ip", "limit": "20/s",
                "match": { "host": format!("h{number}.example.com"), "path": "/v3/**" } }),
            _ => json!({ "name": name, "key": "ip", "limit": "9/s",
                "match": [{ "path": format!("/a/{number}") },
                    { "path": format!("/b/*/{number}") }] }),
        }
    };
    let rules: Vec<Value> = (0..count).map(rule).collect();
    json!({ "tiers": { "header": "x-tier", "default": "free", "names": ["free", "pro"] },
        "rules": rules })
}

#[test]
fn rules_that_do_not_match_are_not_looked_at() {
    let candidates = |count: usize| {
        let loaded = loaded(&realistic(count), Format::Yaml);
        let requests = [
            Sample::new("GET /v1/service-10/x"),
            Sample::new("POST /v2/ada/thing-12").with_header("x-tenant", "tenant-11"),
            Sample::new("GET /v3/x").with_header("host", "H13.Example.com"),
            Sample::new("GET /b/x/14"),
            Sample::new("GET /nothing/of/the/kind"),
        ];
        requests.map(|request| {
            let facts = loaded.rules.facts(&request, NOW);
            (loaded.rules.index.candidates(&facts).len(), loaded.rules.plan(&facts).charges.len())
        })
    };
    let few = candidates(100);
    assert_eq!(few, [(1, 1), (2, 2), (1, 1), (1, 1), (0, 0)]);
    assert_eq!(candidates(10_000), few);
}

/// A rule that counts by any key, of those that its match allows.
fn keyed(chance: &mut Chance, number: usize) -> Value {
    let path = *chance.pick(&["/{id}/**", "/*/{id}", "/**"]);
    let keys = [json!(["{id}"]), json!(["client", "{id}"])];
    let others = [json!(["header:a"]), json!(["header:a", "header:b"]), json!(["client"])];
    let of_path = [json!(["path"]), json!(["segment:1"])];
    let key = match chance.below(4) {
        0 if path != "/**" => chance.pick(&keys),
        1 => chance.pick(&of_path),
        _ => chance.pick(&others),
    };
    let missing = chance.pick(&["skip", "together"]);
    let name = format!("rule-{number}");
    let matches = json!({ "path": path });
    json!({ "name": name, "match": matches, "key": key, "if_missing": missing, "limit": "5/s" })
}

#[test]
fn a_key_is_the_same_whatever_was_looked_up_before() {
    let mut shared = 0;
    for seed in 0..1_000 {
        let mut chance = Chance::of(seed);
        let count = usize::try_from(2 + chance.below(6)).unwrap();
        let rules: Vec<Value> = (0..count).map(|number| keyed(&mut chance, number)).collect();
        let identify = json!({ "client": ["header:b", "ip"] });
        let policy = json!({ "identify": identify, "rules": rules });
        let loaded = loaded(&policy, Format::Json);
        for _ in 0..8 {
            let line = *chance.pick(&["/x/y", "/y/x", "/x", "/x%2Fy", "/x/..%2Fy", "/x/.."]);
            let mut sample = Sample::new(line);
            for name in ["a", "b"] {
                if chance.below(2) == 0 {
                    sample = sample.with_header(name, chance.pick(&["1", "2"]));
                }
            }
            let facts = loaded.rules.facts(&sample, NOW);
            let plan = loaded.rules.plan(&facts);
            let walked = walked(&loaded.rules, &facts, plan.route_cost);
            assert_eq!(shown(&plan), shown(&walked), "{seed} {policy}");
            let keys = plan.charges.windows(2);
            shared += keys.filter(|pair| pair[0].key == pair[1].key).count();
        }
    }
    assert!(2_000 < shared, "{shared} of them had the key of the one before");
}
