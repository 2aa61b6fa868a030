//! Who a request is from: every kind of attribute, and what happens with odd ones.

use ring::hmac;
use serde_json::{Value, json};
use tidegate_core::Tick;

use super::messages::Pretended;
use crate::load::{Loaded, read};
use crate::request::Sample;
use crate::source::Format;
use crate::token::encode;

pub(super) const NOW_SECONDS: u64 = 1_900_000_000;
pub(super) const NOW: Tick = Tick::from_micros(NOW_SECONDS * 1_000_000);

#[track_caller]
pub(super) fn loaded(text: &str) -> Loaded {
    let files = [("policy.yaml".to_owned(), text.as_bytes().to_vec(), Format::Yaml)];
    read(&files, &Pretended).unwrap_or_else(|report| panic!("{report}"))
}

/// As many parts as a key may have, and as many ways as it may be made in, are not too many.
#[test]
fn single_keys_of_the_most_parts_and_ways_have_quotas_of_their_own() {
    let headers: Vec<String> = (0..16).map(|at| format!("header:h{at}")).collect();
    let values: Vec<String> = (0..16).map(|at| format!("v{at}")).collect();
    let (key, named) = (headers.join(", "), values.join(", "));
    let long = format!(
        "rules: [{{ name: a, key: [{key}], limit: 1/s, allow: unverified-key,
        overrides: [{{ key: [{named}], limit: 2/s }}] }}]"
    );
    let many = "
identify:
  one: [header:h0, header:h1, header:h2, ip]
  two: [header:h0, header:h1, header:h2, ip]
  six: [header:h0, header:h1, header:h2, ip]
rules:
  - { name: a, key: [one, two, six], limit: 1/s, allow: unverified-key,
      overrides: [{ key: [v0, v0, v0], limit: 2/s }] }";
    for policy in [&long, many] {
        let loaded = loaded(policy);
        let whose = |values: &[String]| {
            let mut request = Sample::new("GET /");
            for (at, value) in values.iter().enumerate() {
                request = request.with_header(&format!("h{at}"), value);
            }
            let facts = loaded.rules.facts(&request, NOW);
            loaded.rules.plan(&facts).charges[0].variant
        };
        let others: Vec<String> = values.iter().map(|it| format!("{it}x")).collect();
        assert_ne!(whose(&values), whose(&others), "{policy}");
    }
}

/// The key of the only rule, as `source=value` with a space between.
#[track_caller]
pub(super) fn key_in(loaded: &Loaded, request: &Sample) -> String {
    let facts = loaded.rules.facts(request, NOW);
    let plan = loaded.rules.plan(&facts);
    let Some(charge) = plan.charges.first() else { return "skipped".to_owned() };
    let parts = charge.key.iter().map(|part| format!("{}={}", part.source, part.value));
    parts.collect::<Vec<_>>().join(" ")
}

/// Checks the key of a rule with `key`, which is skipped where a part is missing.
#[track_caller]
fn check(above: &str, key: &str, request: &Sample, expected: &str) {
    let rule = format!("{{ name: a, key: {key}, if_missing: skip, limit: 1/s }}");
    let loaded = loaded(&format!("{above}\nrules:\n  - {rule}\n"));
    assert_eq!(key_in(&loaded, request), expected, "{key}");
}

pub(super) fn request(line: &str) -> Sample {
    Sample::new(line).from_peer([192, 0, 2, 7].into())
}

#[test]
fn every_kind_of_attribute_is_found() {
    let full = request("PoST /users/7//a%62c/?q=a%20b+c&id=x&id=y&e%6Dpty=&%71=a+b%20c")
        .with_header("Host", "API.Example.com.:8080")
        .with_header("X-Api-Key", "  k1 ")
        .with_header("X-Api-Key", "k2")
        .with_header("Cookie", "a=1; session = s1 ;b=2")
        .with_header("Cookie", "late=l; session=\"s1\"; torn=1; torn=2")
        .with_header("User-Agent", "curl/8")
        .with_attribute("user", "ada")
        .with_attribute("tenant", "acme");
    for (key, expected) in [
        ("ip", "ip=192.0.2.7"),
        ("method", "method=POST"),
        ("host", "host=api.example.com"),
        ("path", "path=/users/7/abc"),
        ("user", "user=ada"),
        ("attribute:user", "user=ada"),
        ("attribute:tenant", "attribute:tenant=acme"),
        ("attribute:other", "skipped"),
        ("header:X-Api-Key", "header:x-api-key=(missing)"),
        ("header:User-Agent", "header:user-agent=curl/8"),
        ("header:x-other", "skipped"),
        ("cookie:session", "cookie:session=s1"),
        ("cookie:late", "cookie:late=l"),
        ("cookie:Session", "skipped"),
        ("cookie:torn", "cookie:torn=(missing)"),
        ("query:q", "query:q=a b c"),
        ("query:id", "query:id=(missing)"),
        ("query:empty", "skipped"),
        ("query:other", "skipped"),
        ("segment:1", "segment:1=users"),
        ("segment:3", "segment:3=abc"),
        ("segment:4", "skipped"),
        ("client", "ip=192.0.2.7"),
        ("fingerprint", "ip=192.0.2.7 method=POST path=/users/7/abc header:user-agent=curl/8"),
        ("[user, host]", "user=ada host=api.example.com"),
        ("[user, query:other]", "skipped"),
    ] {
        check("", key, &full, expected);
    }
    check("", "tier", &full, "skipped");
    check("tiers: { header: x-tier, default: free }", "tier", &full, "tier=free");
}

#[test]
fn who_sends_no_user_agent_is_known_by_that() {
    let expected = "ip=192.0.2.7 method=GET path=/ header:user-agent=(missing)";
    check("", "fingerprint", &request("/"), expected);
    check("", "fingerprint", &Sample::new("/"), "skipped");
}

#[test]
fn a_segment_has_the_name_that_the_match_gives_it() {
    let loaded = loaded(
        "rules:\n  - name: a\n    match: { path: ['/users/{id}', '/teams/{id}/**'] }\n    \
         key: '{id}'\n    limit: 1/s\n",
    );
    assert_eq!(key_in(&loaded, &request("/users/%37")), "{id}=7");
    assert_eq!(key_in(&loaded, &request("/teams/8/a/b")), "{id}=8");
    assert_eq!(key_in(&loaded, &request("/users/7/a")), "skipped");
}

/// An alternative that is not for the request has no say in who it is from.
#[test]
fn only_a_match_that_holds_names_segments() {
    let loaded = loaded(
        "rules:\n  - name: a\n    match:\n      - { path: '/a/{id}', method: GET }\n      \
         - { path: '/{id}/b', method: POST }\n    key: '{id}'\n    limit: 1/s\n",
    );
    assert_eq!(key_in(&loaded, &request("GET /a/b")), "{id}=b");
    assert_eq!(key_in(&loaded, &request("POST /a/b")), "{id}=a");
}

#[test]
fn the_first_that_is_present_counts() {
    let identify = "identify: { client: [header:x-api-key, [cookie:a, cookie:b], ip] }";
    let cases = [
        (request("/").with_header("x-api-key", "k").with_header("cookie", "a=1;b=2"), 0),
        (request("/").with_header("cookie", "a=1;b=2"), 1),
        (request("/").with_header("x-api-key", " ").with_header("cookie", "a=1;b=2"), 1),
        (request("/").with_header("cookie", "a=1"), 2),
        (request("/").with_header("x-api-key", "k".repeat(1_025)), 2),
        (request("/"), 2),
        (Sample::new("/"), 3),
    ];
    let keys = ["header:x-api-key=k", "cookie:a=1 cookie:b=2", "ip=192.0.2.7", "skipped"];
    for (sample, expected) in cases {
        check(identify, "client", &sample, keys[expected]);
    }
    let longest = "k".repeat(1_024);
    let sample = request("/").with_header("x-api-key", &longest);
    check(identify, "client", &sample, &format!("header:x-api-key={longest}"));
}

/// Which of two values an application takes is not for us to know.
#[test]
fn a_cookie_with_two_values_has_none() {
    let identify = "identify: { client: [cookie:session, ip] }";
    for (cookie, key) in [
        ("session=a; session=b", "ip=192.0.2.7"),
        ("session=a; session=", "ip=192.0.2.7"),
        ("session=a; session=a", "cookie:session=a"),
        ("session=\"a\"", "cookie:session=a"),
        ("session=\"", "cookie:session=\""),
        ("sessions=b; session=a; session", "cookie:session=a"),
    ] {
        check(identify, "client", &request("/").with_header("cookie", cookie), key);
    }
    let lines = request("/").with_header("cookie", "session=a").with_header("cookie", "session=b");
    check(identify, "client", &lines, "ip=192.0.2.7");
}

/// A client that sends a second value beside the one that the application takes gets around neither
/// a rule that is skipped without a key, nor a match, nor a cost.
#[test]
fn a_second_value_is_no_way_around_a_rule() {
    for two in [
        request("/").with_header("cookie", "session=a; session=b"),
        request("/").with_header("cookie", "session=a").with_header("cookie", "session="),
    ] {
        check("", "cookie:session", &two, "cookie:session=(missing)");
    }
    check("", "query:key", &request("/?key=a&key=b"), "query:key=(missing)");
    check("", "query:key", &request("/?key=&key=b"), "query:key=(missing)");
    check("", "query:key", &request("/?key=a&key=a"), "query:key=a");
    check("", "query:key", &request("/?key=&key"), "skipped");

    // An override that gives less is for any request that says its value, too.
    let own =
        loaded("rules: [{ name: a, key: query:key, limit: 9/s, overrides: { evil: block } }]");
    for line in ["/?key=evil", "/?key=evil&key", "/?key=evil&key=x", "/?key=x&key=evil"] {
        let sample = request(line);
        assert!(own.rules.plan(&own.rules.facts(&sample, NOW)).stopped.is_some(), "{line}");
    }

    let blocks = loaded(
        "rules: [{ name: a, match: { cookie: { role: guest } }, block: true },
                 { name: b, match: { query: { full: '*' } }, block: true },
                 { name: c, match: { query: { kind: x*, page: '1' } }, block: true }]",
    );
    let is_blocked =
        |sample: &Sample| blocks.rules.plan(&blocks.rules.facts(sample, NOW)).stopped.is_some();
    for sample in [
        request("/").with_header("cookie", "role=guest; role=x"),
        request("/").with_header("cookie", "role=x; role=guest"),
        request("/?full=&full=1"),
        request("/?kind=a&page=2&kind=xy&page=1"),
    ] {
        assert!(is_blocked(&sample), "{sample:?}");
    }
    assert!(!is_blocked(&request("/?full=&full").with_header("cookie", "role=x; role=y")));

    let costly = loaded("rules: [{ name: a, limit: 1000/s, cost: { from: query:n } }]");
    for (line, cost) in [("/?n=1&n=50", 50), ("/?n=50&n=1", 50), ("/?n=1&n=x", 1000), ("/", 1)] {
        let sample = request(line);
        let facts = costly.rules.facts(&sample, NOW);
        assert_eq!(costly.rules.plan(&facts).charges[0].cost, cost, "{line}");
    }
}

/// A rule that is skipped does not apply, so it ends nothing either.
#[test]
fn whoever_leaves_a_key_out_meets_the_rules_below() {
    let both = "rules:
  - { name: keyed, key: header:x-api-key, if_missing: skip, limit: 100/s, last: true,
      allow: unverified-key }
  - { name: per-ip, key: ip, limit: 1/min }\n";
    let loaded = loaded(both);
    assert_eq!(loaded.report.warnings(), 0, "{}", loaded.report);
    assert_eq!(key_in(&loaded, &request("/")), "ip=192.0.2.7");
    let keyed = request("/").with_header("x-api-key", "k");
    let facts = loaded.rules.facts(&keyed, NOW);
    assert_eq!(loaded.rules.plan(&facts).charges.len(), 1);
    assert_eq!(key_in(&loaded, &keyed), "header:x-api-key=k");
    let sample = request("/");
    let facts = loaded.rules.facts(&sample, NOW);
    let told: Vec<String> = loaded.rules.explain(&facts).iter().map(ToString::to_string).collect();
    assert_eq!(told, ["is skipped: the request has no header:x-api-key", "counts it"]);
}

/// What is taken where nothing can be read is what the file says, also below the least that is
/// read.
#[test]
fn a_default_cost_is_taken_as_it_is_written() {
    for (cost, expected) in [
        ("{ from: query:n, default: 0 }", [0, 1, 7]),
        ("{ from: query:n, default: 0, min: 5 }", [0, 5, 7]),
        ("{ from: query:n, min: 5 }", [5, 5, 7]),
        ("{ from: query:n, max: 6, min: 0 }", [1, 0, 6]),
    ] {
        let loaded = loaded(&format!("rules: [{{ name: a, limit: 9/s, cost: {cost} }}]"));
        for (line, expected) in ["/", "/?n=0", "/?n=7"].into_iter().zip(expected) {
            let sample = request(line);
            let facts = loaded.rules.facts(&sample, NOW);
            assert_eq!(loaded.rules.plan(&facts).charges[0].cost, expected, "{cost} {line}");
        }
    }
}

/// The attack: a number that the application reads and the rule does not.
#[test]
fn an_odd_number_is_the_dearest_cost() {
    for (cost, odd) in [
        ("{ from: query:limit, default: 1, max: 100 }", 100),
        ("{ from: query:limit, default: 300, max: 100 }", 300),
        ("{ from: query:limit, default: 1 }", 900),
        ("{ from: query:limit }", 900),
    ] {
        let loaded = loaded(&format!("rules: [{{ name: a, limit: 900/s, cost: {cost} }}]"));
        let of = |line: &str| {
            let sample = request(line);
            let facts = loaded.rules.facts(&sample, NOW);
            loaded.rules.plan(&facts).charges[0].cost
        };
        for said in
            ["%2B100", "1e2", "100.0", "0x64", "100abc", "1_00", "%EF%BC%91", "-1", "1&limit=1e2"]
        {
            assert_eq!(of(&format!("/?limit={said}")), odd, "{cost} {said}");
        }
        assert_eq!(of("/?limit=70"), 70, "{cost}");
        assert_eq!(of("/?limit=+70"), 70, "{cost}");
        let absent = if cost.contains("300") { 300 } else { 1 };
        for line in ["/", "/?limit=", "/?limit&x=1e2"] {
            assert_eq!(of(line), absent, "{cost} {line}");
        }
    }
}

/// One quota for everybody does not make a rule one that asks every client alike.
#[test]
fn a_rule_with_one_quota_may_still_be_in_shadow_or_wait_for_the_response() {
    for (field, expected) in [
        ("burst: 9", (1, false, false)),
        ("shadow: true", (1, false, true)),
        ("counts_when: { status: 401 }", (1, true, false)),
        ("cost: 3", (3, false, false)),
        ("cost: { from: response:x-cost, default: 2 }", (2, true, false)),
    ] {
        let loaded = loaded(&format!("rules: [{{ name: a, limit: 9/s, {field} }}]"));
        let sample = request("/");
        let facts = loaded.rules.facts(&sample, NOW);
        let asks = loaded.rules.plan(&facts).charges[0].asks;
        assert_eq!((asks.cost, asks.is_open, asks.is_shadow), expected, "{field}");
    }
}

/// A value that is too long for a key is a way around neither a match, nor a cost, nor a rule that
/// is skipped without a key.
#[test]
fn nobody_gets_around_a_rule_by_saying_more() {
    let long = |start: &str| format!("{start}{}", "x".repeat(1_025));
    let of_bots = loaded(
        "rules: [{ name: a, match: { header: { user-agent: '*bot*' } }, block: true },
                 { name: b, match: { query: { q: '*' } }, key: ip, limit: 1/s }]",
    );
    let bot = request("/").with_header("user-agent", long("evilbot "));
    assert!(of_bots.rules.plan(&of_bots.rules.facts(&bot, NOW)).stopped.is_some());
    assert_eq!(key_in(&of_bots, &request(&format!("/?q={}", long("")))), "ip=192.0.2.7");

    let sample = request("/").with_header("x-api-key", long("k"));
    check("", "header:x-api-key", &sample, "header:x-api-key=(missing)");
    let identify = "identify: { client: [header:x-api-key] }";
    check(identify, "client", &sample, "header:x-api-key=(missing)");
    let identify = "identify: { account: [header:x-api-key], client: [account] }";
    check(identify, "client", &sample, "header:x-api-key=(missing)");
    let identify = "identify: { client: [header:x-api-key, header:x-other] }";
    check(identify, "client", &sample, "identity 0=(missing)");
    check("", "header:x-api-key", &request("/"), "skipped");

    let costly = loaded(
        "rules: [{ name: a, limit: 1000/s, cost: { from: query:n, default: 1, max: 100 } }]",
    );
    let sample = request(&format!("/?n={}99999", "0".repeat(1_020)));
    let facts = costly.rules.facts(&sample, NOW);
    assert_eq!(costly.rules.plan(&facts).charges[0].cost, 100);
}

#[test]
fn identities_are_made_of_those_above() {
    let identify = "identify: { account: [header:x-account], \
                    device: [[account, header:x-device], account], client: [device, ip] }";
    let account = request("/").with_header("x-account", "acme");
    let device = account.clone().with_header("x-device", "d1");
    check(identify, "client", &device, "header:x-account=acme header:x-device=d1");
    check(identify, "client", &account, "header:x-account=acme");
    check(identify, "client", &request("/").with_header("x-device", "d1"), "ip=192.0.2.7");
    check(
        identify,
        "[device, host]",
        &device.with_header("host", "h"),
        "header:x-account=acme header:x-device=d1 host=h",
    );
}

#[test]
fn bytes_that_are_no_text_are_kept_apart() {
    let loaded = loaded("rules: [{ name: a, key: header:x-api-key, limit: 1/s }]");
    let keys = [&b"\xff"[..], b"\xfe", "\u{fffd}".as_bytes(), b"(missing)", b""].map(|value| {
        let request = request("/").with_header("x-api-key", value);
        let facts = loaded.rules.facts(&request, NOW);
        format!("{:?}", loaded.rules.plan(&facts).charges[0].key)
    });
    let different: std::collections::BTreeSet<&String> = keys.iter().collect();
    assert_eq!(different.len(), keys.len(), "{keys:#?}");
}

#[test]
fn what_is_missing_counts_together_unless_the_rule_is_skipped() {
    let loaded = loaded("rules: [{ name: a, key: [user, host], limit: 1/s }]");
    assert_eq!(key_in(&loaded, &request("/")), "user=(missing) host=(missing)");
    let named = request("/").with_header("host", "h");
    assert_eq!(key_in(&loaded, &named), "user=(missing) host=h");
}

pub(super) fn token(secret: &[u8], algorithm: &str, claims: &Value) -> String {
    let header = json!({ "alg": algorithm });
    let [header, claims] = [&header, claims].map(|part| encode(part.to_string().as_bytes()));
    let message = format!("{header}.{claims}");
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let signature = encode(hmac::sign(&key, message.as_bytes()).as_ref());
    format!("{message}.{}", if algorithm == "none" { String::new() } else { signature })
}

#[test]
fn a_token_that_cannot_be_believed_is_none() {
    let secret = b"an example of a secret, of 32 b.";
    let claims = |name: &str, exp: u64| json!({ "sub": name, "exp": exp, "org": { "id": 7 } });
    let good = claims("ada", NOW_SECONDS + 60);
    for source in ["secret_env: SECRET", "secret_file: secret.txt"] {
        let above =
            format!("jwt: {{ {source} }}\nidentify: {{ client: [jwt:sub, ip], org: jwt:org.id }}");
        let by = |token: &str| request("/").with_header("Authorization", format!("Bearer {token}"));
        let believed = by(&token(secret, "HS256", &good));
        check(&above, "client", &believed, "jwt:sub=ada");
        check(&above, "org", &believed, "jwt:org.id=7");
        for odd in [
            token(secret, "HS256", &claims("ada", NOW_SECONDS - 31)),
            token(secret, "none", &good),
            token(b"some other secret, of 32 bytes..", "HS256", &good),
            token(secret, "HS512", &good),
            token(secret, "HS256", &claims("", NOW_SECONDS + 60)),
            token(secret, "HS256", &claims(&"a".repeat(1_025), NOW_SECONDS + 60)),
            "nonsense".to_owned(),
            String::new(),
        ] {
            check(&above, "client", &by(&odd), "ip=192.0.2.7");
        }
        check(&above, "client", &request("/"), "ip=192.0.2.7");
    }
    // A second token is no way to be without claims: not for a key, and not for a match.
    let rest = "rules: [{ name: a, match: { jwt: { sub: ada } }, block: true },
        { name: b, key: jwt:sub, if_missing: skip, limit: 1/s }]";
    let loaded = loaded(&format!("jwt: {{ secret_env: SECRET }}\n{rest}"));
    let [ada, bob] =
        ["ada", "bob"].map(|name| token(secret, "HS256", &claims(name, NOW_SECONDS + 60)));
    for two in [[&*bob, "nonsense"], ["nonsense", &bob]] {
        let sample = two.iter().fold(request("/"), |sample, token| {
            sample.with_header("authorization", format!("bearer {token}"))
        });
        assert_eq!(key_in(&loaded, &sample), "jwt:sub=(missing)");
        let sample = sample.with_header("authorization", &ada);
        assert!(loaded.rules.plan(&loaded.rules.facts(&sample, NOW)).stopped.is_some());
    }
    let cookie = "jwt: { secret_env: SECRET, in: cookie:token }";
    let sample =
        request("/").with_header("cookie", format!("token={}", token(secret, "HS256", &good)));
    check(cookie, "jwt:sub", &sample, "jwt:sub=ada");
}

#[test]
fn a_tier_that_no_rule_knows_is_the_default() {
    let loaded = loaded(
        "tiers: { from: [attribute:plan, header:x-tier], default: free }\n\
         rules: [{ name: a, limit: { free: 1/s, pro: 2/s } }]",
    );
    let tier = |request: &Sample| {
        let facts = loaded.rules.facts(request, NOW);
        let charge = &loaded.rules.plan(&facts).charges[0];
        loaded.rules.rules()[0].variants()[charge.variant].id().to_owned()
    };
    assert_eq!(tier(&request("/")), "free");
    assert_eq!(tier(&request("/").with_header("x-tier", "pro")), "pro");
    assert_eq!(tier(&request("/").with_header("x-tier", "PRO")), "free");
    assert_eq!(tier(&request("/").with_header("x-tier", "platinum")), "free");
    // The first that is present counts, though nobody knows it.
    let both = request("/").with_header("x-tier", "pro").with_attribute("plan", "odd");
    assert_eq!(tier(&both), "free");
}

#[test]
fn clients_behind_trusted_proxies_are_told_apart() {
    let identify = "identify: { trusted_proxies: 192.0.2.0/24, ipv4_prefix: 24 }";
    let forwarded = request("/").with_header("x-forwarded-for", "198.51.100.1, 203.0.113.9");
    check(identify, "ip", &forwarded, "ip=203.0.113.0/24");
    check("", "ip", &forwarded, "ip=192.0.2.7");
    let six = Sample::new("/").from_peer("2001:db8::9".parse().unwrap());
    check("", "ip", &six, "ip=2001:db8::/64");
}

/// Judged and counted, but never refuses.
#[test]
fn what_is_in_shadow_blocks_nobody() {
    for (rule, blocks) in [("shadow: true", false), ("enforce: 0%", false), ("last: true", true)] {
        let loaded = loaded(&format!(
            "tiers: {{ header: x-tier, default: free }}\n\
             rules: [{{ name: a, {rule}, limit: {{ free: block, pro: 1/s }} }}]"
        ));
        let request = request("/");
        let facts = loaded.rules.facts(&request, NOW);
        assert_eq!(loaded.rules.plan(&facts).stopped.is_some(), blocks, "{rule}");
    }
}
