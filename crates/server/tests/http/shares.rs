//! Places of a share over HTTP: waited for, handed on, left, and what is learned of them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

use serde_json::{Value, json};
use tidegate_core::Span;
use tidegate_testbed::{Http, until};

use crate::verdict;
use crate::world::{SOON, World};

const SHARED: &str = "
rules: [{ name: per-tenant, key: attribute:tenant, limit: 5/min }]
share: [{ name: backend, capacity: 1 in flight, by: attribute:tenant, wait: 20s }]
";

const JSON: &str = "content-type: application/json\r\n";

/// What a metric says.
fn metric(world: &World, name: &str) -> u64 {
    let page = world.get("/metrics").text();
    let line = page.lines().find(|line| line.starts_with(name)).expect("it is told");
    line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

fn wait_for(world: &World, name: &str, value: u64) {
    until(SOON, name, || metric(world, name) == value).expect("it comes to that");
}

#[test]
fn a_place_is_waited_for_and_handed_on() {
    let world = World::new(SHARED);
    let acquire = |tenant: &str| {
        let body = json!({ "attributes": { "tenant": tenant }, "lease_ms": 5_000 }).to_string();
        world.post("/v1/acquire", &body)
    };
    let first = acquire("a");
    assert_eq!(verdict(&first), "allow");
    thread::scope(|scope| {
        let second = scope.spawn(|| acquire("b"));
        wait_for(&world, "tidegate_share_waiting", 1);
        let release = json!({ "permit": first.1["permit"], "cost": 3 }).to_string();
        assert_eq!(world.post("/v1/release", &release).1["released"], true);
        assert_eq!(verdict(&second.join().expect("it waits")), "allow");
        // The client that has the place now is never heard of again: it comes back by its lease.
        let third = scope.spawn(|| acquire("c"));
        wait_for(&world, "tidegate_share_waiting", 1);
        world.clock.advance(Span::from_secs(5));
        assert_eq!(verdict(&third.join().expect("it waits")), "allow");
    });
    assert_eq!(metric(&world, "tidegate_share_turns_total"), 3);
}

#[test]
fn whoever_goes_away_leaves_the_queue_and_is_not_charged() {
    let world = World::new(SHARED);
    let first = world.post("/v1/acquire", "{}");
    let body = r#"{"attributes":{"tenant":"b"}}"#;
    for call in ["acquire", "check"] {
        let mut caller = TcpStream::connect(("127.0.0.1", world.http())).expect("it listens");
        let head = format!("POST /v1/{call} HTTP/1.1\r\nhost: a\r\n{JSON}content-length: ");
        write!(caller, "{head}{}\r\n\r\n{body}", body.len()).expect("it listens");
        wait_for(&world, "tidegate_share_waiting", 1);
        drop(caller);
        wait_for(&world, "tidegate_share_waiting", 0);
    }
    let release = json!({ "permit": first.1["permit"] }).to_string();
    assert_eq!(world.post("/v1/release", &release).1["released"], true);
    assert_eq!(world.post("/v1/peek", body).1["remaining"], 5);
    assert_eq!(verdict(&world.post("/v1/acquire", body)), "allow");
}

#[test]
fn what_comes_while_somebody_waits_is_answered_after_it() {
    let world = World::new(SHARED);
    let first = world.post("/v1/acquire", "{}");
    let mut caller = TcpStream::connect(("127.0.0.1", world.http())).expect("it listens");
    caller.set_read_timeout(Some(SOON)).expect("it is open");
    let send = |body: &str| {
        let head = format!("POST /v1/check HTTP/1.1\r\nhost: a\r\n{JSON}content-length: ");
        write!(&caller, "{head}{}\r\n\r\n{body}", body.len()).expect("it listens");
    };
    send(r#"{"attributes":{"tenant":"b"}}"#);
    wait_for(&world, "tidegate_share_waiting", 1);
    send(r#"{"attributes":{"tenant":"b"},"cost":0}"#);
    let release = json!({ "permit": first.1["permit"] }).to_string();
    world.post("/v1/release", &release);
    let mut told = Vec::new();
    while told.windows(11).filter(|it| it == b"\"remaining\"").count() < 2 {
        let mut more = [0; 1_024];
        let read = caller.read(&mut more).expect("it answers");
        told.extend_from_slice(&more[..read]);
        assert!(0 < read, "{}", String::from_utf8_lossy(&told));
    }
}

/// A proxy that has lost patience lets a request through, so it is answered before.
#[test]
fn a_proxy_is_answered_before_it_has_lost_patience() {
    let policy = "
rules:
  - { name: slots, match: { path: /slots }, algorithm: leaky-queue, limit: 1/min, burst: 5 }
share:
  - { name: backend, match: { path: /shared }, capacity: 1 in flight, by: ip, wait: 20s }";
    let world = World::new(policy);
    let asked = |path: &str, waits: &[&str]| {
        let mut headers = vec![("x-original-method", "GET"), ("x-original-uri", path)];
        headers.extend(waits.iter().map(|wait| ("x-tidegate-wait", *wait)));
        let mut http = Http::connect(world.http()).expect("it listens");
        http.send("GET", "/v1/auth-request", &headers, b"").expect("an answer")
    };
    let place = world.post("/v1/acquire", r#"{"path":"/shared"}"#);
    assert_eq!(verdict(&place), "allow");
    for waits in [&["900ms"][..], &["2s", "900ms"]] {
        thread::scope(|scope| {
            let waiting = scope.spawn(|| asked("/shared", waits));
            wait_for(&world, "tidegate_share_waiting", 1);
            world.clock.advance(Span::from_millis(900));
            assert_eq!(waiting.join().expect("it waits").status, 503);
        });
    }
    assert_eq!(asked("/slots", &["2s"]).status, 200);
    for wait in ["0s", "2s", "59999ms"] {
        let answer = asked("/slots", &[wait]);
        assert_eq!((answer.status, wait), (429, wait));
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
    }
    // What a proxy would wait for is not guessed.
    for wait in ["", "soon", "1.5s", "2 s", "2m"] {
        assert_eq!(asked("/free", &[wait]).status, 400, "{wait}");
    }
    assert_eq!(asked("/free", &[]).status, 200);
}

#[test]
fn a_share_learns_from_what_is_said_at_its_release() {
    let adaptive = "share: [{ name: a, capacity: 100 in flight, adaptive: 5%, by: ip }]";
    let world = World::new(adaptive);
    let serve = |outcome: Value| {
        for _ in 0..32 {
            let permit = world.post("/v1/acquire", "{}").1["permit"].clone();
            let mut release = json!({ "permit": permit, "outcome": outcome });
            if outcome.is_null() {
                release = json!({ "permit": permit });
            }
            world.clock.advance(Span::from_millis(10));
            let told = world.post("/v1/release", &release.to_string());
            assert_eq!(told, (200, json!({ "released": true })));
        }
        metric(&world, "tidegate_share_limit")
    };
    assert_eq!((metric(&world, "tidegate_share_limit"), serve(json!("abandoned"))), (20, 20));
    let served = serve(json!("served")).max(serve(Value::Null));
    for outcome in ["failed", "timed-out"] {
        let failed = serve(json!(outcome));
        assert!(failed < served, "{outcome}: {failed} {served}");
        let _ = (serve(Value::Null), serve(Value::Null), serve(Value::Null));
    }
    let permit = world.post("/v1/acquire", "{}").1["permit"].clone();
    let wrong = json!({ "permit": permit, "outcome": "lost" }).to_string();
    let (status, told) = world.post("/v1/release", &wrong);
    assert!(status == 400 && told["detail"].to_string().contains("timed-out"), "{told}");
}

#[test]
fn without_a_place_in_time_it_is_crowded() {
    let world = World::new(&SHARED.replace("20s", "1ms"));
    let body = r#"{"attributes":{"tenant":"b"}}"#;
    assert_eq!(verdict(&world.post("/v1/acquire", body)), "allow");
    thread::scope(|scope| {
        let second = scope.spawn(|| world.post("/v1/acquire", body));
        until(SOON, "it has waited", || {
            world.clock.advance(Span::from_millis(1));
            second.is_finished()
        })
        .expect("it does not wait for ever");
        let told = second.join().expect("an answer");
        assert_eq!((verdict(&told), &told.1["reason"]), ("deny", &json!("crowded")));
        assert!(told.1["retry_after_us"].as_u64().is_some_and(|it| 0 < it), "{}", told.1);
    });
    assert_eq!(world.post("/v1/peek", body).1["remaining"], 4, "only one was charged");
}
