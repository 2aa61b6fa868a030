//! The body of a response: the service's own, or that of a refusal.
//!
//! A request is in flight until its response has been sent, so permits last until the body ends or
//! is dropped. Where there is none, the body is passed on as it is.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tidegate_gate::Settling;

use crate::limits::InFlight;

pin_project! {
    /// The body of a response behind the layer.
    #[derive(Debug)]
    pub struct LimitedBody<R> {
        #[pin]
        whose: Whose<R>,
    }
}

pin_project! {
    #[project = WhoseProjected]
    #[derive(Debug)]
    enum Whose<R> {
        /// A refusal's. Empty when it has been sent.
        Ours { bytes: Bytes },
        Theirs { #[pin] body: R },
        /// The service's, of a request that is in flight until it ends.
        InFlight {
            #[pin]
            body: R,
            in_flight: Option<InFlight>,
            settling: Option<Settling>,
        },
    }
}

/// What bodies the layer makes of the service's own, of type `R`.
pub trait Bodies<R> {
    /// The body of a response behind the layer.
    type Body;

    /// That of a refusal.
    fn ours(bytes: Bytes) -> Self::Body;

    /// The service's own, where nothing is left to do for the request.
    fn theirs(body: R) -> Self::Body;

    /// The service's own, where something is.
    fn in_flight(body: LimitedBody<R>) -> Self::Body;
}

/// Whatever the service's bodies are, they are wrapped in a [`LimitedBody`].
#[derive(Clone, Copy, Debug)]
pub struct Wrapped;

impl<R> Bodies<R> for Wrapped {
    type Body = LimitedBody<R>;

    fn ours(bytes: Bytes) -> LimitedBody<R> {
        LimitedBody::ours(bytes)
    }

    fn theirs(body: R) -> LimitedBody<R> {
        LimitedBody::theirs(body)
    }

    fn in_flight(body: LimitedBody<R>) -> LimitedBody<R> {
        body
    }
}

impl<R> LimitedBody<R> {
    pub(crate) fn ours(bytes: Bytes) -> LimitedBody<R> {
        LimitedBody { whose: Whose::Ours { bytes } }
    }

    pub(crate) fn theirs(body: R) -> LimitedBody<R> {
        LimitedBody { whose: Whose::Theirs { body } }
    }

    pub(crate) fn in_flight(body: R, in_flight: InFlight) -> LimitedBody<R> {
        let in_flight = Some(in_flight);
        LimitedBody { whose: Whose::InFlight { body, in_flight, settling: None } }
    }
}

impl<R: Body> Body for LimitedBody<R>
where
    R::Data: From<Bytes>,
{
    type Data = R::Data;
    type Error = R::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<R::Data>, R::Error>>> {
        match self.project().whose.project() {
            WhoseProjected::Ours { bytes } => {
                let bytes = std::mem::take(bytes);
                let frame = (!bytes.is_empty()).then(|| Ok(Frame::data(bytes.into())));
                Poll::Ready(frame)
            }
            WhoseProjected::Theirs { body } => body.poll_frame(context),
            WhoseProjected::InFlight { body, in_flight, settling } => {
                if settling.is_none() {
                    let frame = ready!(body.poll_frame(context));
                    match (&frame, in_flight.as_mut()) {
                        (Some(Ok(frame)), Some(in_flight)) => {
                            frame.trailers_ref().into_iter().for_each(|it| in_flight.trailed(it));
                        }
                        (Some(Err(_)), Some(in_flight)) => in_flight.failed(),
                        _ => {}
                    }
                    if frame.is_some() {
                        return Poll::Ready(frame);
                    }
                    *settling = in_flight.as_mut().and_then(InFlight::ended);
                }
                if let Some(settling) = settling {
                    ready!(Pin::new(settling).poll(context));
                }
                (*in_flight, *settling) = (None, None);
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.whose {
            Whose::Ours { bytes } => bytes.is_empty(),
            Whose::Theirs { body } | Whose::InFlight { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.whose {
            Whose::Ours { bytes } => SizeHint::with_exact(bytes.len() as u64),
            Whose::Theirs { body } | Whose::InFlight { body, .. } => body.size_hint(),
        }
    }
}

impl<R: Default> Default for LimitedBody<R> {
    fn default() -> LimitedBody<R> {
        LimitedBody::theirs(R::default())
    }
}
