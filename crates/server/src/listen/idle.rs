//! A stream that ends when nothing comes for too long.
//!
//! It is lent to hyper, which drops it without looking whether its last answers were read. So it
//! comes back, to be closed in good order when the server stops.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::{Sleep, sleep, timeout};

use super::busy::{Answering, Busy};
use super::{Stream, until_the_end};
use crate::limits::FAREWELL_TIME;

/// A stream that ends with an error when nobody has said or taken anything for a while. The timer
/// is only looked at when it is due: data costs it no more than a flag.
#[derive(Debug)]
pub(crate) struct Idle<S> {
    /// Nothing once it went home.
    stream: Option<S>,
    patience: Duration,
    is_alive: bool,
    timer: Pin<Box<Sleep>>,
    loan: Option<Loan<S>>,
}

#[derive(Debug)]
struct Loan<S> {
    home: Home<S>,
    busy: Busy,
    /// Bytes wait until the peer takes them.
    unsent: Option<Answering>,
}

/// Where a stream is when its borrower has dropped it.
#[derive(Debug)]
pub(crate) struct Home<S>(Arc<Mutex<Option<S>>>);

impl<S: Stream> Home<S> {
    /// Closes the stream, and waits until its peer has closed it too or is silent.
    pub(crate) async fn farewell(self) {
        let stream = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut stream) = stream {
            let _ = timeout(FAREWELL_TIME, stream.shutdown()).await;
            until_the_end(&mut stream).await;
        }
    }
}

impl<S: Stream> Idle<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Idle<S> {
        let (timer, stream) = (Box::pin(sleep(patience)), Some(stream));
        Idle { stream, patience, is_alive: false, timer, loan: None }
    }

    /// From now on the connection counts as busy while bytes wait for its peer to take them. When
    /// this is dropped, its stream goes where this says.
    pub(crate) fn lend(&mut self, busy: &Busy) -> Home<S> {
        let home = Arc::new(Mutex::new(None));
        let loan = Loan { home: Home(Arc::clone(&home)), busy: busy.clone(), unsent: None };
        self.loan = Some(loan);
        Home(home)
    }

    fn stream(&mut self) -> Pin<&mut S> {
        Pin::new(self.stream.as_mut().expect("it goes home only when this is dropped"))
    }

    /// Notes whether bytes wait to be taken.
    fn sends<T>(&mut self, polled: &Poll<T>) {
        if let Some(loan) = &mut self.loan {
            match polled {
                Poll::Ready(_) => loan.unsent = None,
                Poll::Pending if loan.unsent.is_none() => loan.unsent = loan.busy.begin(),
                Poll::Pending => {}
            }
        }
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
        patiently!(self, context, self.stream().poll_read(context, buffer))
    }
}

impl<S: Stream> AsyncWrite for Idle<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = self.stream().poll_write(context, bytes);
        self.sends(&polled);
        patiently!(self, context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = self.stream().poll_write_vectored(context, bytes);
        self.sends(&polled);
        patiently!(self, context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }
}

impl<S> Drop for Idle<S> {
    fn drop(&mut self) {
        if let Some(loan) = &self.loan {
            *loan.home.0.lock().unwrap_or_else(PoisonError::into_inner) = self.stream.take();
        }
    }
}
