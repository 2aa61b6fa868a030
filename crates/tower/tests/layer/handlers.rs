//! What responses and handlers do about a charge.

#![allow(clippy::unwrap_used, reason = "a test ends where it is wrong")]

use std::convert::Infallible;
use std::future::ready;
use std::sync::mpsc;

use crate::support::{Text, call, gate, header, request, status, told, with};
use http::{Request, Response};
use tidegate_tower::{LimitedBody, Limits, TidegateLayer, Verdict};
use tower::{Layer, Service, service_fn};

type Served = Response<LimitedBody<Text>>;

/// A service whose handler is given the limits and the request.
fn handled(
    policy: &str,
    handler: impl Fn(Limits, &Request<()>) -> Response<Text> + Clone,
) -> impl Service<Request<()>, Response = Served, Error = Infallible> {
    let (gate, _) = gate(policy);
    TidegateLayer::new(gate).layer(service_fn(move |request: Request<()>| {
        let limits = request.extensions().get::<Limits>().unwrap().clone();
        ready(Ok(handler(limits, &request)))
    }))
}

fn answer(status: u16) -> Response<Text> {
    Response::builder().status(status).body(Text::new("done")).unwrap()
}

const TEN: &str = "rules: [{ name: per-client, key: ip, limit: 10/min }]";

/// How much is left after a first request, by its header and by what the next one finds.
#[track_caller]
fn check(handler: impl Fn(&Limits) + Clone, left: u32) {
    let mut service = handled(TEN, move |limits, request| {
        if request.uri().path() == "/" {
            handler(&limits);
        }
        answer(200)
    });
    let response = call(&mut service, request("/"));
    let remaining = |it: &Served| header(it, "x-ratelimit-remaining").unwrap().to_owned();
    assert_eq!(remaining(&response), left.to_string());
    let next = call(&mut service, request("/next"));
    match left {
        0 => assert_eq!(next.status(), 429),
        left => assert_eq!(remaining(&next), (left - 1).to_string()),
    }
}

#[test]
fn a_handler_changes_what_its_request_costs() {
    check(|_| {}, 9);
    check(|limits| limits.charge_more(4), 5);
    check(|limits| (0..4).for_each(|_| limits.charge_more(2)), 1);
    check(|limits| limits.charge_more(100), 0);
    check(|limits| limits.charge_more(u32::MAX), 0);
    check(|limits| limits.set_cost(3), 7);
    check(|limits| limits.set_cost(0), 10);
    check(Limits::refund, 10);
}

#[test]
fn the_last_wish_counts() {
    let wish = |limits: &Limits| {
        limits.charge_more(5);
        limits.set_cost(2);
        limits.charge_more(1);
    };
    check(wish, 7);
    let regret = |limits: &Limits| {
        limits.set_cost(8);
        limits.refund();
    };
    check(regret, 10);
    let change = |limits: &Limits| {
        limits.refund();
        limits.charge_more(6);
    };
    check(change, 4);
}

#[test]
fn a_handler_knows_how_it_stands() {
    let policy = "
costs: [{ path: /export, cost: 4 }]
rules:
  - { name: per-client, key: ip, limit: 10/min }
  - { name: watch, key: ip, limit: 6/h, shadow: true }
";
    let (told, heard) = mpsc::channel();
    let mut service = handled(policy, move |limits, _| {
        told.send((limits.decision(), limits.each())).unwrap();
        answer(200)
    });
    call(&mut service, request("/export"));
    let (decision, each) = heard.recv().unwrap();
    assert_eq!((decision.verdict, decision.limit), (Verdict::Allow, 10));
    assert_eq!(decision.remaining, 6);
    let each: Vec<_> =
        each.iter().map(|it| (&*it.name, it.cost, it.limit, it.remaining, it.is_shadow)).collect();
    assert_eq!(each, [("per-client", 4, 10, 6, false), ("watch", 4, 6, 2, true)]);
}

#[test]
fn a_rule_with_a_cost_of_its_own_does_not_listen() {
    let policy = "
rules:
  - { name: cells, key: ip, limit: 10/min }
  - { name: requests, key: ip, limit: 10/min, cost: 1 }
";
    let mut service = handled(policy, |limits, _| {
        limits.charge_more(5);
        answer(200)
    });
    let response = call(&mut service, request("/"));
    assert_eq!(header(&response, "ratelimit"), Some(r#""cells";r=4;t=36, "requests";r=9;t=6"#));
}

#[test]
fn what_a_body_says_is_charged_when_it_ends() {
    let (hand_over, taken) = mpsc::channel();
    let mut service = handled(TEN, move |limits, _| {
        let _ = hand_over.send(limits);
        answer(200)
    });
    let mut next = || (call(&mut service, request("/")), taken.recv().unwrap());
    let remaining = |it: &Served| header(it, "x-ratelimit-remaining").unwrap().to_owned();

    let (response, limits) = next();
    limits.charge_more(3);
    assert_eq!(remaining(&next().0), "8", "the body goes on");
    assert_eq!(crate::support::text(response.into_body()), "done");
    assert_eq!(limits.each()[0].cost, 4);
    assert_eq!(remaining(&next().0), "4");

    let (response, limits) = next();
    limits.charge_more(2);
    drop(response);
    assert_eq!(remaining(&next().0), "0", "dropped, it counts as well");
    limits.charge_more(9);
    drop(limits);
}

#[test]
fn failed_logins_count_and_others_are_given_back() {
    let policy = "
rules:
  - name: logins
    match: { method: POST, path: /login }
    key: ip
    limit: 3/min
    counts_when: { status: [401, 403] }
";
    let mut service = handled(policy, |_, request| {
        let is_right = request.headers().get("x-password").is_some_and(|it| it == "sesame");
        answer(if is_right { 200 } else { 401 })
    });
    let login = |password: &[u8]| with(request("POST /login"), "x-password", password);
    for _ in 0..10 {
        let response = call(&mut service, login(b"sesame"));
        assert_eq!(response.status(), 200);
        assert_eq!(header(&response, "x-ratelimit-remaining"), Some("3"), "given back");
    }
    for left in ["2", "1", "0"] {
        let response = call(&mut service, login(b"guess"));
        assert_eq!(response.status(), 401);
        assert_eq!(header(&response, "x-ratelimit-remaining"), Some(left));
    }
    assert_eq!(status(&mut service, login(b"sesame")), 429, "even who knows it now");
}

#[test]
fn a_response_says_what_it_costs() {
    let policy = "
rules:
  - name: tokens
    key: ip
    limit: 1000 tokens/min
    cost: { from: 'response:x-tokens', default: 10 }
";
    let mut service = handled(policy, |_, request| {
        let mut response = answer(200);
        if let Some(tokens) = request.headers().get("x-want") {
            response.headers_mut().insert("x-tokens", tokens.clone());
        }
        response
    });
    let want = |tokens: &[u8]| with(request("/"), "x-want", tokens);
    let asked: [(&[u8], &str); 4] =
        [(b"300", "700"), (b"3", "697"), (b"nonsense", "687"), (b"9999", "0")];
    for (tokens, left) in asked {
        let response = call(&mut service, want(tokens));
        assert_eq!(header(&response, "x-ratelimit-remaining"), Some(left));
    }
    assert_eq!(status(&mut service, want(b"1")), 429);
}

#[test]
fn the_policy_has_the_last_word() {
    let policy = "
rules:
  - { name: failures, key: ip, limit: 10/min, counts_when: { status: 5xx } }
";
    let mut service = handled(policy, |limits, request| {
        limits.charge_more(4);
        answer(if request.uri().path() == "/fails" { 500 } else { 200 })
    });
    for (path, left) in [("/", "10"), ("/fails", "5"), ("/", "5")] {
        let response = call(&mut service, request(path));
        assert_eq!(header(&response, "x-ratelimit-remaining"), Some(left), "{path}");
    }
}

#[test]
fn an_application_keeps_its_own_retry_after_but_not_our_fields() {
    let mut service = handled(TEN, |_, _| {
        let response = Response::builder().status(503).header("retry-after", "120");
        response.header("x-ratelimit-limit", "5").body(Text::new("later")).unwrap()
    });
    let response = call(&mut service, request("/"));
    assert_eq!(response.status(), 503);
    assert!(told(&response).contains("retry-after: 120\n"));
    assert_eq!(response.headers().get_all("x-ratelimit-limit").iter().count(), 1);
    assert_eq!(header(&response, "x-ratelimit-limit"), Some("10"));
}

#[test]
fn a_body_behind_the_layer_goes_wherever_its_own_does() {
    fn goes_anywhere<T: Send + Sync>() {}
    // As `BodyExt::boxed` wants it.
    goes_anywhere::<LimitedBody<Text>>();
}
