//! What envoyproxy/ratelimit's files mean, rule by rule, and beside a search that is too slow.

use serde_json::json;

use super::*;
use crate::chance::Chance;
use crate::source::Format;

#[track_caller]
fn rules(descriptors: &str) -> EnvoyRules {
    let text = format!("domain: web\ndescriptors:\n{descriptors}");
    EnvoyRules::from_bytes("web.yaml", text.as_bytes()).unwrap_or_else(|it| panic!("{it}")).rules
}

/// The limit of a descriptor, by its number of requests.
fn found(rules: &EnvoyRules, entries: &[(&str, &str)]) -> Option<u32> {
    let entries = entries.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes()));
    let number = rules.find("web", entries)?;
    Some(rules.limits()[number].requests_per_unit)
}

/// What is said about a file: of each problem its line and its message.
fn said(text: &str) -> Vec<String> {
    let report = match EnvoyRules::from_bytes("web.yaml", text.as_bytes()) {
        Ok(loaded) => loaded.report,
        Err(report) => report,
    };
    report.problems().map(|it| format!("{}:{} {}", it.line, it.column, it.message)).collect()
}

#[track_caller]
fn refused(text: &str, message: &str) {
    assert_eq!(said(text), [message], "{text}");
    assert!(EnvoyRules::from_bytes("web.yaml", text.as_bytes()).is_err());
}

const LIMIT: &str = "rate_limit: { unit: minute, requests_per_unit: ";

#[test]
fn an_exact_value_comes_first_then_patterns_in_the_order_of_the_file_then_the_bare_key() {
    let rules = rules(&format!(
        "
- {{ key: path, {LIMIT} 1 }} }}
- {{ key: path, value: /a*, {LIMIT} 2 }} }}
- {{ key: path, value: /*b, {LIMIT} 3 }} }}
- {{ key: path, value: /ab, {LIMIT} 4 }} }}
"
    ));
    let cases = [("/ab", 4), ("/acb", 2), ("/cb", 3), ("/c", 1), ("", 1), ("/a", 2)];
    for (value, limit) in cases {
        assert_eq!(found(&rules, &[("path", value)]), Some(limit), "{value}");
    }
    assert_eq!(found(&rules, &[("route", "/ab")]), None);
}

#[test]
fn a_star_stands_for_any_run_of_characters_anywhere() {
    let rules = rules(&format!("- {{ key: k, value: 'a*b*', {LIMIT} 1 }} }}\n"));
    for (value, is_found) in [("ab", true), ("axxbyy", true), ("a*b*", true), ("ba", false)] {
        assert_eq!(found(&rules, &[("k", value)]).is_some(), is_found, "{value}");
    }
}

#[test]
fn the_depth_of_a_descriptor_must_be_that_of_the_path() {
    let rules = rules(&format!(
        "
- key: a
  {LIMIT} 1 }}
  descriptors:
  - {{ key: b, {LIMIT} 2 }} }}
"
    ));
    assert_eq!(found(&rules, &[("a", "")]), Some(1));
    assert_eq!(found(&rules, &[("a", ""), ("b", "")]), Some(2));
    assert_eq!(found(&rules, &[("a", ""), ("c", "")]), None);
    assert_eq!(found(&rules, &[("a", ""), ("b", ""), ("c", "")]), None);
    assert_eq!(found(&rules, &[]), None);
}

#[test]
fn a_level_that_was_entered_is_not_left_for_another() {
    let rules = rules(&format!(
        "
- {{ key: a, value: x, descriptors: [{{ key: b, {LIMIT} 1 }} }}] }}
- {{ key: a, descriptors: [{{ key: c, {LIMIT} 2 }} }}] }}
"
    ));
    assert_eq!(found(&rules, &[("a", "x"), ("c", "")]), None);
    assert_eq!(found(&rules, &[("a", "y"), ("c", "")]), Some(2));
}

#[test]
fn a_descriptor_without_a_limit_and_without_children_lets_pass() {
    let rules =
        rules(&format!("- {{ key: ip, value: 10.0.0.1 }}\n- {{ key: ip, {LIMIT} 1 }} }}\n"));
    assert_eq!(found(&rules, &[("ip", "10.0.0.1")]), None);
    assert_eq!(found(&rules, &[("ip", "10.0.0.2")]), Some(1));
}

#[test]
fn an_unknown_domain_has_no_limits() {
    let rules = rules(&format!("- {{ key: a, {LIMIT} 1 }} }}\n"));
    assert!(rules.has_domain("web") && !rules.has_domain("api"));
    assert_eq!(rules.find("api", [(&b"a"[..], &b""[..])]), None);
}

#[test]
fn values_are_as_they_were_typed() {
    let rules = rules(&format!("- {{ key: 7, value: true, {LIMIT} 1 }} }}\n"));
    assert_eq!(found(&rules, &[("7", "true")]), Some(1));
}

#[test]
fn a_flag_is_true_or_false_with_a_limit_and_without() {
    let message = "3:25 `quota_mode` takes `true` or `false`, not the text `maybe`";
    refused(&in_web("{ key: a, quota_mode: maybe }"), message);
}

#[test]
fn a_limit_is_read_in_full() {
    let rules = rules(
        "
- key: plan
  value: free
  descriptors:
  - key: file
    value: files/*
    share_threshold: true
    shadow_mode: true
    quota_mode: true
    value_to_metric: true
    metadata: { tier: free, weight: 1.5, tags: [a, 2, null] }
    rate_limit:
      unit: MONTH
      requests_per_unit: 4294967295
      name: files
      replaces: [{ name: other }]
- { key: admin, rate_limit: { unlimited: true } }
- { key: bad, rate_limit: { unit: second, requests_per_unit: 0 } }
",
    );
    let limit = &rules.limits()[0];
    assert_eq!(&*limit.path, r#""web"/"plan"="free"/"file"="files/*""#);
    assert_eq!((limit.requests_per_unit, limit.unit), (u32::MAX, Some(EnvoyUnit::Month)));
    assert_eq!((limit.name.as_deref(), &*limit.replaces), (Some("files"), &["other".into()][..]));
    assert!(limit.is_shadow && limit.is_quota && limit.has_detailed_metric);
    assert_eq!(*limit.shared, [None, Some("files/*".into())]);
    let metadata = json!({"tier": "free", "weight": 1.5, "tags": ["a", 2, null]});
    assert_eq!(serde_json::Value::Object(limit.metadata.clone()), metadata);
    assert!(rules.limits()[1].is_unlimited());
    assert_eq!((rules.limits()[2].requests_per_unit, rules.limits()[2].is_unlimited()), (0, false));
}

#[test]
fn a_month_has_30_days_and_a_year_365() {
    let days = |unit: EnvoyUnit| unit.duration().as_secs() / 86_400;
    assert_eq!((days(EnvoyUnit::Week), days(EnvoyUnit::Month)), (7, 30));
    assert_eq!((days(EnvoyUnit::Year), EnvoyUnit::Hour.duration().as_secs()), (365, 3_600));
}

#[test]
fn fields_that_are_left_empty_are_as_good_as_not_there() {
    let text = "domain: web\ndescriptors:\n- { key: a, value: , rate_limit: , descriptors: [] }\n";
    assert_eq!(said(text), Vec::<String>::new());
    assert_eq!(said("domain: web\ndescriptors:\n"), Vec::<String>::new());
}

fn in_web(descriptor: &str) -> String {
    format!("domain: web\ndescriptors:\n- {descriptor}\n")
}

#[test]
fn unknown_keys_are_refused() {
    refused("domian: web\ndomain: a", "1:1 unknown key `domian` in a domain");
    refused(&in_web("{ key: a, values: b }"), "3:13 unknown key `values` in a descriptor");
    refused(
        &in_web("{ key: a, rate_limit: { unit: day, requests_per_unit: 1, burst: 2 } }"),
        "3:60 unknown key `burst` in a rate limit",
    );
}

#[test]
fn a_field_in_the_wrong_place_is_told_but_does_no_harm() {
    let text =
        in_web("{ key: a, rate_limit: { unit: day, requests_per_unit: 1, shadow_mode: true } }");
    assert_eq!(said(&text), ["3:60 `shadow_mode` does nothing in a rate limit"]);
    assert!(EnvoyRules::from_bytes("web.yaml", text.as_bytes()).is_ok());
}

#[test]
fn empty_keys_are_refused() {
    refused(&in_web("{ value: a }"), "3:5 a descriptor has an empty key");
    refused(&in_web("{ key: '' }"), "3:10 a descriptor has an empty key");
}

#[test]
fn an_empty_domain_is_refused() {
    refused("descriptors: [{ key: a }]", "1:1 a file needs a domain");
    refused("domain: ''", "1:1 a file needs a domain");
}

#[test]
fn duplicate_paths_are_refused() {
    refused(&in_web("{ key: a }\n- { key: a }"), "4:10 a second descriptor for `a`");
    refused(
        &in_web("key: a\n  descriptors: [{ key: b, value: c* }, { key: b, value: c* }]"),
        "4:47 a second descriptor for `b=c*`",
    );
    // These are two, where upstream joins key and value by a line.
    assert!(said(&in_web("{ key: a, value: b }\n- { key: a_b }")).is_empty());
}

#[test]
fn bad_units_are_refused() {
    let limit = |it: &str| in_web(&format!("{{ key: a, rate_limit: {{ {it} }} }}"));
    refused(&limit("unit: decade, requests_per_unit: 1"), "3:33 there is no unit `decade`");
    refused(&limit("unit: unknown, requests_per_unit: 1"), "3:33 there is no unit `unknown`");
    refused(&limit("requests_per_unit: 1"), "3:27 there is no unit ``");
}

#[test]
fn a_unit_beside_unlimited_is_refused() {
    let text = in_web("{ key: a, rate_limit: { unlimited: true, unit: day } }");
    refused(&text, "3:50 a limit that is unlimited has no unit");
}

#[test]
fn replacing_oneself_is_refused() {
    let limit = |it: &str| {
        in_web(&format!(
            "{{ key: a, rate_limit: {{ unit: day, requests_per_unit: 1, name: b, \
             replaces: {it} }} }}"
        ))
    };
    refused(&limit("[{ name: b }]"), "3:82 a limit cannot replace itself");
    refused(&limit("[{ name: '' }]"), "3:82 what is replaced has no name");
}

#[test]
fn share_threshold_without_a_star_is_refused() {
    let message = "3:40 `share_threshold` is for values with a `*`";
    refused(&in_web("{ key: a, value: b, share_threshold: true }"), message);
}

#[test]
fn numbers_that_are_none_are_refused() {
    let limit = |it: &str| {
        in_web(&format!("{{ key: a, rate_limit: {{ unit: day, requests_per_unit: {it} }} }}"))
    };
    for wrong in ["-1", "4294967296", "1.5", "many"] {
        assert!(EnvoyRules::from_bytes("web.yaml", limit(wrong).as_bytes()).is_err(), "{wrong}");
    }
}

#[test]
fn a_domain_in_two_files_is_refused() {
    let file = |name: &str| (name.to_owned(), b"domain: web".to_vec(), Format::Yaml);
    let report = EnvoyRules::of(&[file("a.yaml"), file("b.yaml")]).unwrap_err();
    let found = report.problems().next().unwrap();
    assert_eq!((&*found.file, &*found.message), ("b.yaml", "another file has the domain `web`"));
}

#[test]
fn more_limits_than_a_store_numbers_are_refused() {
    let limit = |number: usize| format!("- {{ key: a, value: v{number}, {LIMIT} 1 }} }}\n");
    let text = |count: usize| {
        let limits: String = (0..count).map(limit).collect();
        format!("domain: web\ndescriptors:\n{limits}")
    };
    assert!(EnvoyRules::from_bytes("web.yaml", text(4_000).as_bytes()).is_ok());
    assert_eq!(said(&text(4_001)), ["4003:10 more than 4000 limits"]);
}

/// A descriptor as it is written, for the slow search.
#[derive(Debug)]
struct Written {
    key: &'static str,
    value: &'static str,
    limit: Option<usize>,
    below: Vec<Written>,
}

const KEYS: [&str; 3] = ["a", "b", "a_x"];
const VALUES: [&str; 7] = ["", "x", "y", "x*", "*", "*y", "x*y"];
const ASKED: [&str; 6] = ["", "x", "y", "xy", "xzy", "z"];

fn written(chance: &mut Chance, depth: u32, count: &mut usize) -> Vec<Written> {
    let mut level: Vec<Written> = Vec::new();
    for _ in 0..chance.below(5) {
        let (key, value) = (*chance.pick(&KEYS), *chance.pick(&VALUES));
        if level.iter().any(|it| (it.key, it.value) == (key, value)) {
            continue;
        }
        let limit = (chance.below(2) == 0).then(|| {
            *count += 1;
            *count
        });
        let below = if 0 < depth { written(chance, depth - 1, count) } else { Vec::new() };
        level.push(Written { key, value, limit, below });
    }
    level
}

fn as_text(level: &[Written]) -> String {
    let one = |it: &Written| {
        let limit = it.limit.map_or_else(String::new, |limit| {
            format!(", rate_limit: {{ unit: day, requests_per_unit: {limit} }}")
        });
        let (key, value, below) = (it.key, it.value, as_text(&it.below));
        format!("{{ key: '{key}', value: '{value}'{limit}, descriptors: {below} }}")
    };
    format!("[{}]", level.iter().map(one).collect::<Vec<_>>().join(", "))
}

fn slowly(level: &[Written], entries: &[(&str, &str)]) -> Option<u32> {
    let ((key, value), rest) = entries.split_first()?;
    let of_key = || level.iter().filter(|it| it.key == *key);
    let next = of_key()
        .find(|it| !it.value.contains('*') && it.value == *value && !it.value.is_empty())
        .or_else(|| of_key().find(|it| it.value.contains('*') && fits(it.value, value)))
        .or_else(|| of_key().find(|it| it.value.is_empty()))?;
    if rest.is_empty() {
        return next.limit.map(|it| u32::try_from(it).unwrap());
    }
    slowly(&next.below, rest)
}

fn fits(pattern: &str, value: &str) -> bool {
    match pattern.chars().next() {
        None => value.is_empty(),
        Some('*') => (0..=value.len()).any(|at| fits(&pattern[1..], &value[at..])),
        Some(first) => value.starts_with(first) && fits(&pattern[1..], &value[1..]),
    }
}

#[test]
fn the_search_finds_what_a_slow_one_finds() {
    let (mut hits, mut asked) = (0, 0);
    for seed in 0..2_000 {
        let mut chance = Chance::of(seed);
        let tree = written(&mut chance, 2, &mut 0);
        let text = format!("{{ domain: web, descriptors: {} }}", as_text(&tree));
        let rules = EnvoyRules::from_bytes("web.yaml", text.as_bytes()).unwrap().rules;
        for _ in 0..50 {
            let mut entry = || (*chance.pick(&KEYS), *chance.pick(&ASKED));
            let entries = [entry(), entry(), entry()];
            let entries = &entries[..=usize::try_from(chance.below(3)).unwrap()];
            let wanted = slowly(&tree, entries);
            assert_eq!(found(&rules, entries), wanted, "seed {seed}: {entries:?} in {text}");
            (hits, asked) = (hits + usize::from(wanted.is_some()), asked + 1);
        }
    }
    assert!(asked / 20 < hits, "only {hits} of {asked} were for a limit");
}
