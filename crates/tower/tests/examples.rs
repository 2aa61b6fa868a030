//! Every example does what it says, over a real connection.

/// The examples as modules, so that their apps can be served here.
macro_rules! examples {
    ($($name:ident: $path:literal;)*) => {
        $(
            #[allow(dead_code, unreachable_pub, reason = "its `main` is not run here")]
            #[path = $path]
            mod $name;
        )*
    };
}

examples! {
    api_key_or_ip: "../examples/api_key_or_ip.rs";
    export_costs: "../examples/export_costs.rs";
    failed_logins: "../examples/failed_logins.rs";
    fleet: "../examples/fleet.rs";
    handler_charges: "../examples/handler_charges.rs";
    logged_out: "../examples/logged_out.rs";
    newcomers: "../examples/newcomers.rs";
    paid_tiers: "../examples/paid_tiers.rs";
    per_endpoint: "../examples/per_endpoint.rs";
    shared_backend: "../examples/shared_backend.rs";
    smooth: "../examples/smooth.rs";
    uploads_in_flight: "../examples/uploads_in_flight.rs";
}
mod support;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use axum::Router;
use tidegate_core::Span;
use tidegate_store::ManualClock;
use tidegate_tower::{Gate, Limits};
use wire::{Server, Upload};

/// The example's app on a free port, by a clock that stands still.
fn serve(policy: &str, app: impl FnOnce(Gate) -> Router) -> (Server, Arc<ManualClock>) {
    let (gate, clock) = support::gate(policy);
    let app = app(gate).into_make_service_with_connect_info::<SocketAddr>();
    (Server::new(async move |listener| axum::serve(listener, app).await), clock)
}

/// The statuses of so many requests.
fn statuses(server: &Server, line: &str, headers: &[(&str, &str)], count: usize) -> Vec<u16> {
    (0..count).map(|_| server.ask_with(line, headers).status()).collect()
}

/// So many pass, and the next one does not.
#[track_caller]
fn passes(server: &Server, line: &str, headers: &[(&str, &str)], count: usize) {
    let mut expected = vec![200; count];
    expected.push(429);
    assert_eq!(statuses(server, line, headers, count + 1), expected, "{line} {headers:?}");
}

#[test]
fn clients_are_counted_by_key_or_address() {
    let (server, _) = serve(api_key_or_ip::POLICY, api_key_or_ip::app);
    passes(&server, "GET /", &[("x-api-key", "demo")], 5);
    passes(&server, "GET /", &[("x-api-key", "other")], 5);
    passes(&server, "GET /", &[], 5);
    passes(&server, "GET /", &[("x-api-key", "made-up")], 0);
    let refused = server.ask_with("GET /", &[("x-api-key", "demo")]);
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("ratelimit-policy"), Some(r#""per-client";q=5;w=3"#));
    assert!(refused.body.contains(r#""retry_after":1"#));
    let head = server.ask("HEAD /");
    assert_eq!((head.status(), &*head.body), (429, ""));
}

#[test]
fn endpoints_have_their_own_limits() {
    let (server, _) = serve(per_endpoint::POLICY, per_endpoint::app);
    passes(&server, "GET /api/search?q=a", &[], 2);
    passes(&server, "GET /api/articles/1", &[], 3);
    passes(&server, "GET /api/articles/2", &[], 3);
    passes(&server, "GET /api/articles/%31", &[], 0);
}

#[test]
fn those_who_have_not_logged_in_are_told_apart_by_their_browser() {
    let (server, _) = serve(logged_out::POLICY, logged_out::app);
    passes(&server, "GET /", &[("user-agent", "one")], 30);
    passes(&server, "GET /", &[("user-agent", "two")], 30);
    passes(&server, "GET /about", &[("user-agent", "one")], 30);
    let reply = server.ask_with("GET /", &[("user-agent", "one"), ("authorization", "me")]);
    assert_eq!((reply.status(), reply.remaining()), (200, 599));
}

#[test]
fn newcomers_have_a_burst_and_a_day() {
    let (server, clock) = serve(newcomers::POLICY, newcomers::app);
    passes(&server, "GET /", &[], 20);
    clock.advance(Span::from_secs(60));
    passes(&server, "GET /", &[], 20);
    clock.advance(Span::from_secs(60));
    passes(&server, "GET /", &[], 10);
    let refused = server.ask("GET /");
    // It is two minutes past noon less a minute in UTC, and summer in Berlin.
    assert_eq!(refused.header("retry-after"), Some("35940"));
    assert!(refused.body.contains(r#""violated-policies":["daily"]"#), "{}", refused.body);
    clock.advance(Span::from_secs(35_940));
    passes(&server, "GET /", &[], 20);
}

#[test]
fn tiers_have_their_own_limits() {
    let (server, _) = serve(paid_tiers::POLICY, paid_tiers::app);
    passes(&server, "GET /", &[], 3);
    passes(&server, "GET /", &[("x-api-key", "gold")], 6);
    assert_eq!(statuses(&server, "GET /", &[("x-api-key", "platinum")], 50), [200; 50]);
}

#[test]
fn an_export_costs_ten() {
    let (server, _) = serve(export_costs::POLICY, export_costs::app);
    assert_eq!(server.ask("POST /export/orders").remaining(), 15);
    assert_eq!(server.ask("GET /").remaining(), 14);
    assert_eq!(server.ask("POST /export/orders").remaining(), 4);
    assert_eq!(server.ask("POST /export/orders").status(), 429);
    assert_eq!(server.ask("GET /preview").remaining(), 4);
    passes(&server, "GET /", &[], 4);
}

#[test]
fn wrong_passwords_count() {
    let (server, clock) = serve(failed_logins::POLICY, failed_logins::app);
    let login = |password| server.send("POST /login", &[], password).status();
    for _ in 0..10 {
        assert_eq!(login("sesame"), 200);
    }
    for _ in 0..5 {
        assert_eq!(login("guess"), 401);
    }
    assert_eq!((login("guess"), login("sesame")), (429, 429));
    clock.advance(Span::from_secs(12));
    assert_eq!(login("sesame"), 200);
}

#[test]
fn a_burst_is_smoothed_out() {
    let (server, clock) = serve(smooth::POLICY, smooth::app);
    assert_eq!(server.ask("GET /").status(), 200);
    thread::scope(|scope| {
        let waiting: Vec<_> =
            (0..3).map(|_| scope.spawn(|| server.ask("GET /").status())).collect();
        while clock.waiting() < 3 {
            thread::yield_now();
        }
        assert_eq!(server.ask("GET /").status(), 429, "the queue is full");
        for done in 1..=3 {
            clock.advance(Span::from_millis(100));
            while waiting.iter().filter(|it| it.is_finished()).count() < done {
                thread::yield_now();
            }
            assert_eq!(clock.waiting(), 3 - done);
        }
        assert!(waiting.into_iter().all(|it| it.join().unwrap() == 200));
    });
}

#[test]
fn uploads_are_in_flight_until_they_end() {
    let (server, _) = serve(uploads_in_flight::POLICY, uploads_in_flight::app);
    let begin = || {
        let headers = [("expect", "100-continue")];
        let mut upload = Upload::begin(&server, "PUT /upload", &headers, 10);
        upload.wait_until_wanted();
        upload.send("12345");
        upload
    };
    let (mut first, second) = (begin(), begin());
    let refused = server.send("PUT /upload", &[], "more");
    assert_eq!((refused.status(), refused.remaining()), (429, 0));
    first.send("67890");
    let reply = first.finish();
    assert_eq!((reply.status(), &*reply.body), (200, "10 bytes"));
    let third = begin();
    assert_eq!(server.send("PUT /upload", &[], "more").status(), 429);
    // Those who go away in the middle give back theirs as well.
    drop((second, third));
    while server.send("PUT /upload", &[], "more").status() != 200 {
        thread::yield_now();
    }
}

#[test]
fn a_handler_charges_what_it_found() {
    let (server, _) = serve(handler_charges::POLICY, handler_charges::app);
    let reply = server.ask("GET /search/12");
    assert_eq!((reply.remaining(), &*reply.body), (88, "12 results, 99 before"));
    assert_eq!(server.ask("GET /search/0").remaining(), 88);
    assert_eq!(server.ask("GET /search/88").remaining(), 0);
    assert_eq!(server.ask("GET /search/1").status(), 429);
}

#[test]
fn a_route_without_the_layer_says_what_is_missing() {
    let forgot = async |_: Limits| "never";
    let optional = async |limits: Option<Limits>| limits.is_none().to_string();
    let app = Router::new().route("/", axum::routing::get(forgot));
    let app = app.route("/optional", axum::routing::get(optional));
    let server = Server::new(async move |listener| axum::serve(listener, app).await);
    let reply = server.ask("GET /");
    assert_eq!(reply.status(), 500);
    assert!(reply.body.contains("`TidegateLayer`"), "{}", reply.body);
    assert_eq!(server.ask("GET /optional").body, "true");
}

#[test]
fn a_backend_is_shared_by_whoever_asks() {
    let (server, _clock) = serve(shared_backend::POLICY, shared_backend::app);
    let key = |name| [("x-api-key", name)];
    for name in ["ada", "bob"] {
        assert_eq!(server.ask_with("GET /search", &key(name)).status(), 200);
    }
}

#[test]
fn nodes_of_a_fleet_share_one_limit() {
    let redis = tidegate_testbed::Server::start().unwrap();
    let url = redis.url();
    let node = || {
        let url = url.clone();
        Server::new(async move |listener| {
            let app = fleet::app(fleet::gate(&url).await.unwrap());
            axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
        })
    };
    let (here, there) = (node(), node());
    for (nth, server) in [&here, &there, &here, &there, &here].into_iter().enumerate() {
        assert_eq!(server.ask("GET /").status(), 200, "request {nth}");
    }
    assert_eq!(there.ask("GET /").status(), 429);
    assert_eq!(here.ask("GET /").status(), 429);
}
