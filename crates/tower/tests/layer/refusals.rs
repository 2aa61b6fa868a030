//! What becomes of requests that do not pass.

use crate::support::{Hello, call, gate, header, limited, request, status, text, told, with};
use bytes::Bytes;
use http::Response;
use http_body::Body;
use tidegate_tower::{Attributes, TidegateLayer};
use tower::Layer;

const ONE: &str = "rules: [{ name: per-client, key: ip, limit: 1/min }]";

#[test]
fn a_refusal_is_a_problem_in_json() {
    let (mut service, hello, _) = limited(ONE);
    call(&mut service, request("/"));
    let response = call(&mut service, request("/"));
    assert_eq!(response.status(), 429);
    assert_eq!(header(&response, "content-type"), Some("application/problem+json"));
    let body = text(response.into_body());
    let expected = concat!(
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
        r#""title":"Quota exceeded","status":429,"#,
        r#""detail":"too many requests: try again in 60 seconds","#,
        r#""violated-policies":["per-client"],"error":"rate_limit_exceeded","#,
        r#""message":"too many requests: try again in 60 seconds","retry_after":60}"#,
    );
    assert_eq!(body, expected);
    assert_eq!(hello.calls(), 1, "what is refused is not served");
}

#[test]
fn every_limit_that_refuses_is_named() {
    let policy = "
rules:
  - { name: a, key: ip, limit: 1/min }
  - { name: b, key: ip, limit: 9/min }
  - { name: c, key: ip, limit: 1/h }
";
    let (mut service, _, _) = limited(policy);
    call(&mut service, request("/"));
    let response = call(&mut service, request("/"));
    assert_eq!(header(&response, "retry-after"), Some("3600"), "the longest");
    let body: serde_json::Value = serde_json::from_str(&text(response.into_body())).unwrap();
    assert_eq!(body["violated-policies"], serde_json::json!(["a", "c"]));
}

#[test]
fn a_head_gets_no_body() {
    let (mut service, _, _) = limited(ONE);
    call(&mut service, request("/"));
    let response = call(&mut service, request("HEAD /"));
    assert_eq!(response.status(), 429);
    assert_eq!(header(&response, "retry-after"), Some("60"));
    assert!(response.body().is_end_stream());
    assert_eq!(text(response.into_body()), "");
}

#[test]
fn a_body_says_how_long_it_is() {
    let (mut service, _, _) = limited(ONE);
    let passed = call(&mut service, request("/")).into_body();
    assert_eq!((passed.size_hint().exact(), passed.is_end_stream()), (Some(5), false));
    assert_eq!(text(passed), "hello");
    let refused = call(&mut service, request("/")).into_body();
    let length = refused.size_hint().exact().unwrap();
    assert!(!refused.is_end_stream());
    assert_eq!(text(refused).len() as u64, length);
}

#[test]
fn what_is_blocked_is_forbidden() {
    let policy = "
rules:
  - { name: no-bots, match: { header: { user-agent: '*bot*' } }, block: true }
  - { name: staff, match: { header: { x-staff: '*' } }, unlimited: true }
  - { name: per-client, key: ip, limit: 1/min }
";
    let (mut service, hello, _) = limited(policy);
    let response = call(&mut service, with(request("/"), "user-agent", b"a bot"));
    assert_eq!(response.status(), 403);
    assert_eq!(header(&response, "retry-after"), None);
    assert!(text(response.into_body()).contains(r#""error":"blocked""#));
    assert_eq!(hello.calls(), 0);
    for _ in 0..10 {
        let response = call(&mut service, with(request("/"), "x-staff", b"ada"));
        assert_eq!((response.status().as_u16(), &*told(&response)), (200, ""));
    }
    assert_eq!(status(&mut service, request("/")), 200);
    assert_eq!(status(&mut service, request("/")), 429);
}

/// `abc` is of `acme`.
#[test]
fn an_unknown_key_is_unauthorized() {
    let file = std::env::temp_dir().join(format!("tidegate-layer-{}.yaml", std::process::id()));
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    std::fs::write(&file, format!("names: {{ acme: {{ keys: [{{ sha256: {hash} }}] }} }}"))
        .unwrap();
    let policy = format!(
        "api_keys: {{ header: x-api-key, file: '{}', unknown: refuse }}
rules: [{{ name: per-client, key: [api-key, path], limit: 2/min }}]",
        file.display()
    );
    let (mut service, hello, _) = limited(&policy);
    std::fs::remove_file(&file).unwrap();
    let response = call(&mut service, with(request("/"), "x-api-key", b"abd"));
    assert_eq!(response.status(), 401);
    assert_eq!(header(&response, "www-authenticate"), Some("ApiKey header=\"x-api-key\""));
    assert_eq!(header(&response, "content-type"), Some("application/problem+json"));
    assert!(text(response.into_body()).contains(r#""error":"unknown_api_key""#));
    let call_of_grpc = with(request("POST /a.B/C"), "content-type", b"application/grpc");
    let response = call(&mut service, with(call_of_grpc, "x-api-key", b"abd"));
    assert_eq!(header(&response, "grpc-status"), Some("16"));
    assert_eq!(hello.calls(), 0);
    for expected in [200, 200, 429] {
        assert_eq!(status(&mut service, with(request("/"), "x-api-key", b"abc")), expected);
    }
}

#[test]
fn a_rule_in_shadow_never_refuses() {
    let (mut service, hello, _) =
        limited("rules: [{ name: watch, key: ip, limit: 1/min, shadow: true }]");
    for _ in 0..5 {
        let response = call(&mut service, request("/"));
        assert_eq!((response.status().as_u16(), &*told(&response)), (200, ""));
    }
    assert_eq!(hello.calls(), 5);
    let counts = service.gate().counts()[0].1;
    assert_eq!((counts.allowed, counts.shadow_denied), (1, 4));
}

#[test]
fn a_refusal_can_be_replaced() {
    let (gate, _) = gate(ONE);
    let layer = TidegateLayer::new(gate).on_refusal(|refusal| {
        let text = format!(
            "{} {} {:?} {:?}",
            refusal.method(),
            refusal.uri(),
            refusal.retry_after(),
            refusal.violated()
        );
        let response = Response::builder().status(503).header("x-ratelimit-limit", "few");
        response.body(Bytes::from(text)).unwrap()
    });
    let mut service = layer.layer(Hello::default());
    assert_eq!(status(&mut service, request("/")), 200);
    let response = call(&mut service, request("POST /a?b"));
    assert_eq!(response.status(), 503);
    assert_eq!(header(&response, "x-ratelimit-limit"), Some("few"), "theirs stays");
    assert_eq!(header(&response, "x-ratelimit-remaining"), Some("0"), "ours is added");
    assert_eq!(header(&response, "retry-after"), Some("60"));
    assert_eq!(header(&response, "content-type"), None);
    assert_eq!(text(response.into_body()), r#"POST /a?b Some(60) ["per-client"]"#);
    let head = call(&mut service, request("HEAD /"));
    assert_eq!(text(head.into_body()), "");
}

#[test]
fn grpc_is_refused_in_its_own_way() {
    let policy = "
rules:
  - { name: no-reflection, match: { path: /grpc.reflection.*/** }, block: true }
  - { name: per-client, key: ip, limit: 1/min }
";
    let (mut service, hello, _) = limited(policy);
    let ask = |path: &str| with(request(path), "content-type", b"application/grpc+proto");
    assert_eq!(status(&mut service, ask("POST /shop.Cart/Add")), 200);
    let response = call(&mut service, ask("POST /shop.Cart/Add"));
    assert_eq!(response.status(), 200);
    assert_eq!(header(&response, "content-type"), Some("application/grpc"));
    assert_eq!(header(&response, "grpc-status"), Some("8"));
    let message = "too many requests: try again in 60 seconds";
    assert_eq!(header(&response, "grpc-message"), Some(message));
    assert_eq!(header(&response, "grpc-retry-pushback-ms"), Some("60000"));
    assert_eq!(header(&response, "retry-after"), Some("60"));
    let left = Some(r#""per-client";r=0;t=60"#);
    assert_eq!(header(&response, "ratelimit"), left);
    assert!(response.body().is_end_stream(), "trailers only");

    let response = call(&mut service, ask("POST /grpc.reflection.v1/Ask"));
    assert_eq!((response.status().as_u16(), header(&response, "grpc-status")), (200, Some("7")));
    assert_eq!(header(&response, "grpc-retry-pushback-ms"), Some("-1"));
    assert_eq!(hello.calls(), 1);
}

/// A refusal that says 200 is for those who look into it further: calls of gRPC, which are `POST`.
#[test]
fn what_is_no_call_of_grpc_is_refused_as_others_are() {
    let (mut service, _, _) = limited("rules: [{ name: none, key: ip, limit: 1/min }]");
    assert_eq!(status(&mut service, request("/")), 200);
    for line in ["GET /", "PUT /"] {
        let ask = with(request(line), "content-type", b"application/grpc");
        assert_eq!(status(&mut service, ask), 429, "{line}");
    }
}

#[test]
fn a_refused_head_tells_the_length_that_a_get_has() {
    let (mut service, _, _) = limited("rules: [{ name: none, key: ip, limit: 1/min }]");
    assert_eq!(status(&mut service, request("/")), 200);
    let get = call(&mut service, request("/"));
    let head = call(&mut service, request("HEAD /"));
    let length = get.body().size_hint().exact().map(|length| length.to_string());
    assert_eq!(header(&head, "content-length"), length.as_deref());
    assert!(head.body().is_end_stream());
}

#[test]
fn nobody_gets_around_a_limit_by_sending_something_odd() {
    let policy = "
identify: { client: [header:x-api-key, ip] }
rules: [{ name: per-client, key: client, limit: 2/min }]
";
    let giant = vec![b'k'; 100_000];
    let odd: [&[u8]; 5] = [b"\xff\xfe\x80", b"", b"   ", b"\xf0\x28\x8c\x28", &giant];
    for key in odd {
        let (mut service, _, _) = limited(policy);
        let statuses = [0; 3].map(|_| {
            let odd = with(request("/"), "x-api-key", key);
            status(&mut service, with(odd, "host", b"\xff:\xff:80"))
        });
        assert_eq!(statuses, [200, 200, 429], "{} bytes", key.len());
    }
}

#[test]
fn what_the_application_knows_is_counted_by() {
    let policy = "
rules:
  - { name: per-user, key: [user, attribute:tenant], limit: 1/min }
";
    let (mut service, _, _) = limited(policy);
    let by = |user: &str, tenant: &str| {
        let mut request = request("/");
        let known = Attributes::new().with("user", user).with("tenant", tenant);
        request.extensions_mut().insert(known);
        request
    };
    for (user, tenant) in [("ada", "acme"), ("bob", "acme"), ("ada", "apex")] {
        assert_eq!(status(&mut service, by(user, tenant)), 200, "{user} of {tenant}");
        assert_eq!(status(&mut service, by(user, tenant)), 429, "{user} of {tenant}");
    }
}
