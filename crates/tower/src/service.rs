//! The service: decides in `call`, so that being ready costs nobody anything.

use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tidegate_core::Verdict;
use tidegate_gate::{Admission, Admit, Gate};
use tower_service::Service;

use crate::body::{Bodies, Wrapped};
use crate::future::ResponseFuture;
use crate::layer::Shared;
use crate::length::{Asked, Lengths};
use crate::limits::InFlight;
use crate::no_address;
use crate::seen::Seen;

/// A service with a gate in front; made by a [`TidegateLayer`](crate::TidegateLayer).
#[derive(Debug)]
pub struct TidegateService<S, P = Wrapped> {
    inner: S,
    shared: Arc<Shared>,
    bodies: PhantomData<fn() -> P>,
}

impl<S, P> TidegateService<S, P> {
    pub(crate) fn new(inner: S, shared: Arc<Shared>) -> TidegateService<S, P> {
        TidegateService { inner, shared, bodies: PhantomData }
    }

    /// The gate that decides.
    pub fn gate(&self) -> &Gate {
        &self.shared.gate
    }

    /// The service behind the gate.
    pub fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S, P> Clone for TidegateService<S, P>
where
    S: Clone,
{
    fn clone(&self) -> TidegateService<S, P> {
        TidegateService::new(self.inner.clone(), Arc::clone(&self.shared))
    }
}

impl<S, B, R, P> Service<Request<B>> for TidegateService<S, P>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    P: Bodies<R> + Lengths<B>,
{
    type Response = Response<P::Body>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B, P>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> ResponseFuture<S, B, P> {
        let asked = Asked::new(&request, P::length);
        let admit = self.shared.gate.admit(&asked).ready();
        if asked.lacks_address() && self.shared.gate.rules().enforces_by_address() {
            return self.refuse_without_address(&request);
        }
        match admit {
            Ok(admission) if admission.verdict() == Verdict::Allow => {
                let in_flight = InFlight::new(admission, &mut request);
                ResponseFuture::serving(self.inner.call(request), in_flight)
            }
            admit => self.call_later(admit, request),
        }
    }
}

impl<S, P> TidegateService<S, P> {
    /// For a request of an application that tells no addresses, under a policy that needs them.
    #[cold]
    #[inline(never)]
    fn refuse_without_address<B>(&mut self, request: &Request<B>) -> ResponseFuture<S, B, P>
    where
        S: Service<Request<B>> + Clone,
    {
        drop(take_ready(&mut self.inner));
        ResponseFuture::refused(no_address::respond(Seen::new(request)))
    }

    /// For a request that is refused, or has to wait: most are not and do not, and what is done for
    /// these is kept out of their way.
    #[cold]
    #[inline(never)]
    fn call_later<B>(
        &mut self,
        admit: Result<Box<Admission>, Admit>,
        request: Request<B>,
    ) -> ResponseFuture<S, B, P>
    where
        S: Service<Request<B>> + Clone,
    {
        match admit {
            Ok(admission) => {
                ResponseFuture::decided(&self.shared, admission, &mut self.inner, request)
            }
            Err(admit) => {
                let shared = Arc::clone(&self.shared);
                ResponseFuture::deciding(shared, admit, take_ready(&mut self.inner), request)
            }
        }
    }
}

/// Takes out the service that was polled until it was ready, and leaves one that was not: only the
/// former may be called.
pub(crate) fn take_ready<S: Clone>(service: &mut S) -> S {
    let another = service.clone();
    std::mem::replace(service, another)
}
