//! One credential in many spellings, at `/v1/check` as a proxy or a service asks it.

use serde_json::{Value, json};

use crate::world::World;

/// How many of ten pass a limit of two.
#[track_caller]
fn check(key: &str, attack: impl Fn(usize) -> Value) {
    let rule = format!("{{ name: by-key, key: '{key}', if_missing: skip, limit: 2/min }}");
    let world = World::new(&format!("rules: [{rule}]"));
    let told: Vec<Value> =
        (0..10).map(|at| world.post("/v1/check", &attack(at).to_string()).1).collect();
    let passed = told.iter().filter(|told| told["verdict"] == "allow").count();
    assert_eq!(passed, 2, "{key}: {told:?}");
}

#[test]
fn a_spelling_is_no_bucket_of_its_own() {
    check("query:api_key", |at| json!({ "path": format!("/?api_key=made-up-{at}&api_key=real") }));
    let two = |at: usize| json!([format!("made-up-{at}"), "real"]);
    check("header:x-api-key", |at| json!({ "headers": { "X-Api-Key": two(at) } }));
    let cookies = ["sid=ab", "sid=%61b", "sid=a%62", "sid=\"ab\""];
    check("cookie:sid", |at| json!({ "headers": { "cookie": cookies[at % cookies.len()] } }));
    let tokens = ["Bearer AbC", "bEaReR AbC", "BEARER  AbC", "bearer AbC"];
    check(
        "header:authorization",
        |at| json!({ "headers": { "authorization": tokens[at % tokens.len()] } }),
    );
}

/// Also where a proxy hands on what the client sent: none of it is an error, or another path.
#[test]
fn a_path_that_some_servers_read_otherwise_has_the_limit_of_both() {
    let policy = "
rules:
  - { name: health, match: { path: /health }, unlimited: true }
  - { name: login, match: { path: /login, method: GET }, limit: 2/min }
";
    for path in [
        "/LOGIN",
        "/login;x",
        "/x/..;/login",
        "/login%20",
        "/login ",
        "/login%00",
        "/login\\",
        "/HEALTH;x/../login",
    ] {
        let world = World::new(policy);
        let told: Vec<Value> = ["GET", "HEAD", "GET", "HEAD"]
            .iter()
            .map(|method| {
                let body = json!({ "method": method, "path": path });
                world.post("/v1/check", &body.to_string()).1["verdict"].clone()
            })
            .collect();
        assert_eq!(told, ["allow", "allow", "deny", "deny"], "{path}");
    }
}
