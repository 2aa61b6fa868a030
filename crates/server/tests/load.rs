//! What services say about their load, over real connections.

mod world;

use serde_json::{Value, json};
use tidegate_core::Span;
use tidegate_server::{Guard, Tokens};
use tidegate_testbed::Http;

use crate::world::{World, answer};

const POLICY: &str = "
rules:
  - { name: gives-way, limit: 1600/min, adaptive: 25% }
  - { name: stays, limit: 1600/min }
";

fn put(world: &World, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
    let mut http = Http::connect(world.http()).expect("it listens");
    let headers = [&[("content-type", "application/json")], headers].concat();
    answer(&http.send("PUT", "/v1/load", &headers, body.as_bytes()).expect("an answer"))
}

/// By an administrator.
fn said(world: &World, body: &str) -> (u16, Value) {
    put(world, &[("x-tidegate-token", &world.token)], body)
}

fn limits(world: &World) -> Vec<Value> {
    let (_, told) = world.post("/v1/check", "{}");
    told["rules"].as_array().expect("a list").iter().map(|rule| rule["limit"].clone()).collect()
}

#[test]
fn a_service_that_is_overloaded_is_spared_until_it_says_no_more() {
    let world = World::new(POLICY);
    world.clock.advance(Span::from_secs(1));
    let (status, told) = said(&world, r#"{"source":"a","load":2,"ttl_ms":3000}"#);
    assert_eq!((status, &told["factor"], &told["load"]), (200, &json!(0.5), &json!(2.0)));
    assert_eq!(limits(&world), [json!(800), json!(1_600)]);
    let seen = answer(&world.get("/v1/load")).1;
    assert_eq!((&seen["factor"], &seen["sources"]), (&json!(0.5), &json!(1)));
    let page = world.get("/metrics").text();
    assert!(page.lines().any(|line| line == "tidegate_adaptive_factor 0.500000"), "{page}");
    assert!(page.lines().any(|line| line == "tidegate_load_sources 1"), "{page}");
    // Requests let it come back.
    for _ in 0..120 {
        world.clock.advance(Span::from_millis(100));
        limits(&world);
    }
    assert_eq!(limits(&world), [json!(1_600), json!(1_600)]);
    let seen = answer(&world.get("/v1/load")).1;
    assert_eq!((&seen["sources"], &seen["load"]), (&json!(0), &Value::Null));
}

#[test]
fn words_that_make_no_sense_are_refused() {
    let world = World::new(POLICY);
    let long = json!({ "source": "ä".repeat(65), "load": 1 }).to_string();
    for body in [
        "{}",
        r#"{"source":"","load":1}"#,
        r#"{"source":"a","load":-0.1}"#,
        r#"{"source":"a","load":1000.1}"#,
        r#"{"source":"a","load":"1"}"#,
        r#"{"source":"a","load":1,"ttl_ms":0}"#,
        r#"{"source":"a","load":1,"ttl_ms":10001}"#,
        r#"{"source":"a","load":1,"ttl_ms":null}"#,
        r#"{"source":"a","load":1,"more":1}"#,
        &long,
    ] {
        assert_eq!(said(&world, body).0, 400, "{body}");
    }
    let most = json!({ "source": "ä".repeat(64), "load": 1000, "ttl_ms": 10000.0 }).to_string();
    assert_eq!(said(&world, &most).0, 200);
}

#[test]
fn only_administrators_move_limits() {
    let tokens =
        Tokens::from_text("check 0123456789abcdef\nadmin fedcba9876543210").expect("good tokens");
    let world = World::with(POLICY, |settings| settings.guard = Guard::with_tokens(tokens));
    let body = r#"{"source":"a","load":1}"#;
    assert_eq!(put(&world, &[], body).0, 401);
    assert_eq!(put(&world, &[("authorization", "Bearer 0123456789abcdef")], body).0, 403);
    assert_eq!(put(&world, &[("authorization", "Bearer fedcba9876543210")], body).0, 200);
}
