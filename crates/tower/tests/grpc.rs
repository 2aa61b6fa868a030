//! A real server of tonic, and a real call over HTTP/2 that it does not get to see.

#![allow(clippy::unwrap_used, reason = "a test ends where it is wrong")]

mod support;
mod wire;

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;

use http::{Request, Response};
use http_body::Body as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use support::Text;
use tidegate_tower::TidegateLayer;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// A service that answers every call with nothing, successfully; or with a message, and the status
/// that the call asks for behind it.
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

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let response = Response::builder().header("content-type", "application/grpc");
        let response = match request.headers().get("x-status").map(|it| it.to_str().unwrap()) {
            None => response.header("grpc-status", "0").body(Body::default()),
            Some("16") => response.body(message("16")),
            Some(_) => response.body(message("0")),
        };
        std::future::ready(Ok(response.unwrap()))
    }
}

/// A message, and a status in trailers.
fn message(status: &'static str) -> Body {
    Body::new(Text::new("\0\0\0\0\0").with_trailer("grpc-status", status))
}

/// What stands behind a body.
async fn trailers(mut body: hyper::body::Incoming) -> Option<http::HeaderMap> {
    let mut trailers = None;
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        trailers = frame.unwrap().into_trailers().ok().or(trailers);
    }
    trailers
}

/// The heads of responses to framed, empty messages; each asks for a status in trailers, if it is
/// any.
async fn calls(address: std::net::SocketAddr, statuses: &[&str]) -> Vec<Response<()>> {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let mut heads = Vec::new();
    for status in statuses {
        let mut request = Request::post(format!("http://{address}/shop.Cart/Add"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if !status.is_empty() {
            request = request.header("x-status", *status);
        }
        let request = request.body(Text::new("\0\0\0\0\0"));
        let response = sender.send_request(request.unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        let told = trailers(body).await.and_then(|it| it.get("grpc-status").cloned());
        let mut head = Response::from_parts(head, ());
        head.headers_mut()
            .extend(told.map(|it| (http::HeaderName::from_static("grpc-status"), it)));
        heads.push(head);
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
    let heads = server.runtime().block_on(calls(server.address, &[""; 3]));
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

/// The status of a call that has a message stands behind it.
#[test]
fn what_counts_is_seen_in_trailers() {
    let policy = "
rules:
  - name: failed-logins
    key: ip
    limit: 2/min
    counts_when: { header: { grpc-status: '16' } }
";
    let (gate, _) = support::gate(policy);
    let server = wire::Server::new(async move |listener| {
        let layer = TidegateLayer::new(gate);
        let incoming = TcpIncoming::from(listener);
        Server::builder().layer(layer).add_service(Shop).serve_with_incoming(incoming).await
    });
    let asked = ["0", "0", "0", "16", "0", "", "16", "0"];
    let heads = server.runtime().block_on(calls(server.address, &asked));
    let told: Vec<&str> =
        heads.iter().map(|head| support::header(head, "grpc-status").unwrap()).collect();
    assert_eq!(told, ["0", "0", "0", "16", "0", "0", "16", "8"]);
}
