//! The HTTP door, over real connections.

#[path = "http/keys.rs"]
mod keys;
#[path = "http/shares.rs"]
mod shares;
#[path = "http/spellings.rs"]
mod spellings;
mod world;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_core::Span;
use tidegate_server::{Ended, Guard, Tokens};
use tidegate_testbed::{Http, HttpAnswer};

use crate::world::{World, answer};

const POLICY: &str = "
identify: { client: [header:x-api-key, ip] }
rules:
  - { name: per-client, key: client, limit: 3/min }
  - { name: uploads, match: { path: /upload }, key: client, limit: 1 in flight, lease: 10s,
      algorithm: concurrency }
  - { name: watched, key: client, limit: 1/min, shadow: true }
";

const JSON: (&str, &str) = ("content-type", "application/json");

fn verdict(answer: &(u16, Value)) -> &str {
    assert_eq!(answer.0, 200, "{}", answer.1);
    answer.1["verdict"].as_str().expect("a verdict")
}

#[test]
fn a_check_is_a_decision() {
    let world = World::new(POLICY);
    let body = r#"{"path":"/a?b=c","ip":"192.0.2.1"}"#;
    for remaining in [2, 1, 0] {
        let told = world.post("/v1/check", body);
        assert_eq!(verdict(&told), "allow");
        assert_eq!(told.1["remaining"], remaining);
    }
    let refused = world.post("/v1/check", body);
    assert_eq!(verdict(&refused), "deny");
    assert_eq!(refused.1["retry_after_us"], 20_000_000);
    assert_eq!(refused.1["rules"][0]["name"], "per-client");
    world.clock.advance(Span::from_micros(19_999_999));
    assert_eq!(verdict(&world.post("/v1/check", body)), "deny");
    world.clock.advance(Span::from_micros(1));
    assert_eq!(verdict(&world.post("/v1/check", body)), "allow");
}

#[test]
fn a_batch_has_one_answer_each() {
    let world = World::new(POLICY);
    let one = json!({ "headers": { "X-Api-Key": "a" }, "cost": 2 });
    let other = json!({ "headers": { "x-api-key": ["b", "a"] } });
    let (status, told) =
        world.post("/v1/check", &json!({ "checks": [one, one, other] }).to_string());
    assert_eq!(status, 200);
    let verdicts: Vec<&Value> =
        told["answers"].as_array().expect("a list").iter().map(|it| &it["verdict"]).collect();
    assert_eq!(verdicts, ["allow", "deny", "allow"]);
}

/// `POST`s a check as most clients do, with other fields if they are given.
fn checking(fields: &str, body: &str) -> String {
    let length = body.len();
    let head = "POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-type: application/json";
    format!("{head}\r\ncontent-length: {length}\r\n{fields}\r\n{body}")
}

#[test]
fn checks_are_answered_alike_whoever_reads_them() {
    let (usual, other) = (World::new(POLICY), World::new(POLICY));
    let mut talks = [&usual, &other].map(|world| Http::connect(world.http()).expect("it listens"));
    for body in ["{}", r#"{"cost":2,"headers":{"a":["b","c"]}}"#, "{", r#"{"cost":-1}"#, "{}"] {
        let [quickly, slowly] = [("accept", "*/*"), ("upgrade", "none")].map(|field| {
            let at = usize::from(field.0 == "upgrade");
            let told = talks[at].send("POST", "/v1/check", &[JSON, field], body.as_bytes());
            told.expect("an answer")
        });
        assert_eq!((quickly.status, quickly.text()), (slowly.status, slowly.text()));
        let names = |told: &HttpAnswer| {
            let mut names: Vec<String> = told.headers.iter().map(|it| it.0.clone()).collect();
            names.sort_unstable();
            names
        };
        assert_eq!(names(&quickly), names(&slowly), "{body}");
    }
}

#[test]
fn what_is_sent_together_is_answered_in_order() {
    let world = World::new(POLICY);
    let mut stream = TcpStream::connect(("127.0.0.1", world.http())).expect("it listens");
    let look = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    let check = checking("", "{}");
    let last = checking("connection: close\r\n", "{}");
    write!(stream, "{check}{check}{look}{check}{last}").expect("it listens");
    let mut told = String::new();
    stream.read_to_string(&mut told).expect("it ends by itself");
    let told: Vec<&str> = told.split("HTTP/1.1 200 OK").skip(1).collect();
    let left = |count: u8| format!(r#"{{"verdict":"allow","limit":3,"remaining":{count},"#);
    let expected = [&left(2), &left(1), "alive", &left(0), r#"{"verdict":"deny""#];
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.contains(expected), "{expected}: {told}");
    }
}

#[test]
fn a_body_may_come_later_than_its_head() {
    let world = World::new(POLICY);
    let mut stream = TcpStream::connect(("127.0.0.1", world.http())).expect("it listens");
    for pieces in [["{", "}"], ["", "{}"]] {
        let whole = checking("", "{}");
        let head = whole.strip_suffix("{}").expect("it ends with its body");
        write!(stream, "{head}{}", pieces[0]).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a time");
        assert!(stream.read(&mut [0]).is_err(), "there is nothing to answer yet");
        stream.set_read_timeout(None).expect("no time");
        stream.write_all(pieces[1].as_bytes()).expect("it listens");
        let mut told = vec![0; 4_096];
        let len = stream.read(&mut told).expect("an answer");
        assert!(told[..len].starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
}

#[test]
fn a_peek_takes_nothing() {
    let world = World::new(POLICY);
    for _ in 0..5 {
        let told = world.post("/v1/peek", r#"{"ip":"192.0.2.1"}"#);
        assert_eq!((verdict(&told), &told.1["remaining"]), ("allow", &json!(3)));
    }
    let look = world.post("/v1/check", r#"{"ip":"192.0.2.1","cost":0}"#);
    assert_eq!((verdict(&look), &look.1["remaining"]), ("allow", &json!(3)));
}

#[test]
fn a_receipt_is_good_for_one_refund() {
    let world = World::new(POLICY);
    let body = r#"{"ip":"192.0.2.1","cost":3,"receipt":true}"#;
    let told = world.post("/v1/check", body);
    let refund = json!({ "receipt": told.1["receipt"] }).to_string();
    assert_eq!(verdict(&world.post("/v1/check", body)), "deny");
    assert_eq!(world.post("/v1/refund", &refund), (200, json!({ "refunded": true })));
    assert_eq!(world.post("/v1/refund", &refund), (200, json!({ "refunded": false })));
    let again = world.post("/v1/check", body);
    assert_eq!((verdict(&again), &again.1["remaining"]), ("allow", &json!(0)));
}

#[test]
fn a_permit_is_held_renewed_and_released() {
    let world = World::new(POLICY);
    let body = r#"{"path":"/upload","ip":"192.0.2.1","lease_ms":60000}"#;
    let told = world.post("/v1/acquire", body);
    assert_eq!(verdict(&told), "allow");
    assert_eq!(told.1["lease_us"], 10_000_000, "the policy's lease is shorter than what was asked");
    assert_eq!(verdict(&world.post("/v1/acquire", body)), "deny");
    let permit = json!({ "permit": told.1["permit"] }).to_string();
    world.clock.advance(Span::from_secs(9));
    let renewed = world.post("/v1/renew", &permit);
    assert_eq!(renewed, (200, json!({ "held": true, "lease_us": 10_000_000 })));
    world.clock.advance(Span::from_secs(9));
    assert_eq!(verdict(&world.post("/v1/acquire", body)), "deny", "it was renewed");
    assert_eq!(world.post("/v1/release", &permit), (200, json!({ "released": true })));
    assert_eq!(world.post("/v1/release", &permit), (200, json!({ "released": false })));
    let next = world.post("/v1/acquire", body);
    assert_eq!(verdict(&next), "allow");
    world.clock.advance(Span::from_secs(10));
    let late = json!({ "permit": next.1["permit"] }).to_string();
    assert_eq!(world.post("/v1/renew", &late).0, 404, "it has lapsed");
    assert_eq!(verdict(&world.post("/v1/acquire", body)), "allow");
}

const IN_FLIGHT: &str = "
identify: { client: [header:x-api-key, ip] }
rules:
  - { name: each, key: client, limit: 2 in flight, lease: 10s, algorithm: concurrency }
  - { name: all, limit: 3 in flight, lease: 10s, algorithm: concurrency }
";

fn acquire(world: &World, ip: &str) -> Value {
    world.post("/v1/acquire", &json!({ "ip": ip }).to_string()).1
}

fn release(world: &World, told: &Value) -> Value {
    let named = json!({ "permit": told["permit"] }).to_string();
    world.post("/v1/release", &named).1["released"].clone()
}

#[test]
fn permits_of_one_client_and_of_all_are_released_together() {
    let world = World::new(IN_FLIGHT);
    let (ada, bob, cleo) = ("192.0.2.1", "192.0.2.2", "192.0.2.3");
    let held = [ada, ada, bob].map(|ip| acquire(&world, ip));
    assert!(held.iter().all(|told| told["verdict"] == "allow"));
    let refused = acquire(&world, cleo);
    assert_eq!((&refused["verdict"], &refused["permit"]), (&json!("deny"), &Value::Null));
    assert_eq!(refused["rules"][0]["remaining"], 2, "nothing of a refusal is held");
    assert_eq!(release(&world, &held[0]), true);
    let next = acquire(&world, cleo);
    assert_eq!(next["verdict"], "allow", "the one of all came back");
    assert_eq!(release(&world, &held[2]), true);
    assert_eq!(acquire(&world, ada)["verdict"], "allow", "and the client's own");
}

#[test]
fn a_second_release_takes_nothing_from_whoever_came_next() {
    let world = World::new(IN_FLIGHT);
    let first = [0; 2].map(|_| acquire(&world, "192.0.2.1"));
    assert_eq!(release(&world, &first[0]), true);
    let next = acquire(&world, "192.0.2.1");
    assert_eq!(next["verdict"], "allow");
    for _ in 0..3 {
        assert_eq!(release(&world, &first[0]), false);
        assert_eq!(acquire(&world, "192.0.2.1")["verdict"], "deny");
    }
    // One that has lapsed is neither released nor renewed, and frees nobody else's.
    world.clock.advance(Span::from_secs(10));
    let held = [0; 2].map(|_| acquire(&world, "192.0.2.1"));
    assert!(held.iter().all(|told| told["verdict"] == "allow"), "both had lapsed");
    let late = json!({ "permit": next["permit"] }).to_string();
    assert_eq!(world.post("/v1/renew", &late).0, 404);
    assert_eq!(release(&world, &next), false);
    assert_eq!(acquire(&world, "192.0.2.1")["verdict"], "deny");
}

#[test]
fn a_reset_makes_fresh() {
    let world = World::new(POLICY);
    let body = r#"{"ip":"192.0.2.1","cost":3}"#;
    assert_eq!(verdict(&world.post("/v1/check", body)), "allow");
    assert_eq!(verdict(&world.post("/v1/check", body)), "deny");
    let reset = world.administer("/v1/reset", r#"{"ip":"192.0.2.1","rule":"per-client"}"#);
    assert_eq!(reset, (200, json!({ "reset": ["per-client"] })));
    assert_eq!(verdict(&world.post("/v1/check", body)), "allow");
}

#[test]
fn proxies_are_answered_in_their_own_way() {
    let world = World::new(
        "
identify: { client: ip, trusted_proxies: [127.0.0.0/8] }
rules:
  - name: logins
    match: { method: POST, path: /login, host: a.example }
    key: client
    limit: 1/min
",
    );
    let mut http = Http::connect(world.http()).unwrap();
    let ask = [
        ("x-forwarded-method", "POST"),
        ("x-forwarded-uri", "/login?x"),
        ("x-forwarded-host", "a.example"),
        ("x-forwarded-for", "192.0.2.7"),
        ("x-original-method", "POST"),
        ("x-original-uri", "/elsewhere"),
    ];
    let passes = http.send("GET", "/v1/forward-auth", &ask, b"").unwrap();
    assert_eq!(passes.status, 200);
    assert_eq!(passes.header("ratelimit"), Some(r#""logins";r=0;t=60"#));
    let refused = http.send("GET", "/v1/forward-auth", &ask, b"").unwrap();
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("60")));
    assert_eq!(answer(&refused).1["error"], "rate_limit_exceeded");
    let other: Vec<(&str, &str)> = ask.iter().map(|(name, value)| (*name, *value)).collect();
    let nginx = http.send("GET", "/v1/auth-request", &other, b"").unwrap();
    assert_eq!(nginx.status, 200, "this dialect is about another path");
    assert_eq!(nginx.header("ratelimit"), None);
}

/// What a proxy asks about, in either dialect.
const ASKS: [(&str, &str); 4] = [
    ("x-forwarded-method", "GET"),
    ("x-forwarded-uri", "/"),
    ("x-original-method", "GET"),
    ("x-original-uri", "/"),
];

/// A question in the other dialect, or about nothing, is not about `GET /`.
#[test]
fn a_proxy_that_does_not_say_what_it_asks_about_is_told_how() {
    let world = World::new("rules: [{ name: all, match: { path: / }, limit: 9/min }]");
    let [forwarded, original] = [&ASKS[..2], &ASKS[2..]];
    for (path, right, wrong, advice) in [
        ("/v1/forward-auth", forwarded, original, "ask `/v1/auth-request`"),
        ("/v1/auth-request", original, forwarded, "ask `/v1/forward-auth`"),
    ] {
        let twice = [right, &[(right[1].0, "/other")]].concat();
        for asked in [wrong, &[], &right[..1], &right[1..], &twice] {
            let mut http = Http::connect(world.http()).unwrap();
            let told = http.send("GET", path, asked, b"").unwrap();
            assert_eq!((told.status, told.header("ratelimit")), (400, None), "{asked:?}");
            assert!(told.text().contains(advice), "{}", told.text());
        }
        let told = Http::connect(world.http()).unwrap().send("GET", path, right, b"").unwrap();
        assert_eq!((told.status, told.header("ratelimit").is_some()), (200, true));
    }
}

#[test]
fn a_request_has_one_host() {
    let world = World::new(POLICY);
    let body = "content-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    for (version, hosts, status) in [
        ("1.1", "host: a\r\n", 200),
        ("1.1", "", 400),
        ("1.1", "host: a\r\nhost: b\r\n", 400),
        ("1.1", "host: a\r\nHost: a\r\n", 400),
        ("1.0", "", 200),
        ("1.0", "host: a\r\nhost: b\r\n", 400),
    ] {
        for path in ["/v1/check", "/v1/peek"] {
            let asked = format!("POST {path} HTTP/{version}\r\n{hosts}{body}");
            let told = Http::connect(world.http()).unwrap().send_bytes(asked.as_bytes()).unwrap();
            assert_eq!(told.status, status, "{asked}: {}", told.text());
        }
    }
}

/// A proxy lets through what is answered, so the answer is what has to wait.
#[test]
fn a_queue_holds_back_behind_proxies() {
    let world = World::new("rules: [{ name: q, limit: 2/s, burst: 9, algorithm: leaky-queue }]");
    for path in ["/v1/forward-auth", "/v1/auth-request"] {
        let mut http = Http::connect(world.http()).unwrap();
        assert_eq!(http.send("GET", path, &ASKS, b"").unwrap().status, 200);
        std::thread::scope(|scope| {
            let held = scope.spawn(|| http.send("GET", path, &ASKS, b"").unwrap().status);
            while world.clock.waiting() == 0 {
                assert!(!held.is_finished(), "it was answered at once");
                std::thread::yield_now();
            }
            world.clock.advance(Span::from_micros(499_999));
            assert_eq!(world.clock.waiting(), 1, "not yet");
            world.clock.advance(Span::from_micros(1));
            assert_eq!(held.join().unwrap(), 200);
        });
        world.clock.advance(Span::from_secs(1));
    }
}

#[test]
fn what_cannot_be_read_is_told_why() {
    let world = World::new(POLICY);
    for (body, status, said) in [
        ("{", 400, "EOF while parsing"),
        (r#"{"pth":"/"}"#, 400, "unknown field `pth`"),
        (r#"{"ip":"nowhere"}"#, 400, "expected an address such as 192.0.2.1"),
        (r#"{"cost":-1}"#, 400, "invalid value"),
        (r#"{"checks":[{"checks":[]}]}"#, 400, "is no batch"),
        (r#"{"headers":{"a":1}}"#, 400, "OneOrMore"),
    ] {
        let (told, problem) = world.post("/v1/check", body);
        assert_eq!(told, status, "{body}: {problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(said) || said == "OneOrMore", "{body}: {detail}");
    }
    assert_eq!(world.post("/v1/renew", r#"{"permit":"x"}"#).0, 404);
    assert_eq!(world.post("/v1/acquire", r#"{"lease_ms":0}"#).0, 400);
    let many = json!({ "checks": vec![json!({}); 257] }).to_string();
    assert_eq!(world.post("/v1/check", &many).0, 413);
    let mut http = Http::connect(world.http()).unwrap();
    // Refused by what it says of its length, before the rest has come.
    let giant = [("content-type", "application/json"), ("content-length", "2000000")];
    assert_eq!(http.send("POST", "/v1/check", &giant, b"{").unwrap().status, 413);
    let mut http = Http::connect(world.http()).unwrap();
    let form = http.send("POST", "/v1/check", &[("content-type", "text/plain")], b"{}").unwrap();
    assert_eq!(form.status, 415);
    let wrong = http.send("DELETE", "/v1/clock", &[], b"").unwrap();
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("GET, POST")));
}

#[test]
fn a_manual_clock_is_moved_over_the_wire() {
    let world = World::new(POLICY);
    let moved = world.administer("/v1/clock", r#"{"advance_us":1500000}"#);
    assert_eq!(moved, (200, json!({ "now_us": 1_500_000, "manual": true })));
    assert_eq!(world.administer("/v1/clock", r#"{"advance_us":99999999999999}"#).0, 400);
    let system = World::with(POLICY, |settings| settings.manual = None);
    assert_eq!(system.administer("/v1/clock", r#"{"advance_us":1}"#).0, 409);
}

#[test]
fn tokens_open_doors() {
    let tokens = "check 0123456789abcdef\nadmin fedcba9876543210";
    let world = World::with(POLICY, |settings| {
        settings.guard = Guard::with_tokens(Tokens::from_text(tokens).unwrap());
    });
    let mut http = Http::connect(world.http()).unwrap();
    let mut send = |path: &str, name: &str, token: &str| {
        let headers = [("content-type", "application/json"), (name, token)];
        http.send("POST", path, &headers, b"{}").unwrap().status
    };
    assert_eq!(send("/v1/check", "x-other", "1"), 401);
    assert_eq!(send("/v1/check", "authorization", "Bearer 0123456789abcdeX"), 401);
    assert_eq!(send("/v1/check", "authorization", "Bearer 0123456789abcdef"), 200);
    assert_eq!(send("/v1/check", "x-tidegate-token", "0123456789abcdef"), 200);
    assert_eq!(send("/v1/reset", "x-tidegate-token", "0123456789abcdef"), 403);
    assert_eq!(send("/v1/reset", "x-tidegate-token", "fedcba9876543210"), 200);
    assert_eq!(send("/v1/forward-auth", "authorization", "Bearer 0123456789abcdef"), 401);
    for open in ["/healthz", "/readyz", "/metrics", "/openapi.json"] {
        assert_eq!(world.get(open).status, 200, "{open}");
    }
}

#[test]
fn metrics_say_what_rules_said() {
    let world = World::new(POLICY);
    // One connection for all: it is the one that is counted.
    let mut http = Http::connect(world.http()).unwrap();
    let json = [("content-type", "application/json")];
    for _ in 0..4 {
        http.send("POST", "/v1/check", &json, br#"{"ip":"192.0.2.1"}"#).unwrap();
    }
    let page = String::from_utf8(http.send("GET", "/metrics", &[], b"").unwrap().body).unwrap();
    for line in [
        r#"tidegate_decisions_total{rule="per-client",verdict="allow"} 3"#,
        r#"tidegate_decisions_total{rule="per-client",verdict="deny"} 1"#,
        r#"tidegate_shadow_denied_total{rule="watched"} 3"#,
        r#"tidegate_connections{door="http"} 1"#,
        "tidegate_keys 2",
        "tidegate_crowded_total 0",
        r#"tidegate_flood_keys{rule="per-client"} 0"#,
    ] {
        assert!(page.lines().any(|it| it == line), "{line}\n{page}");
    }
}

#[test]
fn readiness_ends_before_the_door_closes() {
    let mut world = World::with(POLICY, |settings| {
        settings.drain_delay = std::time::Duration::from_secs(2);
    });
    let mut http = Http::connect(world.http()).unwrap();
    assert_eq!(http.send("GET", "/readyz", &[], b"").unwrap().status, 200);
    world.ask_to_stop();
    while http.send("GET", "/readyz", &[], b"").unwrap().status != 503 {}
    assert_eq!(world.stop(), Ended::Cleanly);
}

#[test]
fn every_route_is_documented() {
    let world = World::new(POLICY);
    let document = answer(&world.get("/openapi.json")).1;
    let paths = document["paths"].as_object().expect("paths");
    for (path, methods) in paths {
        for method in methods.as_object().expect("methods").keys() {
            let mut http = Http::connect(world.http()).unwrap();
            let answered = http.send(&method.to_uppercase(), path, &[], b"").unwrap();
            assert!(![404, 405].contains(&answered.status) || path == "/json", "{method} {path}");
        }
    }
    assert_eq!(paths.len(), 17);
}
