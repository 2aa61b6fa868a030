//! A stream that ends when nothing comes for too long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::Stream;

/// A stream that ends with an error when nobody has said or taken anything for a while. The timer
/// is only looked at when it is due: data costs it no more than a flag.
#[derive(Debug)]
pub(crate) struct Idle<S> {
    stream: S,
    patience: Duration,
    is_alive: bool,
    timer: Pin<Box<Sleep>>,
}

impl<S: Stream> Idle<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Idle<S> {
        Idle { stream, patience, is_alive: false, timer: Box::pin(sleep(patience)) }
    }

    /// From now on it may be quiet for so long.
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
        self.timer.set(sleep(patience));
    }

    /// Whether it has been quiet for too long.
    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        while self.timer.as_mut().poll(context).is_ready() {
            if !std::mem::take(&mut self.is_alive) {
                return true;
            }
            self.timer.set(sleep(self.patience));
        }
        false
    }
}

/// Goes on once `polled` is ready; otherwise, for as long as somebody is patient.
macro_rules! patiently {
    ($self:ident, $context:ident, $polled:expr) => {{
        let polled = $polled;
        if polled.is_ready() {
            $self.is_alive = true;
            return polled;
        }
        if $self.is_over($context) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Poll::Pending
    }};
}

impl<S: Stream> AsyncRead for Idle<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        patiently!(self, context, Pin::new(&mut self.stream).poll_read(context, buffer))
    }
}

impl<S: Stream> AsyncWrite for Idle<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        patiently!(self, context, Pin::new(&mut self.stream).poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        patiently!(self, context, Pin::new(&mut self.stream).poll_write_vectored(context, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
