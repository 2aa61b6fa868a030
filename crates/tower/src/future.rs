//! A request on its way: decided, held back, served, settled.
//!
//! Dropped at any point it leaves nothing behind: a request that is held back leaves the queue, and
//! permits come back.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tidegate_gate::{Admission, Admit, Settling, Start};
use tower_service::Service;

use crate::body::{Bodies, LimitedBody, Wrapped};
use crate::deadline;
use crate::layer::Shared;
use crate::limits::{InFlight, Left};
use crate::refusal;
use crate::seen::Seen;
use crate::service::take_ready;

pin_project! {
    /// The response to a request, to come.
    #[must_use = "a future does nothing until it is awaited"]
    pub struct ResponseFuture<S, B, P = Wrapped>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        stage: Stage<S, B, S::Future, S::Response>,
        bodies: PhantomData<fn() -> P>,
    }
}

pin_project! {
    #[project = StageProjected]
    enum Stage<S, B, F, R> {
        // Most requests are served at once: what others need is boxed, to keep the future small.
        Deciding { admit: Admit, shared: Arc<Shared>, asked: Option<Box<(S, Request<B>)>> },
        Waiting { start: Box<Start>, asked: Option<Box<(S, Request<B>)>> },
        // In this order: what is served is dropped before its permits come back.
        Serving { #[pin] future: F, in_flight: Option<InFlight> },
        Settling { settling: Settling, served: Option<Box<(R, InFlight)>> },
        Refusing { settling: Settling, refused: Option<Box<Refused<B>>> },
        Refused { response: Option<Box<Response<Bytes>>> },
    }
}

/// A request that cannot wait for as long as it would have to.
struct Refused<B> {
    shared: Arc<Shared>,
    admission: Box<Admission>,
    request: Request<B>,
}

impl<S, B, P> ResponseFuture<S, B, P>
where
    S: Service<Request<B>> + Clone,
{
    #[inline]
    fn at(stage: Stage<S, B, S::Future, S::Response>) -> ResponseFuture<S, B, P> {
        ResponseFuture { stage, bodies: PhantomData }
    }

    pub(crate) fn deciding(
        shared: Arc<Shared>,
        admit: Admit,
        service: S,
        request: Request<B>,
    ) -> ResponseFuture<S, B, P> {
        let asked = Some(Box::new((service, request)));
        ResponseFuture::at(Stage::Deciding { admit, shared, asked })
    }

    /// For one that is being served.
    #[inline]
    pub(crate) fn serving(future: S::Future, in_flight: InFlight) -> ResponseFuture<S, B, P> {
        ResponseFuture::at(Stage::Serving { future, in_flight: Some(in_flight) })
    }

    /// For one that is answered already.
    pub(crate) fn refused(response: Response<Bytes>) -> ResponseFuture<S, B, P> {
        ResponseFuture::at(Stage::Refused { response: Some(Box::new(response)) })
    }

    pub(crate) fn decided(
        shared: &Arc<Shared>,
        admission: Box<Admission>,
        service: &mut S,
        request: Request<B>,
    ) -> ResponseFuture<S, B, P> {
        ResponseFuture::at(Stage::decided(shared, admission, service, request))
    }
}

impl<S, B> Stage<S, B, S::Future, S::Response>
where
    S: Service<Request<B>> + Clone,
{
    /// What comes after a decision. `service` is ready.
    fn decided(
        shared: &Arc<Shared>,
        mut admission: Box<Admission>,
        service: &mut S,
        request: Request<B>,
    ) -> Self {
        if admission.delay().is_some()
            && let Some(deadline) =
                deadline::of(request.method(), request.headers(), request.extensions())
        {
            let settling = admission.hurry(deadline);
            if !admission.verdict().passes() {
                drop(take_ready(service));
                let refused = Refused { shared: Arc::clone(shared), admission, request };
                return Stage::Refusing { settling, refused: Some(Box::new(refused)) };
            }
        }
        if !admission.verdict().passes() {
            // What the service keeps for one that it is ready for, somebody else may have.
            drop(take_ready(service));
            return Stage::refused(shared, &admission, &request);
        }
        if admission.delay().is_some() {
            let asked = Some(Box::new((take_ready(service), request)));
            return Stage::Waiting { start: Box::new(admission.start()), asked };
        }
        Stage::serving(admission, service, request)
    }

    fn refused(shared: &Shared, admission: &Admission, request: &Request<B>) -> Self {
        let response = refusal::respond(shared, admission, Seen::new(request));
        Stage::Refused { response: Some(Box::new(response)) }
    }

    fn serving(admission: Box<Admission>, service: &mut S, mut request: Request<B>) -> Self {
        let in_flight = InFlight::new(admission, &mut request);
        Stage::Serving { future: service.call(request), in_flight: Some(in_flight) }
    }
}

impl<S, B, R, P> Future for ResponseFuture<S, B, P>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    P: Bodies<R>,
{
    type Output = Result<Response<P::Body>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        const DONE: &str = "not polled after it was done";
        let mut this = self.project();
        loop {
            let next = match this.stage.as_mut().project() {
                StageProjected::Deciding { admit, shared, asked } => {
                    let admission = Box::new(ready!(Pin::new(admit).poll(context)));
                    let (mut service, request) = *asked.take().expect(DONE);
                    Stage::decided(shared, admission, &mut service, request)
                }
                StageProjected::Waiting { start, asked } => {
                    let admission = Box::new(ready!(Pin::new(start).poll(context)));
                    let (mut service, request) = *asked.take().expect(DONE);
                    Stage::serving(admission, &mut service, request)
                }
                StageProjected::Serving { future, in_flight } => {
                    let response = ready!(future.poll(context));
                    let mut in_flight = in_flight.take().expect(DONE);
                    let mut response = response.inspect_err(|_| in_flight.failed())?;
                    match in_flight.answered(&mut response) {
                        Left::Nothing => return Poll::Ready(Ok(response.map(P::theirs))),
                        Left::Body => return Poll::Ready(Ok(in_body::<P, R>(response, in_flight))),
                        Left::Settling(settling) => {
                            let served = Some(Box::new((response, in_flight)));
                            Stage::Settling { settling, served }
                        }
                    }
                }
                StageProjected::Settling { settling, served } => {
                    ready!(Pin::new(settling).poll(context));
                    let (mut response, mut in_flight) = *served.take().expect(DONE);
                    let response = match in_flight.settled(response.headers_mut()) {
                        Left::Nothing => response.map(P::theirs),
                        _ => in_body::<P, R>(response, in_flight),
                    };
                    return Poll::Ready(Ok(response));
                }
                StageProjected::Refusing { settling, refused } => {
                    ready!(Pin::new(settling).poll(context));
                    let Refused { shared, admission, request } = *refused.take().expect(DONE);
                    Stage::refused(&shared, &admission, &request)
                }
                StageProjected::Refused { response } => {
                    let response = *response.take().expect(DONE);
                    return Poll::Ready(Ok(response.map(P::ours)));
                }
            };
            this.stage.set(next);
        }
    }
}

/// A response whose body the request is in flight with.
fn in_body<P: Bodies<R>, R>(response: Response<R>, in_flight: InFlight) -> Response<P::Body> {
    response.map(|body| P::in_flight(LimitedBody::in_flight(body, in_flight)))
}

impl<S, B, P> fmt::Debug for ResponseFuture<S, B, P>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            Stage::Deciding { .. } => "deciding",
            Stage::Waiting { .. } => "waiting",
            Stage::Serving { .. } => "serving",
            Stage::Settling { .. } => "settling",
            Stage::Refusing { .. } | Stage::Refused { .. } => "refused",
        };
        f.debug_struct("ResponseFuture").field("stage", &stage).finish()
    }
}
