//! Applications that do not tell the layer who is connected.

use http::{HeaderValue, Request};
use tidegate_tower::Peer;

use crate::support::{call, header, limited, request, text};

/// A request from nobody knows where.
fn nobody(line: &str) -> Request<()> {
    let mut request = request(line);
    request.extensions_mut().remove::<Peer>();
    request
}

/// The statuses of three requests without an address, and how many of them were served.
#[track_caller]
fn check(policy: &str, statuses: [u16; 3], served: usize) {
    let (mut service, hello, _) = limited(policy);
    let seen = [(); 3].map(|()| call(&mut service, nobody("GET /")).status().as_u16());
    assert_eq!((seen, hello.calls()), (statuses, served), "{policy}");
}

#[test]
fn a_policy_that_counts_by_address_is_an_error_without_one() {
    check("rules: [{ name: a, key: ip, limit: 2/min }]", [500; 3], 0);
    check("rules: [{ name: a, key: client, limit: 2/min }]", [500; 3], 0);
    check("rules: [{ name: a, key: ip/48, limit: 2/min }]", [500; 3], 0);
    check("rules: [{ name: a, key: ip, if_missing: skip, limit: 2/min }]", [500; 3], 0);
    check("rules: [{ name: a, match: { ip: 192.0.2.0/24 }, block: true }]", [500; 3], 0);
    check(
        "identify: { client: [header:x-user, ip] }
rules: [{ name: a, key: client, limit: 2/min }]",
        [500; 3],
        0,
    );
    check("share: [{ name: a, capacity: 9 in flight, by: ip }]", [500; 3], 0);
}

#[test]
fn what_needs_no_address_is_no_error() {
    check("rules: [{ name: a, limit: 2/min }]", [200, 200, 429], 2);
    check("rules: [{ name: a, key: header:x-user, limit: 2/min }]", [200, 200, 429], 2);
    check("rules: [{ name: a, match: { path: /x }, key: ip, limit: 2/min }]", [200; 3], 3);
    check(
        "identify: { client: [path, ip] }
rules: [{ name: a, key: client, limit: 2/min }]",
        [200, 200, 429],
        2,
    );
}

/// A shadow rule refuses nobody, and this would refuse everybody.
#[test]
fn a_rule_that_only_watches_is_no_error() {
    check("rules: [{ name: a, key: ip, limit: 2/min, shadow: true }]", [200; 3], 3);
}

#[test]
fn the_error_says_what_to_do() {
    let (mut service, _, _) = limited("rules: [{ name: a, key: ip, limit: 2/min }]");
    let response = call(&mut service, nobody("GET /"));
    assert_eq!(header(&response, "content-type"), Some("text/plain; charset=utf-8"));
    let advice = text(response.into_body());
    for part in ["`ip`", "into_make_service_with_connect_info", "Peer"] {
        assert!(advice.contains(part), "{advice}");
    }
}

#[test]
fn a_call_of_grpc_has_it_as_a_status() {
    let (mut service, hello, _) = limited("rules: [{ name: a, key: ip, limit: 2/min }]");
    let mut request = nobody("POST /a.B/C");
    request.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    let response = call(&mut service, request);
    assert_eq!((response.status().as_u16(), hello.calls()), (200, 0));
    assert_eq!(header(&response, "grpc-status"), Some("13"));
    assert!(header(&response, "grpc-message").is_some_and(|it| it.contains("tonic")));
}
