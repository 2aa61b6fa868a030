//! One credential in many spellings, tried by somebody who wants a bucket for each.

use crate::support::{from, limited, request, status, with};

/// How many of ten requests pass a limit of two.
#[track_caller]
fn check(key: &str, attack: impl Fn(usize) -> http::Request<()>) {
    let policy =
        format!("rules: [{{ name: by-key, key: '{key}', if_missing: skip, limit: 2/min }}]");
    let (mut service, hello, _) = limited(&policy);
    let statuses: Vec<u16> = (0..10).map(|number| status(&mut service, attack(number))).collect();
    assert_eq!(hello.calls(), 2, "{key}: {statuses:?}");
}

fn sent(name: &'static str, values: &[&str]) -> http::Request<()> {
    values.iter().fold(request("/"), |request, value| with(request, name, value.as_bytes()))
}

#[test]
fn a_made_up_value_beside_the_real_one_is_no_bucket_of_its_own() {
    check("query:api_key", |at| request(&format!("/?api_key=made-up-{at}&api_key=real")));
    check("query:api_key", |at| request(&format!("/?api_key=real&api_key=made-up-{at}")));
    check("query:api_key", |at| request(&format!("/?api_key=made-up-{at}&Api.Key=real")));
    check("query:api_key", |at| request(&format!("/?api_key=real;made=up-{at}")));
    check("header:x-api-key", |at| sent("x-api-key", &[&format!("made-up-{at}"), "real"]));
    check("header:x-api-key", |at| sent("x-api-key", &["real", &format!("made-up-{at}")]));
    check("cookie:sid", |at| sent("cookie", &[&format!("sid=made-up-{at}; sid=real")]));
}

#[test]
fn another_spelling_of_a_value_is_no_bucket_of_its_own() {
    let cookies = ["sid=ab", "sid=%61b", "sid=a%62", "sid=%61%62", "sid=\"ab\""];
    check("cookie:sid", |at| sent("cookie", &[cookies[at % cookies.len()]]));
    let schemes = ["Bearer", "bearer", "BEARER", "bEaReR", "Bearer ", "bearer\t"];
    check("header:authorization", |at| {
        sent("authorization", &[&format!("{} AbC", schemes[at % schemes.len()])])
    });
    let queries = ["/?api_key=ab", "/?api_key=%61b", "/?%61pi_key=a%62", "/?API_KEY=ab"];
    check("query:api_key", |at| request(queries[at % queries.len()]));
}

/// As the documentation has it: a limit for a /64 beside one for the /48 around it.
#[test]
fn rotating_addresses_of_one_network_are_one_client() {
    let policy = "rules: [{ name: client, key: ip, limit: 3/min },
                          { name: site, key: ip/48, limit: 10/min }]";
    let (mut service, hello, _) = limited(policy);
    for subnet in 0..300 {
        status(&mut service, from(&format!("2001:db8:1:{subnet:x}::{subnet:x}"), "/"));
    }
    assert_eq!(hello.calls(), 10, "of one /48");
    for host in 0..9 {
        status(&mut service, from(&format!("2001:db8:2:7::{host:x}"), "/"));
    }
    assert_eq!(hello.calls(), 13, "of one /64 in another");
    for host in 0..9 {
        for peer in [format!("192.0.2.{host}"), format!("::ffff:192.0.2.{host}")] {
            assert_eq!(status(&mut service, from(&peer, "/")), 200, "{peer}");
        }
    }
}
