//! What is held for callers: who takes much of it takes none of what others need.

use serde_json::{Value, json};
use tidegate_server::{Guard, Tokens};
use tidegate_testbed::Http;

use crate::world::{World, answer};

const POLICY: &str = "
rules:
  - { name: charged, match: { path: /charged }, limit: 4000000000/s }
  - { name: slots, match: { path: /slots }, algorithm: concurrency, limit: 9 in flight, lease: 1h }
";

const MALLORY: &str = "mmmmmmmmmmmmmmmm";
const ADA: &str = "aaaaaaaaaaaaaaaa";

/// What one caller may have held: a quarter of what there is room for.
const EACH_MAX: usize = 16_384;
const BATCH: usize = 256;

fn world() -> World {
    let tokens = format!("check {MALLORY}\ncheck {ADA}\n");
    World::with(POLICY, |settings| {
        settings.guard = Guard::with_tokens(Tokens::from_text(&tokens).unwrap());
    })
}

/// Posts by the holder of a token.
fn post(world: &World, token: &str, path: &str, body: &str) -> (u16, Value) {
    let headers = [("content-type", "application/json"), ("x-tidegate-token", token)];
    let mut http = Http::connect(world.http()).unwrap();
    answer(&http.send("POST", path, &headers, body.as_bytes()).unwrap())
}

/// Asks for receipts by batches; how many are given.
fn receipts(world: &World, token: &str, path: &str, batches: usize) -> usize {
    let one = json!({ "path": path, "receipt": true });
    let batch = json!({ "checks": vec![one; BATCH] }).to_string();
    let mut given = 0;
    for _ in 0..batches {
        let (status, told) = post(world, token, "/v1/check", &batch);
        assert_eq!(status, 200);
        let answers = told["answers"].as_array().unwrap();
        assert!(answers.iter().all(|it| it["verdict"] == "allow"));
        given += answers.iter().filter(|it| it["receipt"].is_string()).count();
    }
    given
}

#[track_caller]
fn counts(world: &World, lines: &[&str]) {
    let page = world.get("/metrics").text();
    for line in lines {
        assert!(page.lines().any(|it| it == *line), "no `{line}` in\n{page}");
    }
}

/// As many as once were room for, for ten minutes, by half a second of asking.
#[test]
fn what_charged_nothing_is_not_held() {
    let world = world();
    assert_eq!(receipts(&world, MALLORY, "/elsewhere", 256), 0);
    counts(&world, &[r#"tidegate_caller_holds{what="held",caller="others"} 0"#]);
    assert_eq!(receipts(&world, ADA, "/charged", 1), BATCH);
    let look = post(&world, ADA, "/v1/check", r#"{"path":"/charged","cost":0,"receipt":true}"#).1;
    assert_eq!((&look["verdict"], &look["receipt"]), (&json!("allow"), &Value::Null));
}

#[test]
fn who_has_as_much_held_as_one_may_is_refused_and_others_are_not() {
    let world = world();
    let given = receipts(&world, MALLORY, "/charged", EACH_MAX / BATCH + 1);
    assert_eq!(given, EACH_MAX, "the last are told without");
    let (status, told) = post(&world, MALLORY, "/v1/acquire", r#"{"path":"/slots"}"#);
    assert_eq!(status, 429, "{told}");
    assert!(told["detail"].to_string().contains("release some"), "{told}");
    let others = post(&world, ADA, "/v1/acquire", r#"{"path":"/slots"}"#);
    assert_eq!((others.0, &others.1["verdict"]), (200, &json!("allow")));
    let slots = &post(&world, ADA, "/v1/peek", r#"{"path":"/slots"}"#).1["remaining"];
    assert_eq!(slots, 8, "what was refused took nothing");
    assert_eq!(receipts(&world, ADA, "/charged", 1), BATCH);
    counts(
        &world,
        &[
            r#"tidegate_caller_holds{what="held",caller="token:1"} 16384"#,
            r#"tidegate_caller_holds{what="held",caller="token:2"} 257"#,
            r#"tidegate_no_room_total{what="held"} 257"#,
        ],
    );
    assert!(!world.get("/metrics").text().contains(MALLORY));
}

/// A caller that does not know by which rules it is judged acquires, renews and releases as ever.
#[test]
fn a_permit_for_nothing_is_held_for_nobody() {
    let world = world();
    for _ in 0..3 {
        let told = post(&world, ADA, "/v1/acquire", r#"{"path":"/elsewhere"}"#).1;
        let permit = json!({ "permit": told["permit"] }).to_string();
        assert_eq!((&told["verdict"], told["permit"].is_string()), (&json!("allow"), true));
        let renewed = post(&world, ADA, "/v1/renew", &permit);
        assert_eq!(renewed, (200, json!({ "held": true, "lease_us": 60_000_000 })));
        let released = post(&world, ADA, "/v1/release", &permit);
        assert_eq!(released, (200, json!({ "released": true })));
    }
    counts(&world, &[r#"tidegate_caller_holds{what="held",caller="others"} 0"#]);
}

#[test]
fn limits_that_one_client_names_leave_room_for_those_of_another() {
    let world = world();
    let mut mallory = world.resp();
    assert_eq!(mallory.call(&["AUTH", MALLORY]).unwrap().text(), "OK");
    let mut refused = 0;
    for count in 1..=4_096 {
        let told = mallory.call(&["CL.THROTTLE", "k", "1", &count.to_string(), "31622400"]);
        let told = told.unwrap();
        assert!(!told.is_error(), "{told:?}");
        refused += usize::from(told.items()[0] == tidegate_testbed::Reply::Int(1));
    }
    assert_eq!(refused, 4_096 - 1_024);
    let mut ada = world.resp();
    assert_eq!(ada.call(&["AUTH", ADA]).unwrap().text(), "OK");
    let told = ada.call(&["CL.THROTTLE", "k", "15", "30", "60"]).unwrap();
    assert_eq!(told.items()[0], tidegate_testbed::Reply::Int(0), "{told:?}");
    counts(
        &world,
        &[
            r#"tidegate_caller_holds{what="limits",caller="token:1"} 1024"#,
            r#"tidegate_caller_holds{what="limits",caller="token:2"} 1"#,
        ],
    );
}
