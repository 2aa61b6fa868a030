//! Layers that do less than any limit can: nothing, or our five fields with values that never
//! change, or with three numbers in them that are counted down for everybody.
//!
//! What the first costs, nobody can save who is a layer. The others insert their fields one by one,
//! as most layers would.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

/// What is added to a response.
pub(super) trait Adds {
    fn add(headers: &mut HeaderMap);
}

#[derive(Clone)]
pub(super) struct Nothing;

#[derive(Clone)]
pub(super) struct FiveFields;

impl Adds for Nothing {
    fn add(_: &mut HeaderMap) {}
}

impl Adds for FiveFields {
    fn add(headers: &mut HeaderMap) {
        for (name, value) in FIELDS {
            headers.insert(name, value);
        }
    }
}

/// Three limits for everybody that look at nothing, not even at a clock, and never refuse.
#[derive(Clone)]
pub(super) struct ThreeCounts;

static LEFT: [AtomicU64; 3] = [const { AtomicU64::new(u64::MAX) }; 3];

thread_local! {
    static TEXT: RefCell<String> = RefCell::default();
}

impl Adds for ThreeCounts {
    fn add(headers: &mut HeaderMap) {
        let [policy, (ratelimit, _), limit, (remaining, _), reset] = FIELDS;
        let left = LEFT.each_ref().map(|it| it.fetch_sub(1, Ordering::Relaxed) % 10_000_000);
        let mut digits = itoa::Buffer::new();
        let told = TEXT.with_borrow_mut(|text| {
            text.clear();
            for (before, left) in BEFORE.iter().zip(left) {
                text.push_str(before);
                text.push_str(digits.format(left));
                text.push_str(";t=1");
            }
            HeaderValue::from_str(text)
        });
        headers.insert(policy.0, policy.1);
        if let Ok(told) = told {
            headers.insert(ratelimit, told);
        }
        headers.insert(limit.0, limit.1);
        if let Ok(closest) = HeaderValue::from_str(digits.format(left[0])) {
            headers.insert(remaining, closest);
        }
        headers.insert(reset.0, reset.1);
    }
}

const BEFORE: [&str; 3] = ["\"per-client\";r=", ", \"search\";r=", ", \"everyone\";r="];

#[derive(Clone)]
pub(super) struct FixedLayer<A>(pub(super) A);

#[derive(Clone)]
pub(super) struct Fixed<S, A>(S, PhantomData<A>);

impl<S, A> Layer<S> for FixedLayer<A> {
    type Service = Fixed<S, A>;

    fn layer(&self, inner: S) -> Fixed<S, A> {
        Fixed(inner, PhantomData)
    }
}

impl<S, B, R, A> Service<Request<B>> for Fixed<S, A>
where
    S: Service<Request<B>, Response = Response<R>>,
    A: Adds,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = FixedFuture<S::Future, A>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> FixedFuture<S::Future, A> {
        FixedFuture { future: self.0.call(request), adds: PhantomData }
    }
}

pin_project! {
    pub(super) struct FixedFuture<F, A> {
        #[pin]
        future: F,
        adds: PhantomData<A>,
    }
}

impl<F, R, E, A> Future for FixedFuture<F, A>
where
    F: Future<Output = Result<Response<R>, E>>,
    A: Adds,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let mut response = ready!(self.project().future.poll(context))?;
        A::add(response.headers_mut());
        Poll::Ready(Ok(response))
    }
}

/// As the three rules of the other contenders write them, ready before the program starts.
const FIELDS: [(HeaderName, HeaderValue); 5] = [
    field(
        "ratelimit-policy",
        "\"per-client\";q=10000000;w=1, \"search\";q=10000000;w=1, \"everyone\";q=10000000;w=1",
    ),
    field(
        "ratelimit",
        "\"per-client\";r=9999999;t=1, \"search\";r=9999999;t=1, \"everyone\";r=9999999;t=1",
    ),
    field("x-ratelimit-limit", "10000000"),
    field("x-ratelimit-remaining", "9999999"),
    field("x-ratelimit-reset", "1794802812"),
];

const fn field(name: &'static str, value: &'static str) -> (HeaderName, HeaderValue) {
    (HeaderName::from_static(name), HeaderValue::from_static(value))
}
