//! Paths that some servers take for others, tried by somebody who wants to log in more often.

use crate::support::{limited, request, status, with};

const POLICY: &str = "
rules:
  - { name: health, match: { path: /health, method: GET }, unlimited: true }
  - { name: probe, match: { header: { user-agent: probe } }, key: ip, limit: 9/min, last: true }
  - { name: login, match: { path: /login, method: [GET, POST] }, key: ip, limit: 2/min }
  - { name: rest, match: { not: { path: [/login, /health] } }, key: ip, limit: 5/min }
";

/// What a client can send that axum's `Uri` takes, and a server behind it takes for `/login`.
const LOGIN: [&str; 13] = [
    "/LOGIN",
    "/login;x",
    "/x/..;/login",
    "/login%20",
    "/login%00",
    "/login%5C",
    "/login.",
    "/lOgIn;jsessionid=1/",
    "/x%2F..;%2Flogin",
    "/health;x/../login",
    "/HEALTH;x/../login",
    "/%6Cogin%0a",
    "//x/login",
];

#[test]
fn no_spelling_of_a_path_is_a_way_around_its_limit() {
    for path in LOGIN {
        for method in ["POST", "GET", "HEAD"] {
            let (mut service, hello, _) = limited(POLICY);
            let line = format!("{method} {path}");
            let statuses: Vec<u16> = (0..4).map(|_| status(&mut service, request(&line))).collect();
            assert_eq!(statuses, [200, 200, 429, 429], "{line}");
            assert_eq!(hello.calls(), 2, "{line}");
        }
    }
}

#[test]
fn what_is_unlimited_lets_nothing_else_pass() {
    for path in
        ["/HEALTH", "/health;x", "/health%20", "/health;x/../rest", "/rest/..;/health", "//health"]
    {
        let (mut service, _, _) = limited(POLICY);
        let statuses: Vec<u16> = (0..6).map(|_| status(&mut service, request(path))).collect();
        assert_eq!(statuses, [200, 200, 200, 200, 200, 429], "{path}");
    }
    let (mut service, _, _) = limited(POLICY);
    for line in ["GET /health", "HEAD /health", "GET /h%65alth//"].repeat(9) {
        assert_eq!(status(&mut service, request(line)), 200, "{line}");
    }
}

#[test]
fn a_second_line_of_a_header_does_not_end_the_list() {
    for agents in [["probe", "curl"], ["curl", "probe"]] {
        let (mut service, _, _) = limited(POLICY);
        let attack = || {
            agents
                .iter()
                .fold(request("POST /login"), |it, agent| with(it, "user-agent", agent.as_bytes()))
        };
        let statuses: Vec<u16> = (0..3).map(|_| status(&mut service, attack())).collect();
        assert_eq!(statuses, [200, 200, 429], "{agents:?}");
    }
}
