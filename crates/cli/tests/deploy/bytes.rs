//! Rules that count the bytes of bodies, behind proxies: nobody pays less by not saying how long a
//! body is, or by saying it where nobody should look.

use std::net::{Ipv4Addr, TcpStream};

use tidegate_testbed::Http2;

use crate::application::REACHED;
use crate::shipped;
use crate::stand::{SOON, Standing, Tidegate};

const POLICY: &str = "
identify:
  trusted_proxies: [127.0.0.1/32]
rules:
  - { name: uploads, match: { path: /upload }, key: ip, limit: 1000B/h,
      cost: { from: content-length } }
  - { name: sized, match: { path: /sized }, key: ip, limit: 1000B/h,
      cost: { from: content-length, missing: refuse } }
";

const PIECES: (&str, &str) = ("transfer-encoding", "chunked");

/// A body of so many bytes, in pieces.
fn in_pieces(bytes: usize) -> Vec<u8> {
    format!("{bytes:x}\r\n{}\r\n0\r\n\r\n", "a".repeat(bytes)).into_bytes()
}

/// One client after the other, each with an address of its own.
struct Client<'s> {
    standing: &'s Standing,
    last: u8,
}

impl Client<'_> {
    fn next(&mut self) {
        self.last += 1;
    }

    /// The status; 0 if the proxy hung up. A 200 is the application's.
    fn send(&self, line: (&str, &str), headers: &[(&str, &str)], body: &[u8]) -> u16 {
        let from = Ipv4Addr::new(127, 0, 0, self.last);
        let Ok(answer) = self.standing.send_body(from, line, headers, body) else { return 0 };
        let is_ours = answer.text().starts_with(REACHED) || line.0 == "HEAD";
        assert!(answer.status != 200 || is_ours, "{answer:?}");
        answer.status
    }

    fn upload(&self, bytes: usize) -> u16 {
        self.send(("POST", "/upload"), &[], &vec![b'a'; bytes])
    }
}

/// `unsized_status` is what a client gets whose body has to have a length.
fn counts_bytes(standing: &Standing, unsized_status: u16) {
    let mut client = Client { standing, last: 10 };
    assert_eq!([client.upload(600), client.upload(600), client.upload(300)], [200, 429, 200]);
    // What has no body costs nothing, also where nothing is left.
    client.next();
    assert_eq!(client.upload(1_000), 200);
    for method in ["GET", "HEAD", "GET"] {
        assert_eq!(client.send((method, "/upload"), &[], b""), 200, "{method}");
    }
    // In pieces, a body costs as much as there ever is.
    client.next();
    assert_eq!(client.send(("POST", "/upload"), &[PIECES], &in_pieces(1)), 200);
    assert_eq!(client.upload(1), 429);
    client.next();
    assert_eq!(client.upload(1), 200);
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let status = client.send((method, "/upload"), &[PIECES], &in_pieces(1));
        assert_eq!(status, 429, "{method}");
    }
    knows_no_other_length(&client);
    client.next();
    assert_eq!(client.send(("POST", "/sized"), &[PIECES], &in_pieces(1)), unsized_status);
    let sized = client.send(("POST", "/sized"), &[], &[b'a'; 1_000]);
    assert_eq!(sized, 200, "nothing was charged");
}

/// A body that should not be there is counted as well, or does not come.
fn knows_bodies_of_any_method(standing: &Standing) {
    let client = Client { standing, last: 30 };
    assert_eq!(client.upload(1), 200);
    for method in ["GET", "HEAD", "GET"] {
        assert_ne!(client.send((method, "/upload"), &[PIECES], &in_pieces(900)), 200, "{method}");
    }
}

/// Nobody believes a length that is said elsewhere, or that is said twice.
fn knows_no_other_length(client: &Client<'_>) {
    for forged in [
        ("X-Original-Content-Length", "0"),
        ("x_original_content_length", "0"),
        ("X-Forwarded-Content-Length", "0"),
        ("X-Original-Method", "GET"),
        ("X-Forwarded-Method", "GET"),
        ("Connection", "content-length, transfer-encoding, x-original-content-length"),
    ] {
        let pieces = client.send(("POST", "/upload"), &[PIECES, forged], &in_pieces(1));
        let whole = client.send(("POST", "/upload"), &[forged], &[b'a'; 1_000]);
        assert!(pieces != 200 && whole != 200, "{forged:?}: {pieces}, {whole}");
    }
    let both = client.send(("POST", "/upload"), &[PIECES, ("content-length", "0")], &in_pieces(1));
    assert_ne!(both, 200, "a length beside pieces");
    let twice = [("content-length", "0"), ("content-length", "9")];
    assert_ne!(client.send(("POST", "/upload"), &twice, b"123456789"), 200);
}

/// Counts bytes over HTTP/2, where no header says that a body comes in pieces. Two of the proxies
/// accept it without being configured to.
fn counts_bytes_over_http2(standing: &Standing) {
    let post = |target| {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, standing.port)).expect("it listens");
        stream.set_read_timeout(Some(SOON)).expect("it is open");
        Http2::over(stream).expect("it speaks").post(target, &[], b"a")
    };
    let free = post("/free").expect("no rule is for it");
    assert!(free.starts_with(REACHED.as_bytes()));
    post("/upload").expect("it was never asked for by this client");
    for _ in 0..3 {
        assert!(post("/upload").is_err(), "it cost the most that there ever is");
    }
    post("/free").expect("no rule is for it");
}

fn tidegate() -> Tidegate {
    Tidegate::start(POLICY, &[]).expect("the server starts")
}

#[test]
fn nginx_says_how_long_bodies_are() {
    let tidegate = tidegate();
    let Some(nginx) = shipped::nginx(&tidegate) else { return };
    counts_bytes(&nginx, 411);
    knows_bodies_of_any_method(&nginx);
}

#[test]
fn haproxy_says_how_long_bodies_are() {
    let tidegate = tidegate();
    let Some(haproxy) = shipped::haproxy(&tidegate) else { return };
    counts_bytes(&haproxy, 411);
    knows_bodies_of_any_method(&haproxy);
    counts_bytes_over_http2(&haproxy);
}

#[test]
fn caddy_says_how_long_bodies_are() {
    let tidegate = tidegate();
    let Some(caddy) = shipped::caddy(&tidegate) else { return };
    counts_bytes(&caddy, 411);
    knows_bodies_of_any_method(&caddy);
}

/// It has no word but too much, and cannot say that a body comes in pieces.
#[test]
fn envoy_says_how_long_bodies_are() {
    let tidegate = tidegate();
    let Some(envoy) = shipped::envoy(&tidegate) else { return };
    counts_bytes(&envoy, 429);
    counts_bytes_over_http2(&envoy);
}
