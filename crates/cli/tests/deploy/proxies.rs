//! The proxies, all by one policy: nginx, `HAProxy` and Caddy, which ask over HTTP, and Envoy,
//! which asks over gRPC.

use std::net::Ipv4Addr;

use tidegate_testbed::{Daemon, HttpAnswer, Program, until};

use crate::application::{self, REACHED};
use crate::stand::{SOON, Standing, Tidegate, local, swap};

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

/// Who could not be let pass is told when to come again; nothing that a client says changes that.
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
    let names: Vec<String> = (0..94).map(|number| format!("x-h{number}")).collect();
    let headers: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "1")).collect();
    let answer = standing.send("GET", "/limited", &headers);
    assert_ne!(answer.status, 200, "{answer:?}");
}

/// Refusals have a body that says so. Envoy has none to pass on.
fn explains(standing: &Standing) {
    let answer = standing.get("/limited");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert!(answer.text().contains("\"status\":429"), "{}", answer.text());
}

/// The method, the whole target, headers and the client's address are told as they were.
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
    if !Program::Nginx.is_there() {
        println!("skipped: nginx is not installed");
        return;
    }
    let mut tidegate = Tidegate::start(POLICY, &[]).unwrap();
    let args = ["-p", ".", "-c", "nginx.conf", "-e", "stderr"];
    let nginx = Standing::start(Daemon::builder().unwrap(), Program::Nginx, &args, |_, port| {
        let shipped = include_str!("../../../../deploy/nginx/tidegate.conf");
        let text = swap(shipped, "127.0.0.1:8080", &local(tidegate.http));
        let text = swap(&text, "127.0.0.1:3000", &local(application::start()));
        let text = swap(&text, "listen 8000", &format!("listen {}", local(port)));
        vec![("tidegate.conf", text), ("nginx.conf", NGINX.to_owned())]
    });
    let nginx = nginx.unwrap();
    check(&nginx, &mut tidegate, 200);
    explains(&nginx);
    knows_no_way_around(&nginx);
    refuses_who_gets_no_turn(&nginx);
}

/// What stands around the shipped file, with nothing outside of its folder.
const NGINX: &str = "
daemon off;
pid nginx.pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  include tidegate.conf;
}";

#[test]
fn haproxy_asks_and_lets_pass_while_nobody_answers() {
    if !Program::Haproxy.is_there() {
        println!("skipped: HAProxy is not installed");
        return;
    }
    let mut tidegate = Tidegate::start(POLICY, &[]).unwrap();
    let args = ["-db", "-f", "haproxy.cfg"];
    let haproxy =
        Standing::start(Daemon::builder().unwrap(), Program::Haproxy, &args, |at, port| {
            let shipped = include_str!("../../../../deploy/haproxy/haproxy.cfg");
            let text = swap(shipped, "127.0.0.1:8080", &local(tidegate.http));
            let text = swap(&text, "127.0.0.1:3000", &local(application::start()));
            let text = swap(&text, "bind :8000", &format!("bind {}", local(port)));
            let text = swap(&text, "/etc/haproxy", &at.folder().display().to_string());
            let script = include_str!("../../../../deploy/haproxy/tidegate.lua");
            vec![("haproxy.cfg", text), ("tidegate.lua", script.to_owned())]
        });
    let haproxy = haproxy.unwrap();
    check(&haproxy, &mut tidegate, 200);
    explains(&haproxy);
    knows_no_way_around(&haproxy);
    refuses_who_gets_no_turn(&haproxy);
}

#[test]
fn caddy_asks_and_refuses_while_nobody_answers() {
    if !Program::Caddy.is_there() {
        println!("skipped: Caddy is not installed");
        return;
    }
    let mut tidegate = Tidegate::start(POLICY, &[]).unwrap();
    let args = ["run", "--config", "Caddyfile"];
    let caddy = Standing::start(Daemon::builder().unwrap(), Program::Caddy, &args, |_, port| {
        let shipped = include_str!("../../../../deploy/caddy/Caddyfile");
        let text = swap(shipped, "127.0.0.1:8080", &local(tidegate.http));
        let text = swap(&text, "127.0.0.1:3000", &local(application::start()));
        let text = swap(&text, "\n:8000 ", &format!("\nhttp://{} ", local(port)));
        // Its own interface has a fixed port.
        vec![("Caddyfile", format!("{{\n\tadmin off\n}}\n{text}"))]
    });
    let caddy = caddy.unwrap();
    check(&caddy, &mut tidegate, 502);
    explains(&caddy);
    knows_no_way_around(&caddy);
    refuses_who_gets_no_turn(&caddy);
}

#[test]
fn envoy_asks_and_lets_pass_while_nobody_answers() {
    if !Program::Envoy.is_there() {
        println!("skipped: Envoy is not installed");
        return;
    }
    let mut tidegate = Tidegate::start(POLICY, &[]).unwrap();
    let args = ["-c", "envoy.yaml", "--concurrency", "1", "--disable-hot-restart", "-l", "warn"];
    let envoy = Standing::start(Daemon::builder().unwrap(), Program::Envoy, &args, |_, port| {
        let shipped = include_str!("../../../../deploy/envoy/envoy.yaml");
        let text = swap(shipped, "port_value: 8081", &format!("port_value: {}", tidegate.grpc));
        let application = application::start();
        let text = swap(&text, "port_value: 3000", &format!("port_value: {application}"));
        let listener = format!("address: 127.0.0.1, port_value: {port}");
        vec![("envoy.yaml", swap(&text, "address: 0.0.0.0, port_value: 8000", &listener))]
    });
    check(&envoy.unwrap(), &mut tidegate, 200);
}
