//! One credential in many spellings: each has the bucket of all, and none has another's.

use super::identity::{NOW, loaded, request};
use crate::request::Sample;

/// The key that the only rule counts for a request; `blocked` where that ends it.
fn key(policy: &str, sample: &Sample) -> String {
    let loaded = loaded(policy);
    let facts = loaded.rules.facts(sample, NOW);
    let plan = loaded.rules.plan(&facts);
    if plan.stopped.is_some() {
        return "blocked".to_owned();
    }
    let Some(charge) = plan.charges.first() else { return "skipped".to_owned() };
    let variant = charge.rule.variants()[charge.variant].id();
    let parts = charge.key.iter().map(|part| format!("{}={}", part.source, part.value));
    format!("{}{variant}", parts.collect::<Vec<_>>().join(" "))
}

fn with(name: &str, values: &[&str]) -> Sample {
    values.iter().fold(request("/"), |sample, value| sample.with_header(name, value))
}

/// A client that makes up a value beside the real one chooses a bucket, where one of them counts.
#[test]
fn what_is_sent_twice_with_other_values_counts_as_missing_and_together() {
    let by_header = "rules: [{ name: a, key: header:x-api-key, if_missing: skip, limit: 1/s }]";
    for values in [&["k1", "k2"][..], &["k2", "k1"], &["k1", ""], &["", "k1"], &["k", "k", "K"]] {
        let key = key(by_header, &with("x-api-key", values));
        assert_eq!(key, "header:x-api-key=(missing)", "{values:?}");
    }
    assert_eq!(key(by_header, &with("x-api-key", &["k1", " k1 "])), "header:x-api-key=k1");
    assert_eq!(key(by_header, &with("x-api-key", &["", ""])), "skipped");

    let by_query = "rules: [{ name: a, key: 'query:api_key', if_missing: skip, limit: 1/s }]";
    for query in [
        "api_key=x&api_key=real",
        "api_key=real&api_key=x",
        "api_key=&api_key=real",
        "api_key=x&API_KEY=real",
        "api_key=x&api.key=real",
        "api_key=x&api_key[]=real",
        "api_key=x&a=b;api_key=real",
        "api_key=real;x",
    ] {
        let key = key(by_query, &request(&format!("/?{query}")));
        assert_eq!(key, "query:api_key=(missing)", "{query}");
    }
    for query in ["api_key=a%20b&api_key=a+b", "%61pi_key=a+b"] {
        assert_eq!(key(by_query, &request(&format!("/?{query}"))), "query:api_key=a b");
    }
    let identity = "identify: { client: [header:x-api-key, ip] }
rules: [{ name: a, key: client, limit: 1/s }]";
    assert_eq!(key(identity, &with("x-api-key", &["k1", "k2"])), "ip=192.0.2.7");
}

#[test]
fn a_cookie_and_a_scheme_have_one_spelling() {
    let by_cookie = "rules: [{ name: a, key: cookie:sid, limit: 1/s }]";
    for cookie in ["sid=abc", "sid=%61bc", "sid=a%62%63", "sid=\"%61bc\"", "sid=abc; sid=%61bc"] {
        assert_eq!(key(by_cookie, &with("cookie", &[cookie])), "cookie:sid=abc", "{cookie}");
    }
    let by_header = "rules: [{ name: a, key: header:authorization, limit: 1/s }]";
    for value in ["Bearer AbC", "bEaReR AbC", "BEARER   AbC", "bearer\tAbC"] {
        let key = key(by_header, &with("authorization", &[value]));
        assert_eq!(key, "header:authorization=Bearer AbC", "{value}");
    }
}

/// Those in the file may be spelled in any way, too.
#[test]
fn matches_and_overrides_are_for_every_spelling() {
    for (like, sent) in [
        ("bearer *", "Bearer AbC"),
        ("Bearer *", "bEaReR AbC"),
        ("basic*", "BASIC abc"),
        ("ApiKey x", "apikey  x"),
        ("T*", "Token"),
        ("t*", "token"),
    ] {
        let policy = format!(
            "rules:
  - {{ name: a, match: {{ header: {{ authorization: '{like}' }} }}, block: true }}"
        );
        assert_eq!(key(&policy, &with("authorization", &[sent])), "blocked", "{like} {sent}");
    }
    let policy = "rules: [{ name: a, match: { cookie: { role: 'a%20b*' } }, block: true }]";
    assert_eq!(key(policy, &with("cookie", &["role=%61 b"])), "blocked");
    let policy = "rules: [{ name: a, key: header:authorization, limit: 9/s,
                            overrides: { 'bearer evil': block } }]";
    assert_eq!(key(policy, &with("authorization", &["BEARER evil"])), "blocked");
    let policy = "rules: [{ name: a, key: cookie:sid, limit: 9/s, overrides: { '%61b': block } }]";
    assert_eq!(key(policy, &with("cookie", &["sid=a%62"])), "blocked");
}

/// A second value is no way out of a quota that is smaller, and none into one that is larger.
#[test]
fn an_override_that_gives_less_is_for_each_value_that_is_said() {
    let policy = "identify: { client: [header:k, query:k, ip] }
rules: [{ name: a, key: client, limit: 10/min,
          overrides: { evil: block, slow: 1/min, burst: { rate: 10/min, burst: 5 }, good: 99/min,
                       free: unlimited } }]";
    let policy = &policy.replace("burst: { rate: 10/min, burst: 5 }, ", "");
    for (values, expected) in [
        (&["slow"][..], "header:k=slow=slow"),
        (&["slow", "x"], "header:k=slow=slow"),
        (&["x", "slow", "good"], "header:k=slow=slow"),
        (&["slow", "evil"], "blocked"),
        (&["good", "x"], "ip=192.0.2.7"),
        (&["free", "good"], "ip=192.0.2.7"),
        (&["good", "good"], "header:k=good=good"),
    ] {
        assert_eq!(key(policy, &with("k", values)), expected, "{values:?}");
    }
    assert_eq!(key(policy, &request("/?k=x&k=evil")), "blocked");
    // What stands behind the one that is present is nobody's.
    assert_eq!(
        key(policy, &request("/?k=x&k=evil").with_header("k", "good")),
        "header:k=good=good"
    );
    let together = "rules: [{ name: a, key: [header:k, query:k], limit: 10/min,
                              overrides: [{ key: [a, b], limit: block }] }]";
    assert_eq!(key(together, &with("k", &["a"])), "header:k=a query:k=(missing)");
    let torn = request("/?k=x&k=b").with_header("k", "y").with_header("k", "a");
    assert_eq!(key(together, &torn), "blocked");
    let many = (0..9_000).fold(String::new(), |all, number| all + "k=" + &number.to_string() + "&");
    assert_eq!(key(policy, &request(&format!("/?{many}k=evil"))), "blocked");
}

#[test]
fn a_wider_network_counts_as_one() {
    let by_site = "identify: { ipv6_prefix: 56 }
rules: [{ name: a, key: ip/48, limit: 9/s, overrides: { '2001:db8:9:7::1': block } }]";
    let from = |peer: &str| key(by_site, &Sample::new("/").from_peer(peer.parse().unwrap()));
    assert_eq!(from("2001:db8:1:ff::7"), "ip/48=2001:db8:1::/48");
    assert_eq!(from("::ffff:192.0.2.7"), "ip/48=192.0.2.7");
    assert_eq!(from("2001:db8:9:8::2"), "blocked");
    let narrow = "rules: [{ name: a, key: ip/128, limit: 9/s }]";
    let sample = Sample::new("/").from_peer("2001:db8:1:2::7".parse().unwrap());
    assert_eq!(key(narrow, &sample), "ip/128=2001:db8:1:2::/64", "never narrower than a client");
    for bits in ["", "0", "129", "x", "-1"] {
        let text = format!("rules: [{{ name: a, key: ip/{bits}, limit: 9/s }}]");
        let report = crate::rules::Rules::from_text(&text).unwrap_err().to_string();
        assert!(report.contains("is no network of IPv6"), "{report}");
    }
}
