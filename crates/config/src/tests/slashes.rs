//! Paths with a `%2F`, which some applications and proxies take for a slash and others for a letter
//! of a name: a rule is for a request by any reading, and lets it pass only by all of them.

use tidegate_core::fair::Class;

use super::dots::{NOW, plan, rules};
use crate::request::Sample;
use crate::rules::Rules;

/// The key that each rule counts.
fn keys(rules: &Rules, path: &str) -> Vec<String> {
    let request = Sample::new(path).from_peer([192, 0, 2, 7].into());
    let facts = rules.facts(&request, NOW);
    let plan = rules.plan(&facts);
    plan.charges.iter().map(|it| rules.shown(&it.key[0])).collect()
}

#[test]
fn a_limit_is_for_any_reading() {
    let rules = rules("rules: [{ name: a, match: { path: /login/** }, limit: 1/s }]");
    for path in [
        "/login",
        "/login%2Fx",
        "/%2Flogin",
        "/%2flogin%2F",
        "/x%2F..%2Flogin",
        "/x%2F%2e%2E%2flogin",
        "/health/..%2Flogin",
        "/health/%2e%2e%2flogin",
        "/x/..%2F../login/y",
        "%2Flogin",
        // Decoded, and nothing followed.
        "/login%2F..",
        "/login%2F../../x",
        // By one of the others only, each in turn.
        "/x/../login/y%2F..%2F..",
        "/login/../x%2Fy",
        "/x/y%2F../../login/../../..%2Flogin",
    ] {
        assert_eq!(plan(&rules, path), "a=1", "{path}");
    }
    for path in [
        "/x%2Flogin",
        "/x/..%2Flogins",
        // Encoded twice, or not at all.
        "/%252Flogin",
        "/x%252F..%252Flogin",
        "/x%2F..%2F%252Flogin",
        "/x%25252F..%252flogin",
        "/%2%46login",
        "/%2login",
        "/%c0%aflogin",
    ] {
        assert_eq!(plan(&rules, path), "", "{path}");
    }
}

#[test]
fn a_slash_in_a_name_stays_one() {
    let text = "rules: [{ name: a, match: { path: '/a/{id}' }, key: '{id}', limit: 1/s },
                        { name: b, match: { path: /b%2Fc }, key: path, limit: 1/s }]";
    let rules = rules(text);
    assert_eq!(keys(&rules, "/a/b%2fc"), ["{id} = b%2Fc"]);
    assert_eq!(keys(&rules, "/a%2Fb"), ["{id} = b"]);
    assert_eq!(keys(&rules, "/b%2fc"), ["path = /b%2Fc"]);
    assert_eq!(keys(&rules, "/b/c"), [""; 0]);
}

#[test]
fn a_key_is_of_the_reading_that_the_rule_is_for() {
    let text = "rules: [{ name: all, key: path, limit: 9/s },
                        { name: login, match: { path: /login }, key: path, limit: 1/s },
                        { name: rest, key: path, limit: 9/s }]";
    let rules = rules(text);
    for path in ["/x%2F..%2Flogin", "/y%2F..%2Flogin"] {
        let sent = format!("path = {path}");
        assert_eq!(keys(&rules, path), [&*sent, "path = /login", &*sent]);
    }
}

#[test]
fn a_reading_that_follows_dots_goes_before_one_that_does_not() {
    let rules =
        rules("rules: [{ name: a, match: { path: '/a/{id}/**' }, key: '{id}', limit: 1/s }]");
    assert_eq!(keys(&rules, "/a/7%2Fx/.."), ["{id} = 7"]);
}

#[test]
fn what_lets_pass_does_so_by_every_reading() {
    let rules = rules(
        "rules: [{ name: health, match: { path: /health/** }, unlimited: true },
                 { name: easy, match: { path: /easy/** }, limit: 9/s, last: true },
                 { name: admin, match: { path: /admin/** }, block: true },
                 { name: rest, match: { not: { path: /free/** } }, limit: 1/s }]",
    );
    for (path, told) in [
        ("/health/a%2Fb", "passed"),
        ("/health/a%2F..%2Fb", "passed"),
        ("/health/./a%2Fb", "passed"),
        ("/health%2Fx", "rest=1"),
        ("/health/..%2Fx", "rest=1"),
        ("/health/./..%2Fx", "rest=1"),
        ("/health/..%2Fhealth", "passed"),
        ("/health/..%2Fhealth/..", "rest=1"),
        ("/easy/a%2Fx", "easy=1"),
        ("/easy/..%2Fx", "easy=1 rest=1"),
        ("/health/%2e%2e%2fadmin", "blocked"),
        ("/x%2F..%2Fadmin", "blocked"),
        ("/admin/..%2Fx", "blocked"),
        ("/free/a%2Fb", ""),
        ("/free/..%2Fx", "rest=1"),
        ("/health/..%252Fadmin", "passed"),
    ] {
        assert_eq!(plan(&rules, path), told, "{path}");
    }
}

#[test]
fn who_does_not_pass_is_told_why() {
    let rules = rules("rules: [{ name: a, match: { path: /health/** }, unlimited: true }]");
    let request = Sample::new("/health/..%2Fx");
    let facts = rules.facts(&request, NOW);
    let told: Vec<String> = rules.explain(&facts).iter().map(ToString::to_string).collect();
    let why = "is not for it: not every way to read its path and headers is";
    assert_eq!(told, [why]);
}

#[test]
fn a_route_costs_what_is_dearest() {
    let text = "costs: [{ path: /free/**, cost: 0 }, { path: /cheap/**, cost: 2 },
                        { path: /export/**, cost: 10 }]\nrules: [{ name: a, limit: 100/s }]";
    let rules = rules(text);
    for (path, told) in [
        ("/cheap/..%2Fexport", "a=10"),
        ("/export/..%2Fcheap", "a=10"),
        ("/cheap/x/../..%2Fexport", "a=10"),
        ("/export/../cheap%2F..%2Ffree", "a=10"),
        ("/cheap/a%2Fb", "a=2"),
        ("/free/a%2Fb", "a=0"),
        // What no cost is said for costs one, and that is more than nothing.
        ("/free/..%2Fx", "a=1"),
        ("/free/../x", "a=1"),
        ("/x/../free", "a=1"),
    ] {
        assert_eq!(plan(&rules, path), told, "{path}");
    }
}

#[test]
fn a_cost_that_is_said_goes_before_one_that_is_not() {
    let text = "costs: [{ path: /measured/**, cost: { from: response:x-cost, default: 1 } }]
rules: [{ name: a, limit: 100/s }]";
    let rules = rules(text);
    for path in ["/measured/..%2Fx", "/x/..%2Fmeasured"] {
        let request = Sample::new(path);
        assert_eq!(rules.route_cost(&rules.facts(&request, NOW)), Some(0), "{path}");
    }
}

#[test]
fn a_share_is_for_any_reading_and_a_class_for_all() {
    let rules = rules(
        "rules: [{ name: a, limit: 1/s }]
share: [{ name: s, match: { path: /export/** }, capacity: 4 in flight, by: ip, wait: 1s,
          class: { high: { path: /export/now/** } } }]",
    );
    for (path, class) in [
        ("/export/now/x%2Fy", Some(Class::High)),
        ("/export/now/..%2Fx", Some(Class::Normal)),
        ("/export/..%2Fexport%2Fnow", Some(Class::Normal)),
        ("/export%2Fx", Some(Class::Normal)),
        ("/x/..%2Fexport", Some(Class::Normal)),
        ("/x%2Fexport", None),
    ] {
        let request = Sample::new(path);
        let facts = rules.facts(&request, NOW);
        assert_eq!(rules.sharing_of(&facts).map(|it| it.class), class, "{path}");
    }
}

#[test]
fn the_longest_path_is_read_to_its_end() {
    let rules = rules("rules: [{ name: a, match: { path: /login }, limit: 1/s }]");
    let detour = "/x%2F..".repeat(40_000);
    assert_eq!(plan(&rules, &format!("{detour}%2Flogin")), "a=1");
    assert_eq!(plan(&rules, &format!("/{}login", "%2F".repeat(90_000))), "a=1");
}

/// What a rule misses by one reading, it finds by another: the second spelling is no way to be
/// skipped, nor to pay less.
#[test]
fn a_part_of_a_path_is_looked_for_by_every_reading() {
    let text = "costs: [{ path: '/export/*', cost: { from: segment:2 } }]
rules: [{ name: a, key: segment:2, if_missing: skip, limit: 900/s }]";
    let by_tenant = rules(text);
    assert_eq!(keys(&by_tenant, "/tenants%2Facme"), ["segment:2 = acme"]);
    assert_eq!(plan(&by_tenant, "/tenants"), "");
    // For everybody: by the first reading, in which there is no second segment.
    let by_nobody = rules(&text.replace("key: segment:2, if_missing: skip, ", ""));
    for rules in [by_tenant, by_nobody] {
        assert_eq!(plan(&rules, "/export/500"), "a=500");
        assert_eq!(plan(&rules, "/export%2F500"), "a=500");
    }
}
