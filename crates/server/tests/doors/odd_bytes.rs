//! What is no text in a client's request, as services pass it on: never an error, which a service
//! may take for leave to go on, and counted at each door as at the others.

use serde_json::{Value, json};
use tidegate_testbed::{Http, HttpAnswer};

use crate::asked::object;
use crate::world::{World, answer};

/// A request's parts as they are written in JSON: by Python's `surrogateescape`, by programs whose
/// texts are UTF-16, and by those who do not look at bytes at all.
const WRITTEN: [&[u8]; 4] = [br"\udcff", br"\ud800", br"\uDFFF\uD800", b"\xff"];
/// Where they stand.
const BODIES: [&str; 7] = [
    r#"{"path":"/login","ip":"1.1.1.1","headers":{"x":"@"}}"#,
    r#"{"path":"/login","headers":{"x":["a","@"],"x@":"b"}}"#,
    r#"{"path":"/login","headers":{"cookie":"sid=@"}}"#,
    r#"{"path":"/login?q=@"}"#,
    r#"{"path":"/login","method":"GET","host":"@.example"}"#,
    r#"{"path":"/login","attributes":{"user":"@","@":"b"}}"#,
    r#"{"path":"/login","ip":"fe80::1%@"}"#,
];

/// The body with these bytes where it has `@`.
fn with(body: &str, written: &[u8]) -> Vec<u8> {
    let parts: Vec<&[u8]> = body.split('@').map(str::as_bytes).collect();
    parts.join(written)
}

fn send(world: &World, path: &str, body: &[u8]) -> HttpAnswer {
    let headers = [("content-type", "application/json"), ("x-tidegate-token", &*world.token)];
    Http::connect(world.http()).unwrap().send("POST", path, &headers, body).unwrap()
}

#[track_caller]
fn told(world: &World, path: &str, body: &[u8]) -> Value {
    let (status, told) = answer(&send(world, path, body));
    assert_eq!(status, 200, "{path} {}: {told}", body.escape_ascii());
    told
}

#[test]
fn bytes_that_are_no_text_get_a_decision() {
    for (body, written) in BODIES.iter().flat_map(|body| WRITTEN.map(|it| (body, it))) {
        let world = World::new("rules: [{ name: login, match: { path: /login }, limit: 2/min }]");
        let body = with(body, written);
        let shown = body.escape_ascii();
        assert_eq!(told(&world, "/v1/peek", &body)["verdict"], "allow", "{shown}");
        assert_eq!(told(&world, "/v1/check", &body)["verdict"], "allow", "{shown}");
        assert_eq!(told(&world, "/v1/acquire", &body)["verdict"], "allow", "{shown}");
        assert_eq!(told(&world, "/v1/check", &body)["verdict"], "deny", "{shown}");
        assert_eq!(told(&world, "/v1/reset", &body), json!({ "reset": ["login"] }), "{shown}");
        let batch = [b"{\"checks\":[", &*body, b",{\"path\":\"/login\"},{\"path\":\"/login\"}]}"];
        let verdicts = told(&world, "/v1/check", &batch.concat());
        let verdicts = verdicts["answers"].as_array().unwrap().iter();
        let verdicts: Vec<&Value> = verdicts.map(|it| &it["verdict"]).collect();
        assert_eq!(verdicts, ["allow", "allow", "deny"], "{shown}");
    }
}

#[test]
fn the_same_bytes_are_one_client_at_every_door() {
    let world =
        World::new("rules: [{ name: by-user, key: [attribute:user, path, method], limit: 9/min }]");
    let check = r#"{"path":"/a@","method":"GET@","attributes":{"user":"u@"}}"#;
    let envoy = r#"{"domain":"web","descriptors":[{"entries":[
        {"key":"path","value":"/a@"},{"key":"method","value":"GET@"},
        {"key":"user","value":"u@"}]}]}"#;
    let words = "TIDEGATE.CHECK PATH /a@ METHOD GET@ ATTRIBUTE user u@";
    let words: Vec<Vec<u8>> = words.split(' ').map(|word| with(word, b"\xff")).collect();
    let mut resp = world.resp();
    for (used, written) in [(0, &br"\udcff"[..]), (3, br"\ud800"), (6, b"\xff")] {
        let left = |used: u64| json!(8 - used);
        assert_eq!(told(&world, "/v1/check", &with(check, written))["remaining"], left(used));
        let status = &told(&world, "/json", &with(envoy, written))["statuses"][0];
        assert_eq!(status["limitRemaining"], left(used + 1));
        let reply = object(&resp.call(&words).unwrap());
        assert_eq!(reply["remaining"], left(used + 2));
    }
    assert_eq!(told(&world, "/v1/check", &with(check, b"\xff"))["verdict"], "deny");
    assert_eq!(send(&world, "/json", &with(envoy, b"\xff")).status, 429);
    assert_eq!(object(&resp.call(&words).unwrap())["verdict"], "deny");
}

#[test]
fn what_only_a_caller_gets_wrong_is_an_error() {
    let world = World::new("rules: [{ name: all, limit: 2/min }]");
    for wrong in [
        &br#"{"ip":"localhost"}"#[..],
        br#"{"ip":"192.0.2.1%eth0"}"#,
        br#"{"ip":"\ud800"}"#,
        b"{\"path\":\xff}",
        b"\xff",
        br#"{"path":"/\x"}"#,
        br#"{"path":"/\u12"}"#,
        br#"{"p\ud800":"/"}"#,
    ] {
        assert_eq!(send(&world, "/v1/check", wrong).status, 400, "{}", wrong.escape_ascii());
    }
}
