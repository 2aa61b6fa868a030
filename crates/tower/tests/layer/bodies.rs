//! Costs by the length of a body: what the layer knows of it before it has come.

use http::{Request, Version};

use crate::support::{limited, request, status, with};

const POLICY: &str = "rules: [{ name: bytes, limit: 100B/h, cost: { from: content-length } }]";

/// Which of requests, one after the other, pass a limit of 100 bytes.
#[track_caller]
fn check(requests: Vec<Request<()>>, expected: &[u16]) {
    let (mut service, _, _) = limited(POLICY);
    let statuses: Vec<u16> = requests.into_iter().map(|it| status(&mut service, it)).collect();
    assert_eq!(statuses, expected);
}

fn two(line: &str) -> Request<()> {
    let mut request = request(line);
    *request.version_mut() = Version::HTTP_2;
    request
}

#[test]
fn who_leaves_out_a_length_pays_for_the_largest() {
    let pieces = || with(request("POST /"), "transfer-encoding", b"chunked");
    check(vec![pieces(), pieces()], &[200, 429]);
    check(vec![two("POST /"), two("POST /")], &[200, 429]);
    let sized = |bytes: &[u8]| with(two("POST /"), "content-length", bytes);
    check(vec![sized(b"60"), sized(b"60"), sized(b"40")], &[200, 429, 200]);
}

#[test]
fn what_has_no_body_costs_nothing() {
    let free = || vec![request("GET /"), request("POST /"), request("DELETE /"), two("GET /")];
    let mut requests = vec![with(request("PUT /"), "content-length", b"100")];
    requests.extend(free().into_iter().chain(free()));
    check(requests, &[200; 9]);
}
