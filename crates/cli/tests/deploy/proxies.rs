//! The proxies, all by one policy: nginx, `HAProxy` and Caddy, which ask over HTTP, and Envoy,
//! which asks over gRPC.

use std::net::Ipv4Addr;

use tidegate_testbed::{HttpAnswer, until};

use crate::application::REACHED;
use crate::shipped;
use crate::stand::{SOON, Standing, Tidegate};

const POLICY: &str = "
identify:
  trusted_proxies: [127.0.0.1/32]
rules:
  - { name: limited, match: { path: /limited }, key: ip, limit: 2/h }
  - { name: posts, match: { path: /posts, method: POST }, key: ip, limit: 1/h }
  - { name: full, match: { path: /search, query: { full: '*' } }, key: ip, limit: 1/h }
  - { name: by-key, match: { path: /keys }, key: header:x-api-key, limit: 1/h }
  - { name: closed, match: { path: /closed }, block: true }
share:
  - { name: scarce, match: { path: /scarce }, capacity: 1/h, by: ip, wait: 1ms }
";

/// A refused client learns when to come again; nothing that a client says changes that.
fn refuses_and_tells(standing: &Standing) {
    for left in [1, 0] {
        let answer = standing.get("/limited");
        assert_eq!(passed(&answer), format!("{REACHED} get /limited "));
        let limit = answer.header("ratelimit").expect("a passing response tells what is left");
        assert!(limit.contains(&format!("r={left}")), "{limit}");
        assert!(answer.header("ratelimit-policy").is_some());
    }
    let forged = [
        ("X-Forwarded-For", "203.0.113.9"),
        ("X-Original-URI", "/free"),
        ("X-Original-Method", "PUT"),
        ("X-Forwarded-Uri", "/free"),
        ("X-Forwarded-Method", "PUT"),
        ("Forwarded", "for=203.0.113.9"),
        ("X-Tidegate-Token", "of nobody"),
        ("X-Tidegate-Wait", "of no time"),
    ];
    for headers in [&[][..], &forged[..]] {
        let answer = standing.send("GET", "/limited", headers);
        assert_eq!(answer.status, 429, "{answer:?}");
        assert!(answer.header("ratelimit").is_some_and(|limit| limit.contains("r=0")));
        let wait = answer.header("retry-after").and_then(|wait| wait.parse::<u32>().ok());
        assert!(wait.is_some_and(|wait| (1..=3600).contains(&wait)), "{answer:?}");
    }
}

/// Who gets no turn is refused as well, and not for having asked too much.
fn refuses_who_gets_no_turn(standing: &Standing) {
    assert_eq!(standing.get("/closed").status, 403, "blocked");
    assert_eq!(passed(&standing.get("/scarce")), format!("{REACHED} get /scarce "));
    let crowded = standing.get("/scarce");
    assert_eq!(crowded.status, 503, "{crowded:?}");
    let wait = crowded.header("retry-after").and_then(|wait| wait.parse::<u32>().ok());
    assert!(wait.is_some_and(|wait| (3_000..=3_600).contains(&wait)), "{crowded:?}");
    assert_eq!(crowded.header("content-type"), Some("application/problem+json"));
    assert!(crowded.text().contains("\"status\":503"), "{}", crowded.text());
}

/// Nor does anything odd get past a limit that is used up, be it that nobody can read it.
fn knows_no_way_around(standing: &Standing) {
    for target in ["/limited?q=\u{e9}", "/limited#x", "/limited?q=%ff", "//limited", "/%6cimited"] {
        let answer = standing.send("GET", target, &[]);
        // Caddy makes a part of the path of it, also for the application: then it is another path.
        let is_another = answer.text().contains("%23");
        assert!(answer.status != 200 || is_another, "{target}: {answer:?}");
    }
    // Near the bounds of the server, of the proxies and of what they ask by.
    for count in [79, 80, 81, 94, 97, 100, 120, 400] {
        let names: Vec<String> = (0..count).map(|number| format!("x-h{number}")).collect();
        let headers: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "1")).collect();
        let answer = standing.send("GET", "/limited", &headers);
        assert_ne!(answer.status, 200, "{count} headers: {answer:?}");
    }
    for bytes in [1_100, 4_000, 8_000, 15_000, 24_000, 40_000] {
        let long = "a".repeat(bytes);
        let answer = standing.send("GET", &format!("/limited?pad={long}"), &[]);
        assert_ne!(answer.status, 200, "a query of {bytes} bytes: {answer:?}");
        let answer = standing.send("GET", "/limited", &[("x-pad", &long)]);
        assert_ne!(answer.status, 200, "a header of {bytes} bytes: {answer:?}");
    }
    assert_eq!(standing.get("/limited").status, 429, "it is still there");
}

/// Refusals have a body that says so. Envoy has none to pass on.
fn explains(standing: &Standing) {
    let answer = standing.get("/limited");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert!(answer.text().contains("\"status\":429"), "{}", answer.text());
}

/// The method, the whole target, headers and the client's address are passed on as they were.
fn tells_the_whole_request(standing: &Standing) {
    let get = || standing.get("/posts").status;
    let post = || standing.send("POST", "/posts", &[]);
    assert_eq!((get(), get()), (200, 200));
    assert_eq!(passed(&post()), format!("{REACHED} post /posts sent"));
    assert_eq!((post().status, get()), (429, 200));
    let statuses = ["/search?full=%20", "/search?full=1", "/search?half=1", "/search"];
    assert_eq!(statuses.map(|target| standing.get(target).status), [200, 429, 200, 200]);
    let by_key = |key| standing.send("GET", "/keys", &[("X-Api-Key", key)]).status;
    assert_eq!([by_key("a"), by_key("a"), by_key("b")], [200, 429, 200]);
    let other = Ipv4Addr::new(127, 0, 0, 2);
    let statuses = [(); 3].map(|()| standing.get_from(other, "/limited").status);
    assert_eq!(statuses, [200, 200, 429], "another client has a count of its own");
}

/// What no rule is for goes through, and nothing is said about limits.
fn lets_be(standing: &Standing) {
    for _ in 0..5 {
        let answer = standing.reaches("/free").expect("no rule is for it");
        assert_eq!(answer.header("ratelimit"), None);
        assert_eq!(answer.header("retry-after"), None);
    }
}

/// Ends the server and sees what becomes of clients; then starts it again.
fn goes_on_without(standing: &Standing, tidegate: &mut Tidegate, status: u16) {
    tidegate.daemon.kill();
    until(SOON, "the proxy knows what to do", || standing.get("/limited").status == status)
        .expect("it does what the file says");
    for _ in 0..3 {
        assert_eq!(standing.get("/limited").status, status);
    }
    tidegate.daemon.restart().expect("the server starts again");
    let told = || standing.get("/limited").header("ratelimit").is_some();
    until(SOON, "the proxy asks again", told).expect("the server is up again");
    let refused = || standing.get("/limited").status == 429;
    until(SOON, "the proxy refuses again", refused).expect("the limit is used up again");
}

fn check(standing: &Standing, tidegate: &mut Tidegate, without: u16) {
    refuses_and_tells(standing);
    tells_the_whole_request(standing);
    lets_be(standing);
    goes_on_without(standing, tidegate, without);
}

#[track_caller]
fn passed(answer: &HttpAnswer) -> String {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.text()
}

#[test]
fn nginx_asks_and_lets_pass_while_nobody_answers() {
    let mut tidegate = Tidegate::start(POLICY, &[]).unwrap();
    let Some(nginx) = shipped::nginx(&tidegate) else { return };
    check(&nginx, &mut tidegate, 200);
    explains(&nginx);
    knows_no_way_around(&nginx);
    refuses_who_gets_no_turn(&nginx);
}

#[test]
fn haproxy_asks_and_lets_pass_while_nobody_answers() {
    let mut tidegate = Tidegate::start(POLICY, &[]).unwrap();
    let Some(haproxy) = shipped::haproxy(&tidegate) else { return };
    check(&haproxy, &mut tidegate, 200);
    explains(&haproxy);
    knows_no_way_around(&haproxy);
    refuses_who_gets_no_turn(&haproxy);
}

#[test]
fn caddy_asks_and_refuses_while_nobody_answers() {
    let mut tidegate = Tidegate::start(POLICY, &[]).unwrap();
    let Some(caddy) = shipped::caddy(&tidegate) else { return };
    check(&caddy, &mut tidegate, 502);
    explains(&caddy);
    knows_no_way_around(&caddy);
    refuses_who_gets_no_turn(&caddy);
}

#[test]
fn envoy_asks_and_lets_pass_while_nobody_answers() {
    let mut tidegate = Tidegate::start(POLICY, &[]).unwrap();
    let Some(envoy) = shipped::envoy(&tidegate) else { return };
    check(&envoy, &mut tidegate, 200);
}
