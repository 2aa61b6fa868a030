//! A real server of tonic, and a real call over HTTP/2 that it does not get to see.

#![allow(clippy::unwrap_used, reason = "a test ends where it is wrong")]

mod support;
mod wire;

use std::convert::Infallible;

use http::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use support::Text;
use tidegate_tower::TidegateLayer;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// A service that answers every call with nothing, successfully.
#[derive(Clone)]
struct Shop;

impl NamedService for Shop {
    const NAME: &'static str = "shop.Cart";
}

impl tower::Service<Request<Body>> for Shop {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        let response = Response::builder()
            .header("content-type", "application/grpc")
            .header("grpc-status", "0")
            .body(Body::default());
        std::future::ready(Ok(response.unwrap()))
    }
}

/// The heads of so many responses to a framed, empty message.
async fn calls(address: std::net::SocketAddr, count: usize) -> Vec<Response<()>> {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let mut heads = Vec::new();
    for _ in 0..count {
        let request = Request::post(format!("http://{address}/shop.Cart/Add"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Text::new("\0\0\0\0\0"));
        let response = sender.send_request(request.unwrap()).await.unwrap();
        heads.push(response.map(|_| ()));
    }
    heads
}

#[test]
fn a_call_that_is_refused_is_told_so_in_grpc() {
    let (gate, _) = support::gate("rules: [{ name: per-client, key: ip, limit: 2/min }]");
    let counts = gate.clone();
    let server = wire::Server::new(async move |listener| {
        let layer = TidegateLayer::new(gate);
        let incoming = TcpIncoming::from(listener);
        Server::builder().layer(layer).add_service(Shop).serve_with_incoming(incoming).await
    });
    let heads = server.runtime().block_on(calls(server.address, 3));
    let field = |at: usize, name: &str| support::header(&heads[at], name).map(str::to_owned);
    for (at, status) in ["0", "0", "8"].into_iter().enumerate() {
        assert_eq!(
            (heads[at].status().as_u16(), field(at, "grpc-status")),
            (200, Some(status.into()))
        );
    }
    assert_eq!(field(0, "ratelimit").as_deref(), Some(r#""per-client";r=1;t=30"#));
    assert_eq!(field(2, "retry-after").as_deref(), Some("30"));
    assert_eq!(field(2, "content-type").as_deref(), Some("application/grpc"));
    let message = "too many requests: try again in 30 seconds";
    assert_eq!(field(2, "grpc-message").as_deref(), Some(message));
    assert_eq!(counts.keys(), 1, "the client is known by its address");
}
