//! Requests that servers read in several ways: a client that writes one gets around no rule that
//! restricts, and is let through by none that exempts.

use std::collections::BTreeMap;

use super::dots::{NOW, plan, rules};
use super::laws::{loaded, policy, random_costs, random_rules};
use super::model::Ask;
use crate::chance::Chance;
use crate::request::Sample;
use crate::rules::Rules;
use crate::source::Format;

/// What common servers take for `/login`.
const LOGIN: [&str; 22] = [
    "/login",
    "/LOGIN",
    "/lOgIn/",
    "/login;x",
    "/login;x=1/",
    "/login;%2F..%2Fx",
    "/x/..;/login",
    "/x/..;/LOGIN;x",
    "/x%2F..;%2Flogin",
    "/;/login",
    "/login%20",
    "/login%00",
    "/login%00.png",
    "/login.",
    "/login\\",
    "/x\\..%5Clogin",
    "//x/login",
    "///x/login",
    "/\\x/login",
    "/%5Cx/login",
    "//x\\LOGIN;x",
    "//x/y/%2e%2e/login",
];

#[test]
fn a_limit_is_for_all_that_is_taken_for_its_path() {
    for method in ["POST", "post"] {
        let restricting = rules(
            "rules: [{ name: a, match: { path: /login, method: post }, limit: 5/min },
                     { name: b, match: { path: /Login/** }, limit: 5/min }]",
        );
        for path in LOGIN {
            assert_eq!(plan(&restricting, &format!("{method} {path}")), "a=1 b=1", "{path}");
        }
        for path in ["/logins", "/login-x", "/x/login", "/log;in", "/log in", "/%6cogi.n", "/"] {
            assert_eq!(plan(&restricting, &format!("{method} {path}")), "", "{path}");
        }
    }
    let blocks = rules("rules: [{ name: a, match: { path: /login }, block: true }]");
    for path in LOGIN {
        assert_eq!(plan(&blocks, path), "blocked", "{path}");
    }
}

#[test]
fn what_exempts_is_for_what_is_surely_its_path() {
    let rules = rules(
        "rules: [{ name: health, match: { path: /health }, unlimited: true },
                 { name: easy, match: { path: /Easy/** }, limit: 9/s, last: true },
                 { name: rest, match: { not: { path: /free/** } }, limit: 1/s }]",
    );
    for (path, told) in [
        ("/health", "passed"),
        ("/health//", "passed"),
        ("//health/", "rest=1"),
        ("//health/x", "rest=1"),
        ("//health/health", "rest=1"),
        ("/h%65alth", "passed"),
        ("/HEALTH", "rest=1"),
        ("/health;x", "rest=1"),
        ("/HEALTH;x/../login", "rest=1"),
        ("/health;x/../login", "rest=1"),
        ("/login/..;/health", "rest=1"),
        ("/health%20", "rest=1"),
        ("/health%00/login", "rest=1"),
        ("/health\\", "rest=1"),
        ("/Easy/x", "easy=1"),
        ("/Easy/x;y", "easy=1"),
        ("/easy/x", "easy=1 rest=1"),
        ("/Easy/..;/x", "easy=1 rest=1"),
        ("/free/x", ""),
        ("/FREE/x", "rest=1"),
        ("/free;/x", "rest=1"),
        ("//free/x", "rest=1"),
        ("//x/free/x", "rest=1"),
        ("/\\x/free/x", "rest=1"),
        ("//free/free/x", ""),
    ] {
        assert_eq!(plan(&rules, path), told, "{path}");
    }
}

#[test]
fn a_strict_server_tells_apart_what_others_do_not() {
    let rules = rules(
        "paths: { strict: true }
rules: [{ name: a, match: { path: '/Login/{id}' }, key: '{id}', limit: 5/min },
        { name: b, match: { path: /easy/** }, unlimited: true },
        { name: c, limit: 9/min }]",
    );
    for (path, told) in [
        ("/Login/X", "a=1 c=1"),
        ("/x/../Login/X", "a=1 c=1"),
        ("/Login%2FX", "a=1 c=1"),
        ("/login/X", "c=1"),
        ("/Login;x/X", "c=1"),
        ("/easy/A;x", "passed"),
        ("/easy/../x", "c=1"),
    ] {
        assert_eq!(plan(&rules, path), told, "{path}");
    }
    for path in ["/Login/Ab;c", "/Login/./Ab;c"] {
        assert_eq!(keys(&rules, path), ["{id} = Ab;c"]);
    }
}

/// The keys that the rules count, of those that have one.
fn keys(rules: &Rules, path: &str) -> Vec<String> {
    let request = Sample::new(path);
    let facts = rules.facts(&request, NOW);
    let plan = rules.plan(&facts);
    plan.charges.iter().filter_map(|it| Some(rules.shown(it.key.first()?))).collect()
}

/// Otherwise each spelling of a path would have a bucket.
#[test]
fn a_spelling_of_a_path_is_no_key_of_its_own() {
    let by_path = rules(
        "rules: [{ name: a, key: path, limit: 5/min },
                 { name: b, match: { path: '/{id}' }, key: '{id}', limit: 5/min },
                 { name: c, key: segment:1, if_missing: skip, limit: 5/min }]",
    );
    for path in LOGIN.into_iter().filter(|path| !path.contains("x%2F")) {
        let expected = ["path = /login", "{id} = login", "segment:1 = login"];
        assert_eq!(keys(&by_path, path), expected, "{path}");
    }
}

/// `quota` is that of `key` beside one of 10 a minute for others, by `path`.
fn variant(key: &str, quota: &str, path: &str) -> String {
    let rules = rules(&format!(
        "rules: [{{ name: a, key: path, limit: 10/min, overrides: {{ '{key}': {quota} }} }}]"
    ));
    let request = Sample::new(path);
    let facts = rules.facts(&request, NOW);
    let plan = rules.plan(&facts);
    if plan.stopped.is_some() {
        return "blocked".to_owned();
    }
    plan.charges.first().map_or("unlimited".into(), |it| it.rule.variants()[it.variant].id().into())
}

#[test]
fn an_override_that_raises_is_for_what_every_reading_has() {
    for path in ["/health/x/..", "/x/../health", "/health%2F..%2Fhealth", "/health/."] {
        assert_eq!(variant("/health", "99/min", path), "", "{path}");
        assert_eq!(variant("/health", "unlimited", path), "", "{path}");
    }
    assert_eq!(variant("/health", "99/min", "/health"), "=/health");
    assert_eq!(variant("/health", "unlimited", "/health"), "unlimited");
    for path in ["/LOGIN", "/login;x", "/x/../login", "/x%2F..%2Flogin", "/login%20"] {
        assert_eq!(variant("/login", "1/min", path), "=/login", "{path}");
        assert_eq!(variant("/Login", "block", path), "blocked", "{path}");
    }
}

#[test]
fn get_stands_for_head_and_not_the_other_way_round() {
    let rules = rules(
        "rules: [{ name: get, match: { method: GET }, limit: 5/s },
                 { name: head, match: { method: HEAD }, limit: 5/s },
                 { name: other, match: { not: { method: [get, POST] } }, limit: 5/s },
                 { name: also, match: [{ path: /x, method: G* }, { path: /y, method: get }],
                   limit: 5/s }]",
    );
    for (line, told) in [
        ("GET /", "get=1"),
        ("HEAD /", "get=1 head=1"),
        ("head /x", "get=1 head=1 also=1"),
        ("HEAD /y", "get=1 head=1 also=1"),
        ("POST /x", ""),
        ("PUT /x", "other=1"),
    ] {
        assert_eq!(plan(&rules, line), told, "{line}");
    }
}

#[test]
fn a_header_that_is_repeated_restricts_by_any_line_and_exempts_by_all() {
    let rules = rules(
        "rules: [{ name: probe, match: { header: { user-agent: probe* } }, unlimited: true },
                 { name: bot, match: { header: { user-agent: '*bot*' } }, limit: 5/s, last: true },
                 { name: rest, match: { not: { header: { user-agent: friend } } }, limit: 5/s }]",
    );
    for (agents, told) in [
        (&["probe/1"][..], ""),
        (&["probe/1", "probe/2"], ""),
        (&["probe/1", "curl"], "rest"),
        (&["curl", "probe/1"], "rest"),
        (&["probe/1", ""], "rest"),
        (&["bot"], "bot"),
        (&["curl", "bot"], "bot rest"),
        (&["friend"], ""),
        (&["friend", "curl"], "rest"),
        (&["curl", "friend"], "rest"),
    ] {
        let sample =
            agents.iter().fold(Sample::new("/"), |it, agent| it.with_header("user-agent", agent));
        let facts = rules.facts(&sample, NOW);
        let plan = rules.plan(&facts);
        let found: Vec<&str> = plan.charges.iter().map(|it| it.rule.name()).collect();
        assert_eq!(found.join(" "), told, "{agents:?}");
    }
}

#[test]
fn a_route_costs_what_it_may_cost() {
    let text = "costs: [{ path: /health, cost: 0 }, { path: /Export, cost: 10 },
                        { path: /**, cost: 2 }]\nrules: [{ name: a, limit: 100/s }]";
    let rules = rules(text);
    for (path, told) in [
        ("/health", "a=0"),
        ("/HEALTH", "a=2"),
        ("/health;x", "a=2"),
        ("/export", "a=10"),
        ("/Export", "a=10"),
        ("/export;/../health", "a=2"),
        ("/x", "a=2"),
    ] {
        assert_eq!(plan(&rules, path), told, "{path}");
    }
}

#[test]
fn what_stands_behind_a_host_makes_it_no_other() {
    let rules = rules("rules: [{ name: a, match: { host: api.example.com }, block: true }]");
    let is_blocked = |host: &str| {
        let sample = Sample::new("/").with_header("host", host);
        rules.plan(&rules.facts(&sample, NOW)).stopped.is_some()
    };
    for host in ["", ":80", ":80:80", ":80:", ":", ".", ".....", "..:80:80", " ", ". :80 "] {
        assert!(is_blocked(&format!("api.example.com{host}")), "{host}");
        assert!(is_blocked(&format!(" \tAPI.example.com{host}")), "{host}");
    }
    for host in ["", ":80", "api.example.co:m", "x.api.example.com", "[api.example.com]"] {
        assert!(!is_blocked(host), "{host}");
    }
}

/// What becomes of a request: what each rule that counts it costs it, and whether it is refused.
fn outcome(rules: &Rules, ask: &Ask) -> (BTreeMap<String, u32>, bool) {
    let sample = ask.sample();
    let facts = rules.facts(&sample, NOW);
    let plan = rules.plan(&facts);
    let charges = plan.charges.iter().map(|it| (it.rule.name().to_owned(), it.cost)).collect();
    (charges, plan.stopped.is_some_and(|it| it.blocks))
}

/// However a server reads an odd request, by its own reading it has no more than the odd one: no
/// rule less counts it, none for fewer cells, and none that refuses is missed.
#[test]
fn no_way_to_write_a_request_is_a_way_around_a_rule() {
    let mut plain = 0;
    for seed in 0..3_000 {
        let mut chance = Chance::of(seed);
        let (made_up, costs) = (random_rules(&mut chance), random_costs(&mut chance));
        let mut policy = policy(&made_up, &costs);
        // A policy that has upper case means it in any, so that lower case is no other reading.
        let has_case = seed % 2 == 0;
        if !has_case {
            let text = policy.to_string().replace("/B", "/b").replace("/A", "/a");
            policy = serde_json::from_str(&text.replace("/V1", "/v1")).unwrap();
        }
        let rules = loaded(&policy, Format::Json).rules;
        for _ in 0..30 {
            let odd = Ask::odd(&mut chance);
            let (charges, is_blocked) = outcome(&rules, &odd);
            for read in odd.plain_readings(has_case) {
                plain += 1;
                let (wanted, blocks) = outcome(&rules, &read);
                assert!(is_blocked || !blocks, "{seed} {odd:?} {read:?} {policy}");
                let is_there = |(name, cost): (&String, &u32)| {
                    charges.get(name).is_some_and(|charged| cost <= charged)
                };
                let all_there = is_blocked || wanted.iter().all(is_there);
                assert!(all_there, "{seed} {odd:?} {charges:?} {read:?} {wanted:?} {policy}");
            }
        }
    }
    assert!(50_000 < plain, "only {plain} readings were tried");
}
