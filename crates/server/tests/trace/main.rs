//! Traces, from a request at a door to a collector.

mod collector;
mod otlp;
#[path = "../world/mod.rs"]
mod world;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use serde_json::{Value, json};
use tidegate_server::rls::proto::envoy;
use tidegate_server::{Ended, TraceSettings};
use tidegate_store::{Clock as _, SystemClock};
use tidegate_testbed::{Http, HttpAnswer, until};

use crate::collector::{Collector, Mood};
use crate::otlp::{Span, told};
use crate::world::World;

use envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy::service::ratelimit::v3::RateLimitRequest;

const POLICY: &str = "
rules:
  - { name: per-address, key: ip, limit: 2/min, if_missing: skip }
  - { name: per-user, key: 'attribute:user', limit: 1/min, if_missing: skip }
  - { name: bad, match: { path: /bad }, block: true }
";

const SAMPLED: &str = "00-0102030405060708090a0b0c0d0e0f10-a1a2a3a4a5a6a7a8-01";
const UNSAMPLED: &str = "00-0102030405060708090a0b0c0d0e0f10-a1a2a3a4a5a6a7a8-00";
const ADDRESS: &str = r#"{"ip":"192.0.2.1"}"#;

fn world(url: &str, share: &str) -> World {
    let endpoint = url.parse().expect("an endpoint");
    let share = share.parse().expect("a share");
    World::with(POLICY, |settings| settings.traces = Some(TraceSettings { endpoint, share }))
}

fn ask(world: &World, path: &str, parent: &str, body: &str) -> HttpAnswer {
    let headers = [("content-type", "application/json"), ("traceparent", parent)];
    let mut connection = Http::connect(world.http()).expect("it listens");
    connection.send("POST", path, &headers, body.as_bytes()).expect("an answer")
}

/// What the server says became of its spans.
fn spans(world: &World, outcome: &str) -> u64 {
    let page = String::from_utf8(world.get("/metrics").body).expect("text");
    let name = format!("tidegate_spans_total{{outcome=\"{outcome}\"}} ");
    let count = page.lines().find_map(|line| line.strip_prefix(&name)).expect("such a count");
    count.parse().expect("a number")
}

fn wait_until(what: &str, condition: impl FnMut() -> bool) {
    until(Duration::from_secs(20), what, condition).expect("in time");
}

#[track_caller]
fn check(span: &Span, name: &str, expected: &[(&str, Value)]) {
    assert_eq!((&*span.name, span.kind), (name, 2));
    assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8));
    assert_ne!(span.span_id, [0; 8]);
    assert!(span.start_ns <= span.end_ns);
    assert_eq!(span.told(), expected.iter().cloned().collect());
}

#[test]
fn a_check_is_a_span_below_its_caller() {
    let collector = Collector::new(Mood::Takes);
    let world = world(&collector.url(), "0");
    let before = SystemClock::new().now().get() * 1_000;
    ask(&world, "/v1/check", SAMPLED, r#"{"ip":"192.0.2.1","attributes":{"user":"ada"}}"#);
    let [span] = &collector.wait_for(1)[..] else { panic!("one span") };
    let after = SystemClock::new().now().get() * 1_000;
    assert_eq!(span.trace_id, (1..17).collect::<Vec<u8>>());
    assert_eq!(span.parent_span_id, (0xa1..0xa9).collect::<Vec<u8>>());
    assert_eq!(span.flags, 0x301, "sampled, and the parent is somewhere else");
    assert_eq!(span.status, None);
    assert!(before <= span.start_ns && span.end_ns <= after);
    check(
        span,
        "check",
        &[
            ("tidegate.door", json!("http")),
            ("http.response.status_code", json!(200)),
            ("tidegate.verdict", json!("allow")),
            ("tidegate.reason", json!("judged")),
            ("tidegate.by", json!("store")),
            ("tidegate.cost", json!(1)),
            ("tidegate.decisions", json!(1)),
            ("tidegate.rules", json!(["per-address", "per-user"])),
        ],
    );
    let requests = collector.requests();
    let resource = requests[0].resource_spans[0].resource.as_ref().expect("who we are");
    assert_eq!(told(&resource.attributes)["service.name"], "tidegate");
    wait_until("it is counted", || spans(&world, "exported") == 1);
}

#[test]
fn a_batch_is_one_span_of_the_strictest() {
    let collector = Collector::new(Mood::Takes);
    let world = world(&collector.url(), "0");
    let (one, bad) = (json!({ "ip": "192.0.2.1", "cost": 2 }), json!({ "path": "/bad" }));
    let body = json!({ "checks": [one, bad, one] }).to_string();
    ask(&world, "/v1/check", SAMPLED, &body);
    let span = &collector.wait_for(1)[0];
    let told = span.told();
    assert_eq!(told["tidegate.verdict"], "never");
    assert_eq!(told["tidegate.reason"], "blocked");
    assert_eq!((&told["tidegate.decisions"], &told["tidegate.cost"]), (&json!(3), &json!(4)));
    assert_eq!(told["tidegate.rules"], json!(["per-address", "bad"]));
}

#[test]
fn a_proxy_asks_in_a_span_of_its_own() {
    let collector = Collector::new(Mood::Takes);
    let world = world(&collector.url(), "0");
    let mut connection = Http::connect(world.http()).expect("it listens");
    let said = [("x-forwarded-method", "GET"), ("x-forwarded-uri", "/bad")];
    let headers = [said[0], said[1], ("traceparent", SAMPLED)];
    let answer = connection.send("GET", "/v1/forward-auth", &headers, b"").expect("an answer");
    let span = &collector.wait_for(1)[0];
    assert_eq!(span.name, "forward-auth");
    assert_eq!(span.told()["http.response.status_code"], answer.status);
    assert_eq!(span.told()["tidegate.verdict"], "never");
}

#[test]
fn who_is_not_sampled_leaves_no_span() {
    let collector = Collector::new(Mood::Takes);
    let world = world(&collector.url(), "0");
    for _ in 0..50 {
        world.post("/v1/check", ADDRESS);
        ask(&world, "/v1/check", UNSAMPLED, ADDRESS);
        ask(&world, "/v1/check", &SAMPLED.replace("0102", "01X2"), ADDRESS);
    }
    ask(&world, "/v1/peek", SAMPLED, ADDRESS);
    assert_eq!(world.stop(), Ended::Cleanly);
    let names: Vec<String> = collector.spans().into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["peek"], "what is left is sent before it stops");
}

#[test]
fn an_unsampled_parent_counts_more_than_the_share() {
    let collector = Collector::new(Mood::Takes);
    let world = world(&collector.url(), "1");
    ask(&world, "/v1/check", UNSAMPLED, ADDRESS);
    world.get("/healthz");
    world.get("/metrics");
    ask(&world, "/v1/check", "00-nonsense", ADDRESS);
    assert_eq!(world.stop(), Ended::Cleanly);
    let [span] = &collector.spans()[..] else { panic!("one span: {:?}", collector.spans()) };
    assert!(span.parent_span_id.is_empty(), "nobody was understood to be its parent");
    assert_ne!(span.trace_id, [0; 16]);
    assert_eq!(span.flags, 0x101);
}

#[test]
fn a_pipeline_is_one_span() {
    let collector = Collector::new(Mood::Takes);
    let world = world(&collector.url(), "1");
    let mut stream = TcpStream::connect(world.at.resp.expect("a door")).expect("it listens");
    let one = "*5\r\n$11\r\ncl.throttle\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\n5\r\n$2\r\n60\r\n";
    stream.write_all(one.repeat(3).as_bytes()).expect("it reads");
    let mut answer = String::new();
    while answer.matches("*5\r\n").count() < 3 || !answer.ends_with('\n') {
        let mut bytes = [0; 256];
        let read = stream.read(&mut bytes).expect("answers");
        answer.push_str(str::from_utf8(&bytes[..read]).expect("text"));
    }
    check(
        &collector.wait_for(1)[0],
        "CL.THROTTLE",
        &[
            ("tidegate.door", json!("resp")),
            ("tidegate.commands", json!(3)),
            ("tidegate.verdict", json!("deny")),
            ("tidegate.reason", json!("judged")),
            ("tidegate.by", json!("store")),
            ("tidegate.cost", json!(3)),
            ("tidegate.decisions", json!(3)),
            ("tidegate.rules", json!(["cl.throttle:1:5:60"])),
        ],
    );
    assert_eq!(world.stop(), Ended::Cleanly);
    assert_eq!(collector.spans().len(), 1);
}

#[test]
fn envoy_asks_in_a_span_below_its_own() {
    let collector = Collector::new(Mood::Takes);
    let world = world(&collector.url(), "0");
    let entries = vec![Entry { key: "user".into(), value: "ada".into() }];
    let descriptors = vec![RateLimitDescriptor { entries, ..Default::default() }];
    let right = RateLimitRequest { domain: "web".into(), descriptors, hits_addend: 1 };
    call(&world, &right);
    let span = &collector.wait_for(1)[0];
    assert_eq!(span.parent_span_id, (0xa1..0xa9).collect::<Vec<u8>>());
    check(
        span,
        "ShouldRateLimit",
        &[
            ("tidegate.door", json!("grpc")),
            ("rpc.grpc.status_code", json!(0)),
            ("tidegate.verdict", json!("allow")),
            ("tidegate.reason", json!("judged")),
            ("tidegate.by", json!("store")),
            ("tidegate.cost", json!(1)),
            ("tidegate.decisions", json!(1)),
            ("tidegate.rules", json!(["per-user"])),
        ],
    );
    call(&world, &RateLimitRequest::default());
    let wrong = &collector.wait_for(2)[1];
    let expected = [("tidegate.door", json!("grpc")), ("rpc.grpc.status_code", json!(3))];
    check(wrong, "ShouldRateLimit", &expected);
}

/// Calls the rate limit service as a part of a sampled trace.
fn call(world: &World, request: &RateLimitRequest) {
    let at = world.at.grpc.expect("a door");
    let message = request.encode_to_vec();
    let length = u32::try_from(message.len()).expect("it is short");
    let body = [&[0][..], &length.to_be_bytes(), &message].concat();
    let request = http::Request::post(format!(
        "http://{at}/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
    ));
    let request = request
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("traceparent", SAMPLED)
        .body(Full::new(Bytes::from(body)))
        .expect("a request");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a thread").block_on(async {
        let stream = tokio::net::TcpStream::connect(at).await.expect("it listens");
        let shaken =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut requests, connection) = shaken.await.expect("it speaks HTTP/2");
        tokio::spawn(connection);
        let response = requests.send_request(request).await.expect("an answer");
        response.into_body().collect().await.expect("a whole answer");
    });
}

#[test]
fn without_a_collector_decisions_go_on() {
    // A port that was free a moment ago, and that nobody listens at.
    let gone = Collector::new(Mood::Takes).url();
    let world = world(&gone, "1");
    for _ in 0..20 {
        assert_eq!(world.post("/v1/peek", ADDRESS).0, 200);
    }
    wait_until("all have failed", || spans(&world, "failed") == 20);
    assert_eq!(world.post("/v1/check", ADDRESS).1["verdict"], "allow");
    assert_eq!(world.stop(), Ended::Cleanly);
}

#[test]
fn what_a_collector_does_not_take_has_failed() {
    for (mood, failed, exported) in [(Mood::Refuses, 1, 0), (Mood::Rejects(1), 1, 0)] {
        let collector = Collector::new(mood);
        let world = world(&collector.url(), "1");
        world.post("/v1/peek", ADDRESS);
        wait_until("it has failed", || spans(&world, "failed") == failed);
        assert_eq!(spans(&world, "exported"), exported, "{mood:?}");
    }
}

#[test]
fn a_silent_collector_holds_nobody_up() {
    let collector = Collector::new(Mood::IsSilent);
    let world = world(&collector.url(), "1");
    world.post("/v1/peek", ADDRESS);
    collector.wait_for(1);
    // One export hangs by now.
    for _ in 0..20 {
        assert_eq!(world.post("/v1/peek", ADDRESS).0, 200);
    }
    assert_eq!(spans(&world, "exported"), 0);
    assert_eq!(world.stop(), Ended::Cleanly);
}
