//! Paths with `.` and `..`, which some applications follow and others take for names: a rule is for
//! a request by either reading, and lets it pass only by both.

use tidegate_core::Tick;

use crate::explain::Does;
use crate::request::Sample;
use crate::rules::Rules;

pub(super) const NOW: Tick = Tick::from_micros(1_900_000_000_000_000);

/// The rules that count a request, with their costs; `blocked` or `passed` behind them where the
/// list is ended.
#[track_caller]
pub(super) fn plan(rules: &Rules, path: &str) -> String {
    let request = Sample::new(path).from_peer([192, 0, 2, 7].into());
    let facts = rules.facts(&request, NOW);
    let plan = rules.plan(&facts);
    let told = plan.charges.iter().map(|it| format!("{}={}", it.rule.name(), it.cost));
    let mut told: Vec<String> = told.collect();
    let explained = rules.explain(&facts);
    let counts = explained.iter().filter(|it| matches!(it.does, Does::Counts(_))).count();
    assert_eq!(counts, plan.charges.len(), "what is explained is what happens: {path}");
    told.extend(plan.stopped.map(|it| if it.blocks { "blocked" } else { "passed" }.to_owned()));
    told.join(" ")
}

pub(super) fn rules(text: &str) -> Rules {
    Rules::from_text(text).unwrap().rules
}

#[test]
fn a_limit_is_for_either_reading() {
    let rules = rules("rules: [{ name: a, match: { path: /search/** }, key: path, limit: 1/s }]");
    for path in [
        "/search",
        "/search/..",
        "/search/%2e%2e",
        "/search/x/../..",
        "/search/./..",
        "/x/../search",
        "/x/%2E./search/y",
    ] {
        assert_eq!(plan(&rules, path), "a=1", "{path}");
    }
    for path in ["/x/search/..", "/..", "/searches/.."] {
        assert_eq!(plan(&rules, path), "", "{path}");
    }
}

#[test]
fn a_segment_is_one_by_either_reading() {
    let rules = rules("rules: [{ name: a, match: { path: '/a/{id}' }, key: '{id}', limit: 1/s }]");
    for path in ["/a/..", "/a/.", "/a/b/.", "/a/b/../c"] {
        assert_eq!(plan(&rules, path), "a=1", "{path}");
    }
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
        ("/health/x", "passed"),
        ("/health/./x", "passed"),
        ("/health/../x", "rest=1"),
        ("/x/../health", "rest=1"),
        ("/easy/./x", "easy=1"),
        ("/easy/../x", "easy=1 rest=1"),
        ("/x/../admin", "blocked"),
        ("/admin/../x", "blocked"),
        ("/free/./x", ""),
        ("/free/../x", "rest=1"),
    ] {
        assert_eq!(plan(&rules, path), told, "{path}");
    }
}

#[test]
fn a_route_costs_what_is_dearer() {
    let rules = rules(
        "costs: [{ path: /cheap/**, cost: 2 }, { path: /export/**, cost: 10 }]
         rules: [{ name: a, limit: 100/s }]"
            .replace("\n         ", "\n")
            .as_str(),
    );
    for path in ["/export", "/cheap/../export", "/export/../cheap", "/export/..", "/./export"] {
        assert_eq!(plan(&rules, path), "a=10", "{path}");
    }
    assert_eq!(plan(&rules, "/cheap/./x"), "a=2");
}
