//! Whether the schemas accept the files that we accept: as much of JSON Schema as they use.

use serde_json::{Map, Number, Value, json};

use crate::source::{self, Format, Node, Value as Typed};
use crate::{Rules, Suite};

/// A file as an editor sees it.
fn value(node: &Node) -> Value {
    match &node.value {
        Typed::Null => Value::Null,
        Typed::Bool(flag) => json!(flag),
        Typed::Integer(whole) => json!(whole),
        Typed::Fraction(typed) => {
            Value::Number(typed.parse().ok().and_then(Number::from_f64).expect("a number"))
        }
        Typed::Text(text) => json!(text),
        Typed::List(nodes) => nodes.iter().map(value).collect(),
        Typed::Map(entries) => {
            let fields = entries.iter().map(|entry| (entry.name.clone(), value(&entry.node)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
    }
}

/// Why `schema` does not accept `value`.
fn wrong(root: &Value, schema: &Value, value: &Value) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let definition = root.pointer(name.strip_prefix('#')?).expect("a definition");
        return wrong(root, definition, value);
    }
    if let Some(ways) = schema["anyOf"].as_array() {
        let all: Option<Vec<String>> = ways.iter().map(|way| wrong(root, way, value)).collect();
        return all.map(|all| all.join("; "));
    }
    if let Some(names) = schema["enum"].as_array() {
        return (!names.contains(value)).then(|| format!("{value} is not one of {names:?}"));
    }
    let kinds = &schema["type"];
    let any = kinds.as_array().map_or(std::slice::from_ref(kinds), |any| &any[..]);
    if !any.iter().any(|kind| is(kind, value)) {
        return Some(format!("{value} is no {kinds}"));
    }
    if let Some(number) = value.as_u64() {
        let (min, max) = (schema["minimum"].as_u64(), schema["maximum"].as_u64());
        let fits = min.is_none_or(|min| min <= number) && max.is_none_or(|max| number <= max);
        return (!fits).then(|| format!("{value} is out of bounds"));
    }
    let missing = |name: &&Value| name.as_str().is_some_and(|name| value.get(name).is_none());
    if let Some(name) = schema["required"].as_array().and_then(|all| all.iter().find(missing)) {
        return Some(format!("{name} is missing"));
    }
    match value {
        Value::Array(items) => items.iter().find_map(|it| wrong(root, &schema["items"], it)),
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            let field = schema["properties"].get(name);
            match field.unwrap_or(&schema["additionalProperties"]) {
                Value::Bool(false) => Some(format!("there is no field {name}")),
                schema => wrong(root, schema, value),
            }
        }),
        _ => None,
    }
}

fn is(kind: &Value, value: &Value) -> bool {
    match kind.as_str().expect("the name of a type") {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no check for {other}"),
    }
}

#[track_caller]
fn check(schema: &Value, text: &str) {
    let tree = source::read(0, text.as_bytes(), Format::Yaml).unwrap();
    assert_eq!(wrong(schema, schema, &value(&tree)), None, "{text}");
}

const EVERYTHING: &str = "
$schema: policy.schema.json
identify:
  client: [[header:x-api-key, ip], user, ip]
  team: jwt:team
  trusted_proxies: private
  forwarded_by: forwarded
  ipv4_prefix: 24
  ipv6_prefix: 56
jwt: { dangerously_trust_unverified: true, issuer: [a, b], leeway: 10s }
tiers: { from: [jwt:tier, header:x-tier], default: 1, names: [1, 2, pro] }
costs:
  - { method: [POST, PUT], path: /export/**, cost: 10 }
  - { match: { path: /upload }, cost: { from: content-length, missing: refuse, min: 0, max: 9 } }
rules:
  - { name: 404, block: true, match: [{ ip: 192.0.2.0/24 }, { header: { x-a: 1, x-b: [a, 2.5] } }] }
  - { name: free, unlimited: true, match: { tier: [2], not: { query: { a: '*' } } } }
  - name: a
    about: all of it
    match: { host: a.example, cookie: { c: d }, jwt: { sub: ada }, attribute: { x: y } }
    key: [client, path]
    if_missing: skip
    algorithm: token-bucket
    limit: { 1: 100/min, pro: unlimited }
    burst: { 1: 5 }
    credits: { for: 30s, rate: 10x }
    counts_when: { status: [401, 5xx], header: { x-cache: HIT }, not: { status: 403 } }
    enforce: 10%
    on_store_error: local
    headers: false
    priority: 5
    last: true
  - { name: b, key: user, limit: 1/s, overrides: { acme: 5/s } }
  - { name: c, key: [user, ip], limit: 1/s, overrides: [{ key: [1, 192.0.2.1], limit: 5/s }] }
  - { name: d, algorithm: leaky-bucket, mode: queue, limit: 10/s, max_wait: 5s, shadow: true }
  - { name: e, algorithm: concurrency, limit: 20 in flight, lease: 1min }
  - { name: f, limit: 10MB/s, unit: kB, cost: { from: response:x-bytes } }
  - { name: g, algorithm: fixed-window, limit: 5/day, time_zone: Europe/Berlin, cost: 0 }
  - { name: h, about: 5, match: { method: 5, host: 5 }, limit: 1/s, burst: 10k }
  - name: i
    key: ip
    limit: 1/s
    burst: '50'
    overrides: [{ key: 10.0.0.1, limit: 1/s, burst: 10_000 }]
share:
  - name: s
    about: all of it
    match: { path: /api/** }
    capacity: 500/s
    burst: 1k
    by: [team, client, user]
    weight: { 1: 1, pro: 16 }
    class: { critical: { path: /a }, high: { tier: pro }, low: [{ method: POST }] }
    wait: 250ms
    queue: { total: 100, each: 10 }
    shed: true
  - { name: 2, capacity: 100 in flight, adaptive: 10%, by: ip, weight: 4 }
name: 7
headers: github
fallback_header: plain
on_store_error: closed
nodes: 3
";

#[test]
fn the_schema_of_policies_accepts_what_is_read() {
    let loaded = Rules::from_text(EVERYTHING);
    assert!(loaded.is_ok(), "{}", loaded.unwrap_err());
    check(&Rules::schema(), EVERYTHING);
    check(&Rules::schema(), include_str!("../../../examples/policy.yaml"));
}

#[test]
fn the_schema_of_policies_refuses_what_is_not() {
    let schema = Rules::schema();
    for text in [
        "ruels: []",
        "rules: {}",
        "nodes: 0",
        "headers: none at all",
        "rules: [a]",
        "rules: [{ limit: 1/s }]",
        "rules: [{ name: a, limit: 1/s, credits: { for: 30s } }]",
        "costs: [{ path: /a }]",
        "tiers: { header: x-tier }",
        "share: [{ name: a, by: ip }]",
    ] {
        let tree = source::read(0, text.as_bytes(), Format::Yaml).unwrap();
        assert!(wrong(&schema, &schema, &value(&tree)).is_some(), "{text}");
    }
}

#[test]
fn the_schema_of_tests_accepts_what_is_read() {
    let everything = "
$schema: policy-tests.schema.json
policy: policy.yaml
tests:
  - name: 1
    about: all of it
    start: 2026-03-29T00:30:00+01:00
    send: GET /search?q=x
    header: { a: 1, b: [c, 2.5] }
    from: 203.0.113.7
    attribute: { user: 7 }
    steps:
      - { wait: 5s }
      - { at: 10s, send: /, times: 5, every: 1s, takes: 5s, expect: delay, delay: 1us }
      - { expect: allow, respond: { status: 401, header: { a: b } }, remaining: { a: 5 }, cost: 0 }
      - { expect: deny, by: [a, b], shadow: none, rules: [a, 2], retry_after: 333334us }
";
    let suite = Suite::from_bytes("a", everything.as_bytes(), Format::Yaml);
    assert!(suite.is_ok(), "{}", suite.unwrap_err());
    check(&Suite::schema(), everything);
    check(&Suite::schema(), include_str!("../../../examples/policy.tests.yaml"));
}
