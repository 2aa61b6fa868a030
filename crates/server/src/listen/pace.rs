//! How much of a connection is served in one go, whatever is spoken on it.
//!
//! A connection that was waited for is served at once, but only so many bytes of it are read. If it
//! has more, it stands in a line for its next turn, and so does one that has just come, until its
//! first words are heard: neither a flood nor a storm of newcomers is then in the way of a client
//! that asks now and then.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::caller::Caller;
use crate::desk::{Newcomers, Turn, Turns};
use crate::limits;
use crate::stop::Stop;

/// A stream of which no more is read at a time than its task may.
#[derive(Debug)]
pub(super) struct Paced {
    stream: TcpStream,
    pace: Arc<Pace>,
}

/// What a task and its stream say to each other.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Bytes that may be read.
    left: AtomicUsize,
    /// Whether there is more to be read.
    has_more: AtomicBool,
}

impl Paced {
    pub(super) fn new(stream: TcpStream) -> (Paced, Arc<Pace>) {
        let pace = Arc::<Pace>::default();
        (Paced { stream, pace: Arc::clone(&pace) }, pace)
    }
}

impl Pace {
    /// Serves a connection, in turns where it has more to say: first in the line of newcomers, then
    /// in that of those who go on.
    pub(super) async fn keep(
        &self,
        (newcomers, others): (&Newcomers, &Turns),
        of: Option<Caller>,
        stop: &Stop,
        mut serving: Pin<&mut impl Future>,
    ) {
        let (mut is_new, mut turn) = (true, None::<Turn<'_>>);
        loop {
            let goes_on = poll_fn(|context| {
                // What has come before a stop is heard without standing in line.
                let may_read = turn.is_some() || !is_new || stop.is_asked();
                self.left.store(if may_read { limits::TURN_BYTES } else { 0 }, Ordering::Relaxed);
                let is_over = serving.as_mut().poll(context).is_ready();
                is_new &= turn.take().is_none();
                match is_over {
                    true => Poll::Ready(false),
                    false if self.has_more.swap(false, Ordering::Relaxed) => Poll::Ready(true),
                    false => Poll::Pending,
                }
            });
            if !goes_on.await {
                return;
            }
            turn =
                if is_new { newcomers.next(of).await } else { others.next().await.map(Turn::from) };
        }
    }
}

impl AsyncRead for Paced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = self.pace.left.load(Ordering::Relaxed);
        if left == 0 {
            let mut first = [0];
            let more = ready!(self.stream.poll_peek(context, &mut ReadBuf::new(&mut first)))?;
            if more == 0 {
                // A connection that has ended holds no place in a line.
                return Poll::Ready(Ok(()));
            }
            // The task hears of this, and nobody else has to wake it.
            self.pace.has_more.store(true, Ordering::Relaxed);
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = buffer.filled().len() - before;
        self.pace.left.store(left.saturating_sub(read), Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Paced {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        all: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, all)
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::pin;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio::task::yield_now;

    use super::*;
    use crate::stop::Stopper;

    /// A connection: our end of it, and its peer's.
    async fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap());
        let (accepted, peer) = tokio::join!(listener.accept(), peer);
        (accepted.unwrap().0, peer.unwrap())
    }

    /// Reads all that it may, and counts it.
    async fn reads(mut stream: Paced, read: &AtomicUsize) -> Infallible {
        let mut bytes = vec![0; 4 << 10];
        loop {
            let more = stream.read(&mut bytes).await.unwrap();
            assert_ne!(more, 0, "the peer is there");
            read.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Lets it go on until it would wait for somebody else, and twice more.
    async fn go_on(keeping: &mut Pin<&mut impl Future>, read: &AtomicUsize) -> usize {
        let (mut before, mut calm) = (read.load(Ordering::Relaxed), 0);
        while calm < 64 {
            tokio::select! {
                biased;
                _ = keeping.as_mut() => unreachable!("it reads for ever"),
                () = yield_now() => {}
            }
            let now = read.load(Ordering::Relaxed);
            calm = if std::mem::replace(&mut before, now) == now { calm + 1 } else { 0 };
        }
        before
    }

    #[tokio::test]
    async fn a_newcomer_waits_for_its_turn_and_then_only_where_it_goes_on() {
        let (newcomers, others) = (Newcomers::at_once(1), Turns::at_once(1));
        let (stopper, stop) = Stopper::new();
        let read = AtomicUsize::new(0);
        let (near, mut peer) = connection().await;
        peer.write_all(b"hello").await.unwrap();
        near.readable().await.unwrap();
        let (paced, pace) = Paced::new(near);
        let reading = pin!(reads(paced, &read));
        let mut keeping = pin!(pace.keep((&newcomers, &others), None, &stop, reading));
        let first = newcomers.next(None).await;
        assert_eq!(go_on(&mut keeping, &read).await, 0, "another has its turn");
        drop(first);
        assert_eq!(go_on(&mut keeping, &read).await, 5);
        // From now on it is answered at once, as much as one turn is.
        let (_newcomer, other) = (newcomers.next(None).await, others.next().await);
        let flood = vec![0; 8 * limits::TURN_BYTES];
        let mut sent = 0;
        while sent < 2 * limits::TURN_BYTES {
            sent += peer.write(&flood[sent..]).await.unwrap();
        }
        let some = go_on(&mut keeping, &read).await - 5;
        assert!((1..=limits::TURN_BYTES).contains(&some), "{some} bytes of {sent} in one go");
        drop(other);
        while read.load(Ordering::Relaxed) < 5 + sent {
            go_on(&mut keeping, &read).await;
        }
        drop(stopper);
    }

    #[tokio::test]
    async fn a_newcomer_that_leaves_waits_for_no_turn() {
        let (newcomers, others) = (Newcomers::at_once(1), Turns::at_once(1));
        let (_stopper, stop) = Stopper::new();
        let _first = newcomers.next(None).await;
        for is_reset in [false, true] {
            let (near, peer) = connection().await;
            if is_reset {
                peer.set_zero_linger().unwrap();
            }
            drop(peer);
            let (mut paced, pace) = Paced::new(near);
            let ended = pin!(async move {
                let read = paced.read(&mut [0; 9]).await;
                assert_eq!(read.ok(), (!is_reset).then_some(0));
            });
            pace.keep((&newcomers, &others), None, &stop, ended).await;
        }
    }

    #[tokio::test]
    async fn what_has_come_before_a_stop_is_heard() {
        let (newcomers, others) = (Newcomers::at_once(1), Turns::at_once(1));
        let (stopper, stop) = Stopper::new();
        let read = AtomicUsize::new(0);
        let (near, mut peer) = connection().await;
        peer.write_all(b"hello").await.unwrap();
        near.readable().await.unwrap();
        let (paced, pace) = Paced::new(near);
        let reading = pin!(reads(paced, &read));
        let mut keeping = pin!(pace.keep((&newcomers, &others), None, &stop, reading));
        let _first = newcomers.next(None).await;
        stopper.stop();
        assert_eq!(go_on(&mut keeping, &read).await, 5);
    }
}
