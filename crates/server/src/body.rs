//! Bodies of requests on their way in: each has so long, and all of them together have so much
//! room.
//!
//! What one body may be is said where it is read; this is about those that never end.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

use crate::limits;

/// The room that all bodies share.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Semaphore>);

/// A body that is given up when it takes too long, or when there is no room for it.
pub(crate) struct Bounded {
    body: Incoming,
    budget: Budget,
    time: Duration,
    /// Set up only once something has to be waited for.
    timer: Option<Pin<Box<Sleep>>>,
    room: Option<OwnedSemaphorePermit>,
    /// Bytes that have come.
    bytes: usize,
}

/// A body that has come to its end, and the room that it takes.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

/// Why a body was not read to its end.
#[derive(Debug)]
pub(crate) enum Unread {
    /// It broke off.
    BrokeOff(hyper::Error),
    /// Others take all the room.
    NoRoom,
    /// It did not come in time.
    Slow,
    /// It has more bytes than are read.
    TooLong,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget(Arc::new(Semaphore::new(limits::BODIES_BYTES_MAX)))
    }
}

impl Budget {
    /// A body that takes its room from here, and has so long.
    pub(crate) fn bound(&self, body: Incoming, time: Duration) -> Bounded {
        Bounded { body, budget: self.clone(), time, timer: None, room: None, bytes: 0 }
    }
}

impl Bounded {
    /// All of it, if it has at most so many bytes.
    pub(crate) async fn whole(mut self, bytes_max: usize) -> Result<Whole, Unread> {
        let (mut first, mut all) = (Bytes::new(), BytesMut::new());
        while let Some(frame) = self.frame().await {
            let Ok(piece) = frame?.into_data() else { continue };
            if bytes_max < self.bytes {
                return Err(Unread::TooLong);
            }
            // Nearly all come in one piece.
            if first.is_empty() && all.is_empty() {
                first = piece;
            } else {
                all.extend_from_slice(&std::mem::take(&mut first));
                all.extend_from_slice(&piece);
            }
        }
        let bytes = if all.is_empty() { first } else { all.freeze() };
        Ok(Whole { bytes, _room: self.room.take() })
    }

    /// Takes room for so many bytes more; whether there is any. Short bodies need none, so that
    /// long ones are in nobody's way but their own.
    fn grow(&mut self, more: usize) -> bool {
        let before = self.bytes.max(limits::BODY_BYTES_FREE);
        self.bytes = self.bytes.saturating_add(more);
        let bytes = self.bytes.saturating_sub(before);
        if bytes == 0 {
            return true;
        }
        let Ok(bytes) = u32::try_from(bytes) else { return false };
        let Ok(more) = Arc::clone(&self.budget.0).try_acquire_many_owned(bytes) else {
            return false;
        };
        match &mut self.room {
            Some(room) => room.merge(more),
            None => self.room = Some(more),
        }
        true
    }

    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let time = self.time;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(time)));
        timer.as_mut().poll(context).is_ready()
    }
}

impl Body for Bounded {
    type Data = Bytes;
    type Error = Unread;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Unread>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                let fits = self.grow(bytes);
                Poll::Ready(Some(if fits { Ok(frame) } else { Err(Unread::NoRoom) }))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(Unread::BrokeOff(error)))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending if self.is_late(context) => Poll::Ready(Some(Err(Unread::Slow))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl fmt::Debug for Bounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bounded").finish_non_exhaustive()
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::BrokeOff(error) => write!(f, "the body ended too soon: {error}"),
            Unread::NoRoom => f.write_str("too many bodies are on their way: try again later"),
            Unread::Slow => f.write_str("the body did not come in time"),
            Unread::TooLong => f.write_str("the body is too long"),
        }
    }
}

impl std::error::Error for Unread {}
