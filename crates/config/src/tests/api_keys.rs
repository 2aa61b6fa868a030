//! Known API keys: who is known by one, what the file of them says, and what is odd about it.

use std::path::Path;

use tidegate_core::Tick;

use super::identity::{NOW, key_in, loaded, request};
use crate::request::Sample;
use crate::source::Format;
use crate::{KeyFile, KeyHash, KeyOwner, ListedKey, Rules};

fn listed(key: &str, expires: Option<Tick>) -> ListedKey {
    ListedKey { hash: KeyHash::of(key.as_bytes()), expires }
}

/// The file `keys.yaml` of these tests: `acme` has two keys, and one that has expired.
pub(super) fn keys() -> KeyFile {
    let mut file = KeyFile::default();
    let keys = vec![
        listed("acme-1", None),
        listed("acme-2", Some(Tick::from_micros(NOW.get() + 1))),
        listed("acme-0", Some(NOW)),
    ];
    let acme = KeyOwner {
        about: Some("see # 7: \"the\" contract".to_owned()),
        tier: Some("pro".to_owned()),
        attributes: [("tenant".to_owned(), "a: 1".to_owned())].into(),
        keys,
    };
    file.owners.insert("acme".to_owned(), acme);
    for (name, tier) in [("Über & Söhne", Some("free")), ("true", None), ("7", None)] {
        let keys = vec![listed(name, None)];
        let tier = tier.map(ToOwned::to_owned);
        file.owners.insert(name.to_owned(), KeyOwner { tier, keys, ..KeyOwner::default() });
    }
    file
}

const KNOWN: &str = "
api_keys: { header: X-Api-Key, file: keys.yaml }
identify: { client: [api-key, ip] }
tiers: { default: free, names: [free, pro] }
";

fn with(key: &str) -> Sample {
    request("/").with_header("x-api-key", key)
}

#[track_caller]
fn check(key: &str, request: &Sample, expected: &str) {
    let rule = format!("{{ name: a, key: {key}, if_missing: skip, limit: 1/s }}");
    let loaded = loaded(&format!("{KNOWN}rules: [{rule}]"));
    assert_eq!(key_in(&loaded, request), expected, "{key}");
}

#[test]
fn only_a_key_that_was_given_out_is_an_identity() {
    for key in ["acme-1", "acme-2", " acme-1 "] {
        check("client", &with(key), "api-key=acme");
    }
    check("client", &with("Über & Söhne"), "api-key=Über & Söhne");
    for unknown in ["acme", "acme-0", "acme-3", "ACME-1", "", " ", &"k".repeat(5_000)] {
        check("client", &with(unknown), "ip=192.0.2.7");
        check("api-key", &with(unknown), "skipped");
    }
    let hash = KeyHash::of(b"acme-1").to_string();
    check("client", &with(&hash), "ip=192.0.2.7");
}

#[test]
fn what_the_file_says_of_the_owner_is_an_attribute() {
    for (attribute, expected) in [
        ("api-key", "api-key=acme"),
        ("api-key:name", "api-key=acme"),
        ("api-key:tier", "api-key:tier=pro"),
        ("api-key:tenant", "api-key:tenant=a: 1"),
        ("api-key:other", "skipped"),
        ("tier", "tier=pro"),
    ] {
        check(attribute, &with("acme-1"), expected);
    }
    for request in [with("true"), with("nobody's"), request("/").with_header("x-tier", "pro")] {
        check("tier", &request, "tier=free");
    }
}

#[test]
fn of_two_keys_none_counts() {
    let twice = with("acme-1").with_header("x-api-key", "acme-1");
    check("client", &twice, "api-key=acme");
    for other in ["nobody's", "true", "acme-2"] {
        let both = with("acme-1").with_header("x-api-key", other);
        check("client", &both, "ip=192.0.2.7");
        // It is not a way around a rule for those who have a key.
        check("api-key", &both, "api-key=(missing)");
    }
    check("client", &with("acme-1").with_header("x-api-key", " "), "api-key=acme");
}

#[test]
fn a_scheme_may_stand_before_a_key_in_authorization() {
    let policy = KNOWN.replace("X-Api-Key", "Authorization")
        + "rules: [{ name: a, key: client, limit: 1/s }]";
    let loaded = loaded(&policy);
    for (line, expected) in [
        ("Bearer acme-1", "api-key=acme"),
        ("bEaReR   acme-1", "api-key=acme"),
        ("acme-1", "api-key=acme"),
        ("Basic acme-1", "ip=192.0.2.7"),
        ("Bearer", "ip=192.0.2.7"),
    ] {
        let request = request("/").with_header("authorization", line);
        assert_eq!(key_in(&loaded, &request), expected, "{line}");
    }
}

#[test]
fn a_match_and_an_override_are_for_an_owner() {
    let policy = format!(
        "{KNOWN}rules:\n  - {{ name: a, match: {{ api_key: {{ tenant: 'a*', tier: pro }} }}, \
         key: api-key, limit: 1/s, overrides: {{ acme: 5/s }} }}"
    );
    let loaded = loaded(&policy);
    let asks = |request: &Sample| {
        let facts = loaded.rules.facts(request, NOW);
        let plan = loaded.rules.plan(&facts);
        plan.charges.first().map(|it| it.rule.variants()[it.variant].id().to_owned())
    };
    assert_eq!(asks(&with("acme-1")).as_deref(), Some("=acme"));
    // A second key is no way around it.
    assert!(asks(&with("nobody's").with_header("x-api-key", "acme-1")).is_some());
    assert_eq!(asks(&with("7")), None);
    assert_eq!(asks(&with("acme")), None);
}

/// Which of two keys the application takes is not for us to know.
#[test]
fn a_second_key_is_no_way_out_of_a_tier() {
    let policy = format!(
        "{}rules:
  - {{ name: free, match: {{ tier: free }}, unlimited: true }}
  - {{ name: pro, match: {{ tier: pro }}, block: true }}",
        KNOWN.replace("{ default", "{ from: api-key:tier, default")
    );
    let by_match = loaded(&policy).rules;
    let charged = "rules: [{ name: a, limit: { free: 9/s, pro: block } }]";
    let charged = KNOWN.replace("{ default", "{ from: api-key:tier, default") + charged;
    let by_limit = loaded(&charged).rules;
    for rules in [&by_match, &by_limit] {
        let is_blocked = |sample: &Sample| {
            let facts = rules.facts(sample, NOW);
            rules.plan(&facts).stopped.is_some_and(|it| it.blocks)
        };
        assert!(is_blocked(&with("acme-1")));
        for other in ["junk", "acme-2", "acme-0", "7", "Über & Söhne"] {
            assert!(is_blocked(&with("acme-1").with_header("x-api-key", other)), "{other}");
            assert!(is_blocked(&with(other).with_header("x-api-key", "acme-1")), "{other}");
        }
        let crowd =
            (0..40).fold(request("/"), |it, key| it.with_header("x-api-key", format!("{key}")));
        assert!(is_blocked(&crowd.with_header("x-api-key", "acme-1")));
        assert!(!is_blocked(&with("7").with_header("x-api-key", "junk")));
    }
}

#[test]
fn an_unknown_key_is_refused_where_the_policy_says_so() {
    let rules = "rules: [{ name: a, match: { path: /a }, limit: 1/s }]";
    let ignoring = loaded(&format!("{KNOWN}{rules}")).rules;
    let refusing =
        loaded(&format!("{}{rules}", KNOWN.replace("yaml }", "yaml, unknown: refuse }"))).rules;
    let refused = |rules: &Rules, request: &Sample| {
        let facts = rules.facts(request, NOW);
        let plan = rules.plan(&facts);
        assert_eq!(rules.walk(&facts, |_, _| ()).is_unknown_key, plan.is_unknown_key);
        plan.is_unknown_key
    };
    let both = with("acme-1").with_header("x-api-key", "acme-2");
    // A route is remembered, and who may pass is not.
    for _ in 0..3 {
        for odd in [with("acme-0"), with("nobody's"), with(&"k".repeat(5_000)), both.clone()] {
            assert!(refused(&refusing, &odd) && !refused(&ignoring, &odd));
        }
        for good in [with("acme-1"), with(""), request("/")] {
            assert!(!refused(&refusing, &good));
        }
    }
    assert_eq!(refusing.challenge().as_deref(), Some("ApiKey header=\"x-api-key\""));
}

#[test]
fn a_file_is_written_as_it_is_read() {
    for file in [keys(), KeyFile::default()] {
        let text = file.text();
        assert_eq!(KeyFile::read(text.as_bytes(), Format::Yaml), Ok(file), "{text}");
    }
    let json =
        r#"{ "names": { "a": { "keys": [{ "sha256": "HASH", "expires": "2030-01-31" }] } } }"#;
    let json = json.replace("HASH", &KeyHash::of(b"k").to_string());
    let file = KeyFile::read(json.as_bytes(), Format::of_path(Path::new("keys.json"))).unwrap();
    let expires = Some(Tick::from_micros(1_896_048_000_000_000));
    assert_eq!((file.keys(), file.owners["a"].keys[0]), (1, listed("k", expires)));
    assert!(file.text().contains("expires: \"2030-01-31T00:00:00Z\""), "{}", file.text());
}

/// The lines of what is wrong with a file, and the whole of it.
#[track_caller]
fn wrong(text: &str, expected: &[&str]) {
    let problems = KeyFile::read(text.as_bytes(), Format::Yaml).unwrap_err();
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.starts_with(expected), "{told}");
    }
    assert_eq!(told.len(), expected.len(), "{told:?}");
    assert!(told.iter().all(|it| !it.contains("tg_")), "{told:?}");
}

#[test]
fn mistakes_have_lines_and_never_show_a_key() {
    let hash = KeyHash::of(b"k").to_string();
    wrong("", &["1: the file is empty"]);
    wrong("- tg_k", &["1: a file of keys is a map"]);
    wrong("names:\n  a:\n    keys:\n      - tg_k", &["4: a key is a map of fields"]);
    wrong("names:\n  a: { keys: tg_k }", &["2: `keys` takes a list"]);
    wrong("names:\n  a:\n    keys: [{ sha256: tg_k }]", &["3: `sha256` takes 64"]);
    wrong("names: { a: { keys: [{ sha256: 12345678 }] } }", &["1: `sha256` takes 64"]);
    wrong(
        &format!(
            "names:\n  a: {{ keys: [{{ sha256: {hash} }}] }}\n  b: {{ keys: \
             [{{ sha256: {hash} }}] }}"
        ),
        &["3: the key 8254c329a928 is of `a` already"],
    );
    wrong(
        &format!("names:\n  a: {{ keys: [{{ sha256: {hash}, expires: 31.1.2030 }}] }}"),
        &["2: `31.1.2030` is no date and no time"],
    );
    let many = [&*hash; 9].map(|hash| format!("{{ sha256: {hash} }}")).join(", ");
    assert!(
        KeyFile::read(format!("names: {{ a: {{ keys: [{many}] }} }}").as_bytes(), Format::Yaml)
            .unwrap_err()[0]
            .message
            .contains("has 9 keys")
    );
    wrong(
        &format!("names: {{ \" a\": {{ keys: [{{ sha256: {hash} }}] }} }}"),
        &["1: ` a` cannot be"],
    );
}

#[test]
fn a_date_begins_at_midnight() {
    let seconds = |text: &str| KeyFile::moment(text).map(|at| at.get() / 1_000_000);
    assert_eq!(seconds("2030-01-31"), Some(1_896_048_000));
    assert_eq!(seconds("2030-01-31T01:00:00+01:00"), Some(1_896_048_000));
    assert_eq!(seconds("1960-01-01"), Some(0));
    for wrong in ["", "soon", "2030-02-31", "2030-01-31T00:00:00", "20300131", "2030"] {
        assert_eq!(seconds(wrong), None, "{wrong}");
    }
}
