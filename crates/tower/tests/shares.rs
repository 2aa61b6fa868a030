//! Tenants share a service by weight, over real connections.

#![allow(clippy::unwrap_used, reason = "a test ends where it is wrong")]

mod support;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use http::{Request, Response};
use support::{Text, call, header, limited, poll, request, text, with};
use tidegate_tower::{Deadline, Gate, TidegateLayer};
use tokio::sync::Semaphore;
use tower::{Layer as _, Service as _};
use wire::{Server, Upload};

const POLICY: &str = "
identify: { client: [header:x-api-key] }
tiers: { header: x-tier, default: free, names: [free, pro] }
rules: [{ name: per-client, key: client, limit: 100000/h }]
share:
  - name: backend
    capacity: 2 in flight
    by: client
    weight: { free: 1, pro: 4 }
    wait: 1min
";

/// A service that answers one request for each turn of a key.
struct Slow {
    server: Server,
    gate: Gate,
    key: Arc<Semaphore>,
    /// Names, in the order in which they were begun.
    begun: Receiver<String>,
}

impl Slow {
    fn new() -> Slow {
        let gate = Gate::from_text(POLICY).unwrap();
        let (key, (sender, begun)) = (Arc::new(Semaphore::new(0)), channel());
        let turns = Arc::clone(&key);
        let answer = async move |Path(name): Path<String>| work(&name, &sender, &turns).await;
        let app = Router::new().route("/{name}", get(answer));
        let app = app.layer(TidegateLayer::new(gate.clone()));
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        let server = Server::new(async move |listener| axum::serve(listener, app).await);
        Slow { server, gate, key, begun }
    }

    fn send(&self, name: &str, tier: &str) -> Upload {
        let headers = [("x-api-key", name), ("x-tier", tier)];
        Upload::begin(&self.server, &format!("GET /{name}"), &headers, 0)
    }

    fn next(&self) -> String {
        self.begun.recv_timeout(Duration::from_secs(20)).expect("somebody is served")
    }

    /// Waits until so many requests stand in the queue.
    fn wait_for(&self, waiting: u32) {
        for _ in 0..20_000 {
            if self.gate.stats().shares[0].waiting == waiting {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        panic!("{:?}, not {waiting} waiting", self.gate.stats().shares);
    }

    /// Ends one after the other; whose turn it was then.
    fn serve(&self, count: usize) -> Vec<String> {
        let one = |_| {
            self.key.add_permits(1);
            self.next()
        };
        (0..count).map(one).collect()
    }
}

async fn work(name: &str, begun: &Sender<String>, turns: &Semaphore) -> &'static str {
    let _ = begun.send(name.to_owned());
    turns.acquire().await.unwrap().forget();
    "done"
}

#[test]
fn a_noisy_tenant_does_not_keep_a_quiet_one_waiting() {
    let slow = Slow::new();
    let noisy: Vec<Upload> = (0..100).map(|_| slow.send("noisy", "free")).collect();
    assert_eq!([slow.next(), slow.next()], ["noisy", "noisy"]);
    slow.wait_for(98);
    let quiet = slow.send("quiet", "free");
    slow.wait_for(99);
    let served = slow.serve(3);
    assert!(served.contains(&"quiet".to_owned()), "{served:?}");
    slow.key.add_permits(200);
    assert_eq!(quiet.finish().status(), 200);
    assert!(noisy.into_iter().all(|it| it.finish().status() == 200));
    let stats = slow.gate.stats().shares.remove(0);
    assert_eq!((stats.dispatched, stats.waiting), (101, 0));
}

#[test]
fn tiers_share_by_weight() {
    let slow = Slow::new();
    let held: Vec<Upload> = (0..2).map(|_| slow.send("held", "free")).collect();
    assert_eq!([slow.next(), slow.next()], ["held", "held"]);
    let mut all: Vec<Upload> = (0..50).map(|_| slow.send("free", "free")).collect();
    all.extend((0..50).map(|_| slow.send("pro", "pro")));
    slow.wait_for(100);
    let served = slow.serve(50);
    let pro = served.iter().filter(|name| *name == "pro").count();
    assert!((39..=41).contains(&pro), "{pro} of 50: {served:?}");
    slow.key.add_permits(200);
    for it in all.into_iter().chain(held) {
        assert_eq!(it.finish().status(), 200);
    }
}

#[test]
fn whoever_hangs_up_leaves_the_queue() {
    let slow = Slow::new();
    let held: Vec<Upload> = (0..2).map(|_| slow.send("held", "free")).collect();
    assert_eq!([slow.next(), slow.next()], ["held", "held"]);
    let waiting: Vec<Upload> = (0..5).map(|_| slow.send("gone", "free")).collect();
    let stays = slow.send("stays", "free");
    slow.wait_for(6);
    drop(waiting);
    slow.wait_for(1);
    assert_eq!(slow.serve(1), ["stays"]);
    slow.key.add_permits(10);
    assert_eq!(stays.finish().status(), 200);
    for it in held {
        assert_eq!(it.finish().status(), 200);
    }
    assert_eq!(slow.gate.stats().shares[0].dispatched, 3);
}

#[test]
fn a_place_lasts_until_the_response_has_been_sent() {
    let (mut service, hello, _clock) = limited(&POLICY.replace("2 in flight", "1 in flight"));
    let response = call(&mut service, request("/"));
    let mut waiting = service.call(request("/"));
    assert!(poll(&mut Box::pin(&mut waiting)).is_pending(), "the body has not been sent");
    assert_eq!((text(response.into_body()), hello.calls()), ("hello".to_owned(), 1));
    assert!(poll(&mut Box::pin(&mut waiting)).is_ready());
    assert_eq!(hello.calls(), 2);
}

#[test]
fn without_a_turn_in_time_the_service_is_at_its_limit() {
    let (mut service, _, clock) = limited(&POLICY.replace("2 in flight", "1 in flight"));
    let _held = call(&mut service, request("/"));
    let mut hasty = request("/");
    hasty.extensions_mut().insert(Deadline(Duration::ZERO));
    let refused = call(&mut service, hasty);
    assert_eq!(refused.status(), 503);
    assert_eq!(header(&refused, "content-type"), Some("application/problem+json"));
    assert!(header(&refused, "retry-after").is_some());
    let problem: serde_json::Value = serde_json::from_str(&text(refused.into_body())).unwrap();
    assert_eq!((&problem["error"], &problem["status"]), (&"crowded".into(), &503.into()));
    // One with less patience than the share goes when its time is over.
    let call = with(request("POST /"), "grpc-timeout", b"100m");
    let mut grpc = Box::pin(service.call(with(call, "content-type", b"application/grpc")));
    assert!(poll(&mut grpc).is_pending());
    clock.advance(tidegate_core::Span::from_millis(101));
    let std::task::Poll::Ready(Ok(refused)) = poll(&mut grpc) else { panic!("it waits") };
    assert_eq!((refused.status().as_u16(), header(&refused, "grpc-status")), (200, Some("14")));
    assert!(header(&refused, "grpc-retry-pushback-ms").is_some());
}

/// Once it is known how fast the service is, one that cannot be in time does not wait at all.
#[test]
fn one_that_cannot_be_in_time_is_refused_at_once() {
    let (mut service, _, clock) = limited(&POLICY.replace("2 in flight", "1 in flight"));
    for _ in 0..32 {
        let response = call(&mut service, request("/"));
        clock.advance(tidegate_core::Span::from_millis(100));
        drop(response);
    }
    let _held = call(&mut service, request("/"));
    let mut waiting: Vec<_> = (0..10).map(|_| Box::pin(service.call(request("/")))).collect();
    assert!(waiting.iter_mut().all(|it| poll(it).is_pending()));
    let mut hasty = request("/");
    hasty.extensions_mut().insert(Deadline(Duration::from_millis(500)));
    let refused = call(&mut service, hasty);
    assert_eq!((refused.status().as_u16(), header(&refused, "retry-after")), (503, Some("1")));
}

/// What comes of sixty-four requests: the places that the share has then.
fn places_after(answer: impl Fn() -> Result<Response<Text>, &'static str> + Clone) -> u32 {
    let policy = POLICY.replace("2 in flight", "100 in flight\n    adaptive: 5%");
    let (gate, clock) = support::gate(&policy);
    let takes = move |_: Request<()>| {
        clock.advance(tidegate_core::Span::from_millis(10));
        std::future::ready(answer())
    };
    let mut service = TidegateLayer::new(gate.clone()).layer(tower::service_fn(takes));
    for _ in 0..64 {
        let answered = support::at_once(service.call(request("/")));
        drop(answered.map(|response| support::text(response.into_body())));
    }
    gate.stats().shares[0].limit
}

#[test]
fn a_share_hears_what_comes_of_calls_in_their_trailers() {
    let answers = |status: &'static str| {
        places_after(move || {
            let mut response =
                Response::new(Text::new("so it is").with_trailer("grpc-status", status));
            let media_type = http::HeaderValue::from_static("application/grpc");
            response.headers_mut().insert("content-type", media_type);
            Ok(response)
        })
    };
    let served = answers("0");
    assert!(20 <= served, "{served}");
    assert_eq!(answers("5"), served, "as it should");
    let failed = [answers("4"), answers("14")];
    assert!(failed.iter().all(|places| *places < served), "{failed:?}");
}

#[test]
fn a_share_that_finds_its_capacity_hears_what_comes_of_requests() {
    let answers = |status: u16, grpc: Option<&'static str>| {
        places_after(move || {
            let mut response = Response::new(Text::new("so it is"));
            *response.status_mut() = status.try_into().unwrap();
            if let Some(grpc) = grpc {
                response.headers_mut().insert("grpc-status", grpc.parse().unwrap());
            }
            Ok(response)
        })
    };
    let served = answers(200, None);
    assert!(20 <= served, "{served}");
    assert_eq!([answers(404, None), answers(200, Some("5"))], [served; 2], "as it should");
    let failed = [answers(500, None), answers(504, None), answers(200, Some("14"))];
    assert!(failed.iter().all(|places| *places < served), "{failed:?}");
    assert!(places_after(|| Err("gone")) < served);
}
