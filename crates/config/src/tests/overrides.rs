//! Which quota of its own a key has: however it is spelled, and for nobody else.

use super::identity::{NOW, loaded, request};
use crate::request::Sample;
use crate::rule::Variant;

/// The variant of the only rule.
#[track_caller]
fn variant(above: &str, rule: &str, request: &Sample) -> String {
    let loaded = loaded(&format!("{above}\nrules:\n  - {{ name: a, limit: 1/s, {rule} }}\n"));
    let facts = loaded.rules.facts(request, NOW);
    let plan = loaded.rules.plan(&facts);
    let charge = &plan.charges[0];
    charge.rule.variants()[charge.variant].id().to_owned()
}

#[test]
fn overrides_are_found_however_their_key_is_spelled() {
    let six = Sample::new("/").from_peer("2001:db8::9".parse().unwrap());
    for key in ["ip", "client"] {
        for spelled in ["2001:DB8::9", "2001:db8::1", "2001:db8::/64"] {
            let rule = format!("key: {key}, overrides: {{ \"{spelled}\": 9/s }}");
            assert_eq!(variant("", &rule, &six), format!("={spelled}"), "{key}");
        }
        let rule = format!("key: {key}, overrides: {{ \"2001:db8:0:1::1\": 9/s }}");
        assert_eq!(variant("", &rule, &six), "");
    }
    let host = request("/").with_header("host", "api.example.com");
    assert_eq!(
        variant("", "key: host, overrides: { API.example.com: 9/s }", &host),
        "=API.example.com"
    );
}

/// A client that sends the name of another is not that other.
#[test]
fn an_override_is_for_who_is_meant() {
    let identify = "identify: { client: [header:x-api-key, cookie:id, ip] }";
    let address = "key: client, overrides: { 192.0.2.7: 9/s }";
    let by_key = |value: &str| request("/").with_header("x-api-key", value);
    assert_eq!(variant(identify, address, &request("/")), "=192.0.2.7");
    assert_eq!(variant(identify, address, &by_key("192.0.2.7")), "");
    let name = "key: client, overrides: { acme: 9/s }";
    let by_cookie = request("/").with_header("cookie", "id=acme");
    assert_eq!(variant(identify, name, &by_key("acme")), "=acme");
    assert_eq!(variant(identify, name, &by_cookie), "=acme");
    let sure = "key: client, overrides: { 'cookie:id=acme': 9/s }";
    assert_eq!(variant(identify, sure, &by_key("acme")), "");
    assert_eq!(variant(identify, sure, &by_key("cookie:id=acme")), "");
    assert_eq!(variant(identify, sure, &by_cookie), "=cookie:id=acme");
    let odd = "key: client, overrides: { 'header:x-api-key=192.0.2.7': 9/s }";
    assert_eq!(variant(identify, odd, &by_key("192.0.2.7")), "=header:x-api-key=192.0.2.7");
    assert_eq!(variant(identify, odd, &request("/")), "");
}

#[test]
fn every_part_of_an_overridden_key_is_made_plain() {
    let identify = "identify: { device: [[header:a, header:b], header:a] }";
    let device = Sample::new("get /a/b")
        .from_peer("2001:db8::9".parse().unwrap())
        .with_header("a", "x")
        .with_header("b", "y")
        .with_header("host", "api.example.com");
    for (key, values) in [
        ("[device, ip]", "[x, y, '2001:db8::1']"),
        ("[device, host]", "[x, y, API.example.com]"),
        ("[device, path]", "[x, y, //a/./b/]"),
        ("[device, method]", "[x, y, get]"),
        ("fingerprint", "['2001:db8::1', Get, /a/b/, curl]"),
    ] {
        let device = device.clone().with_header("user-agent", "curl");
        let rule = format!("key: {key}, overrides: [{{ key: {values}, limit: 9/s }}]");
        assert_ne!(variant(identify, &rule, &device), "", "{key}");
    }
}

#[test]
fn no_two_overrides_go_by_one_name() {
    let loaded = loaded(
        "rules:\n  - name: a\n    key: [user, header:x]\n    limit: 1/s\n    overrides:\n      \
         - { key: ['a b', c], limit: 2/s }\n      - { key: [a, 'b c'], limit: 3/s }\n      \
         - { key: [a, 'b%20c'], limit: 4/s }\n      - { key: [a, 'b#peak'], limit: 4/s }\n",
    );
    let ids: Vec<&str> = loaded.rules.rules()[0].variants().iter().map(Variant::id).collect();
    assert_eq!(ids, ["", "=a%20b c", "=a b%20c", "=a b%2520c", "=a b%23peak"]);
}

#[test]
fn an_override_of_a_combination_names_all_of_it() {
    let above = "identify: { client: [[header:x-org, header:x-user], ip] }";
    let rule = "key: client, overrides: [{ key: [acme, ada], limit: 9/s }, { key: 192.0.2.7, \
                limit: 8/s }]";
    let ada = request("/").with_header("x-org", "acme").with_header("x-user", "ada");
    assert_eq!(variant(above, rule, &ada), "=acme ada");
    assert_eq!(variant(above, rule, &request("/")), "=192.0.2.7");
}
