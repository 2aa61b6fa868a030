//! Queues and shares that are full: what has to wait is refused before a proxy has lost patience
//! and lets it through.

use std::net::Ipv4Addr;
use std::thread;

use tidegate_testbed::{Http, HttpAnswer};

use crate::application::REACHED;
use crate::shipped;
use crate::stand::{Standing, Tidegate};

const POLICY: &str = "
identify:
  trusted_proxies: [127.0.0.1/32]
rules:
  - { name: queue, match: { path: /queue }, key: ip, algorithm: leaky-queue, limit: 1/h, burst: 2 }
share:
  - { name: usual, match: { path: /usual }, capacity: 1 in flight, by: ip }
  - { name: patient, match: { path: /patient }, capacity: 1 in flight, by: ip, wait: 1h }
";

/// The server, with somebody in the only place of each share.
fn full() -> Tidegate {
    let tidegate = Tidegate::start(POLICY, &[]).expect("the server starts");
    for path in ["/usual", "/patient"] {
        let body = format!(r#"{{"path":"{path}","ip":"192.0.2.1","lease_ms":3600000}}"#);
        let told = Http::post(tidegate.http, "/v1/acquire", &body).expect("an answer");
        assert!(told.text().contains(r#""verdict":"allow""#), "{}", told.text());
    }
    tidegate
}

fn is_served(answer: &HttpAnswer) -> bool {
    answer.status == 200 && answer.text().starts_with(REACHED)
}

/// As many clients at once as wait together, each from an address of its own.
fn at_once(standing: &Standing, target: &str) -> Vec<HttpAnswer> {
    thread::scope(|scope| {
        let get = |last| move || standing.get_from(Ipv4Addr::new(127, 0, 0, last), target);
        let clients: Vec<_> = (2..6).map(|last| scope.spawn(get(last))).collect();
        clients.into_iter().map(|client| client.join().expect("it is answered")).collect()
    })
}

#[track_caller]
fn lets_nobody_through(standing: &Standing) {
    // By the time that a share waits unless its policy says otherwise, and by the proxy's own.
    for target in ["/usual", "/patient"] {
        for answer in at_once(standing, target) {
            assert_eq!(answer.status, 503, "{target}: {answer:?}");
            assert!(answer.header("retry-after").is_some(), "{target}: {answer:?}");
        }
    }
    assert!(is_served(&standing.get("/queue")), "the queue was empty");
    // The next one would be held back for an hour.
    for _ in 0..3 {
        let answer = standing.get("/queue");
        assert_eq!(answer.status, 429, "{answer:?}");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
    }
    assert!(is_served(&standing.get("/free")), "it is still there");
}

#[test]
fn nginx_lets_nobody_through_for_whom_there_is_no_room() {
    let tidegate = full();
    let Some(nginx) = shipped::nginx(&tidegate) else { return };
    lets_nobody_through(&nginx);
}

#[test]
fn haproxy_lets_nobody_through_for_whom_there_is_no_room() {
    let tidegate = full();
    let Some(haproxy) = shipped::haproxy(&tidegate) else { return };
    lets_nobody_through(&haproxy);
}

#[test]
fn caddy_lets_nobody_through_for_whom_there_is_no_room() {
    let tidegate = full();
    let Some(caddy) = shipped::caddy(&tidegate) else { return };
    lets_nobody_through(&caddy);
}

/// Envoy cannot wait: a queue lets pass what it has room for, and shares have no say.
#[test]
fn envoy_lets_nobody_through_for_whom_a_queue_has_no_room() {
    let tidegate = full();
    let Some(envoy) = shipped::envoy(&tidegate) else { return };
    let served = (0..8).filter(|_| is_served(&envoy.get("/queue"))).count();
    assert!((1..=3).contains(&served), "{served} were served");
    assert_eq!(envoy.get("/queue").status, 429);
}

/// The numbers of the files: whatever is waited for unless a policy says otherwise is answered
/// before a proxy gives up.
#[test]
fn the_files_wait_for_longer_than_they_say() {
    let nginx = include_str!("../../../../deploy/nginx/tidegate.conf");
    let haproxy = include_str!("../../../../deploy/haproxy/tidegate.lua");
    let caddy = include_str!("../../../../deploy/caddy/Caddyfile");
    for (text, says, waits) in [
        (nginx, "X-Tidegate-Wait ", "proxy_read_timeout "),
        (nginx, "X-Tidegate-Wait ", "proxy_send_timeout "),
        (haproxy, "local wait = \"", "local timeout_ms = "),
        (caddy, "X-Tidegate-Wait ", "response_header_timeout "),
    ] {
        let millis = |field: &str| {
            let (_, rest) = text.split_once(field).unwrap_or_else(|| panic!("no `{field}`"));
            let end = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
            let number: u64 = rest[..end].parse().unwrap();
            if rest[end..].starts_with('s') { number * 1_000 } else { number }
        };
        // A share waits for a second unless its policy says otherwise.
        assert!(1_000 < millis(says) && millis(says) + 2_000 < millis(waits), "{says}, {waits}");
    }
}
