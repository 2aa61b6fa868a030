//! A layer that decides nothing: it adds our five fields with values that never change.
//!
//! What it costs, nobody who sends these fields can save.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderName, HeaderValue, Request, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

#[derive(Clone)]
pub(super) struct FixedLayer;

#[derive(Clone)]
pub(super) struct Fixed<S>(S);

impl<S> Layer<S> for FixedLayer {
    type Service = Fixed<S>;

    fn layer(&self, inner: S) -> Fixed<S> {
        Fixed(inner)
    }
}

impl<S, B, R> Service<Request<B>> for Fixed<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = FixedFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> FixedFuture<S::Future> {
        FixedFuture { future: self.0.call(request) }
    }
}

pin_project! {
    pub(super) struct FixedFuture<F> {
        #[pin]
        future: F,
    }
}

impl<F, R, E> Future for FixedFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let mut response = ready!(self.project().future.poll(context))?;
        for (name, value) in FIELDS {
            let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
            response.headers_mut().insert(name, value);
        }
        Poll::Ready(Ok(response))
    }
}

/// As the three rules of the other contenders write them.
const FIELDS: [(&str, &str); 5] = [
    (
        "ratelimit-policy",
        "\"per-client\";q=1000000;w=1, \"search\";q=1000000;w=1, \"everyone\";q=1000000;w=1",
    ),
    (
        "ratelimit",
        "\"per-client\";r=999999;t=1, \"search\";r=999999;t=1, \"everyone\";r=999999;t=1",
    ),
    ("x-ratelimit-limit", "1000000"),
    ("x-ratelimit-remaining", "999999"),
    ("x-ratelimit-reset", "1794802812"),
];
