//! A collector of traces on a port that the system chose: real OTLP over real HTTP.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prost::Message as _;
use tidegate_testbed::until;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use crate::otlp::{self, Span};

/// How a collector treats those who come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mood {
    Takes,
    /// Takes all but this many, and says so.
    Rejects(u8),
    Refuses,
    IsSilent,
}

/// A collector that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Collector {
    port: u16,
    got: Arc<Mutex<Vec<otlp::Request>>>,
    _runtime: Runtime,
}

impl Collector {
    pub(crate) fn new(mood: Mood) -> Collector {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a thread can be had");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let got = Arc::default();
        runtime.spawn(accept(listener, mood, Arc::clone(&got)));
        Collector { port, got, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What has come.
    pub(crate) fn requests(&self) -> Vec<otlp::Request> {
        self.got.lock().expect("nobody panicked").clone()
    }

    /// The spans that have come.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let resources = self.requests().into_iter().flat_map(|it| it.resource_spans);
        resources.flat_map(|it| it.scope_spans).flat_map(|it| it.spans).collect()
    }

    /// Waits for so many spans.
    pub(crate) fn wait_for(&self, spans: usize) -> Vec<Span> {
        let have_come = || spans <= self.spans().len();
        until(Duration::from_secs(20), "the spans have come", have_come).expect("spans");
        self.spans()
    }
}

async fn accept(listener: TcpListener, mood: Mood, got: Arc<Mutex<Vec<otlp::Request>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let got = Arc::clone(&got);
        let service = service_fn(move |request| take(request, mood, Arc::clone(&got)));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn take(
    request: Request<Incoming>,
    mood: Mood,
    got: Arc<Mutex<Vec<otlp::Request>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    assert_eq!((request.method(), request.uri().path()), (&Method::POST, "/v1/traces"));
    assert_eq!(request.headers()["content-type"], "application/x-protobuf");
    let body = request.into_body().collect().await.expect("a whole body").to_bytes();
    let read = otlp::Request::decode(body).expect("OTLP");
    got.lock().expect("nobody panicked").push(read);
    let mut response = Response::new(Full::default());
    match mood {
        Mood::Takes => {}
        // `partial_success.rejected_spans`
        Mood::Rejects(spans) => *response.body_mut() = Full::from(vec![0x0a, 2, 8, spans]),
        Mood::Refuses => *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE,
        Mood::IsSilent => std::future::pending().await,
    }
    Ok(response)
}
