//! A server of hyper alone: it says itself who connected.

#![allow(clippy::unwrap_used, reason = "a test ends where it is wrong")]

use std::convert::Infallible;

use crate::support::Text;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tidegate_tower::{Peer, TidegateLayer};
use tower::{Layer, service_fn};

#[test]
fn a_server_of_hyper_is_limited_by_whom_it_says_connected() {
    let (gate, _) = crate::support::gate("rules: [{ name: per-client, key: ip, limit: 2/min }]");
    let layer = TidegateLayer::new(gate);
    let server = crate::wire::Server::new(async move |listener: tokio::net::TcpListener| {
        let hello = service_fn(async |_: Request<Incoming>| {
            Ok::<_, Infallible>(Response::new(Text::new("hello")))
        });
        let limited = layer.layer(hello);
        loop {
            let (stream, peer) = listener.accept().await.unwrap();
            let inner = limited.clone();
            let named = service_fn(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(Peer(peer.ip()));
                tower::ServiceExt::oneshot(inner.clone(), request)
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(named));
            tokio::spawn(connection);
        }
    });
    let replies: Vec<_> = (0..3).map(|_| server.ask("GET /")).collect();
    let statuses: Vec<u16> = replies.iter().map(crate::wire::Reply::status).collect();
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!((replies[0].remaining(), &*replies[0].body), (1, "hello"));
    assert_eq!(replies[2].header("retry-after"), Some("30"));
}
