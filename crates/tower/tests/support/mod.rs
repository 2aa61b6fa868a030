//! A gate by a clock that stands still, and a service that is called without a runtime.

#![allow(dead_code, unreachable_pub, reason = "each test uses what it needs")]
#![allow(clippy::unwrap_used, reason = "a test ends where it is wrong")]

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use tidegate_core::Span;
use tidegate_store::ManualClock;
use tidegate_tower::{Gate, Peer, TidegateLayer, TidegateService};
use tower::{Layer, Service};

/// The tick at which tests begin, in seconds of Unix time.
pub const START: u32 = 1_721_044_740;

pub type Error = Infallible;

/// A gate and its clock.
pub fn gate(policy: &str) -> (Gate, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    clock.advance(Span::from_secs(START));
    let gate = Gate::builder().text(policy).clock(clock.clone()).open();
    (gate.unwrap_or_else(|error| panic!("{error}")), clock)
}

/// A service that says hello, and counts how often.
#[derive(Clone, Default)]
pub struct Hello {
    pub calls: Arc<AtomicUsize>,
}

impl Hello {
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

impl<B> Service<Request<B>> for Hello {
    type Response = Response<Text>;
    type Error = Error;
    type Future = Ready<Result<Response<Text>, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        self.calls.fetch_add(1, Ordering::Relaxed);
        ready(Ok(Response::new(Text::new("hello"))))
    }
}

/// A limited service that says hello.
pub fn limited(policy: &str) -> (TidegateService<Hello>, Hello, Arc<ManualClock>) {
    let (gate, clock) = gate(policy);
    let hello = Hello::default();
    (TidegateLayer::new(gate).layer(hello.clone()), hello, clock)
}

/// A body of one piece, and trailers if there are any.
#[derive(Clone, Debug, Default)]
pub struct Text(Option<Bytes>, Option<http::HeaderMap>);

impl Text {
    pub fn new(text: &'static str) -> Text {
        Text(Some(Bytes::from_static(text.as_bytes())), None)
    }

    /// The text with a trailer.
    pub fn with_trailer(mut self, name: &'static str, value: &'static str) -> Text {
        let trailers = self.1.get_or_insert_default();
        trailers.insert(name, http::HeaderValue::from_static(value));
        self
    }
}

impl Body for Text {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let data = self.0.take().map(Frame::data);
        Poll::Ready(data.or_else(|| self.1.take().map(Frame::trailers)).map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none() && self.1.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, Bytes::len) as u64)
    }
}

/// A request such as `GET /search`, from somebody.
pub fn request(line: &str) -> Request<()> {
    from("192.0.2.1", line)
}

/// A request as `request` makes it, from the given address.
pub fn from(peer: &str, line: &str) -> Request<()> {
    let (method, uri) = line.split_once(' ').unwrap_or(("GET", line));
    let mut request = Request::builder().method(method).uri(uri).body(()).unwrap();
    let peer: IpAddr = peer.parse().unwrap();
    request.extensions_mut().insert(Peer(peer));
    request
}

/// The request with a header.
pub fn with(mut request: Request<()>, name: &'static str, value: &[u8]) -> Request<()> {
    request.headers_mut().append(name, http::HeaderValue::from_bytes(value).unwrap());
    request
}

/// Polls once; nobody is woken.
pub fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// What a future says at once.
#[track_caller]
pub fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("it is not there at once"),
    }
}

/// The response that a service gives at once.
#[track_caller]
pub fn call<S, B, R>(service: &mut S, request: Request<B>) -> Response<R>
where
    S: Service<Request<B>, Response = Response<R>, Error = Error>,
{
    let Ok(()) = at_once(std::future::poll_fn(|context| service.poll_ready(context)));
    let Ok(response) = at_once(service.call(request));
    response
}

/// The status of that response.
#[track_caller]
pub fn status<S, B, R>(service: &mut S, request: Request<B>) -> u16
where
    S: Service<Request<B>, Response = Response<R>, Error = Error>,
{
    call(service, request).status().as_u16()
}

/// The whole of a body that is there.
#[track_caller]
pub fn text<R: Body>(body: R) -> String
where
    R::Error: std::fmt::Debug,
{
    let (mut body, mut whole) = (pin!(body), Vec::new());
    while let Some(frame) = at_once(std::future::poll_fn(|it| body.as_mut().poll_frame(it))) {
        if let Ok(mut data) = frame.unwrap().into_data() {
            whole.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
    }
    String::from_utf8(whole).unwrap()
}

/// A header, if it is there.
pub fn header<'r, R>(response: &'r Response<R>, name: &str) -> Option<&'r str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

/// Every header that tells of limits, sorted, one to a line.
pub fn told<R>(response: &Response<R>) -> String {
    let is_ours = |name: &str| name.contains("ratelimit") || name == "retry-after";
    let lines = response.headers().iter().filter(|(name, _)| is_ours(name.as_str()));
    let mut lines: Vec<String> =
        lines.map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap())).collect();
    lines.sort();
    lines.concat()
}
