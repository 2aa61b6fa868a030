//! A connection that many calls share.
//!
//! A caller writes to the socket itself, from its own poll: there is no queue between them and no
//! task to wake. A driver reads, and writes what the socket would not take at once. It also has
//! the one timer for all deadlines: it is set for the earliest, and a call that is answered in time
//! never touches it.

mod drive;
mod flow;

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use redis::{Pipeline, RedisError, Value};
use tidegate_core::Tick;

pub(super) use self::drive::Drive;
use self::flow::Flow;
pub(super) use self::flow::{Replies, Stream};

/// A connection that many calls share. Clones are the same one.
#[derive(Clone)]
pub(super) struct Pipe(Arc<Mutex<Flow>>);

/// Why there is no reply.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Loss {
    /// The connection has ended, and why.
    Ended(Arc<str>),
    /// The connection has ended: what came was no reply.
    Nonsense(Arc<str>),
    /// The connection has ended: the other side does not trust us, or we it.
    Untrusted(Arc<str>),
    /// The deadline has passed.
    Late,
    /// Too many calls are under way: this one was not sent.
    Full,
}

/// A call on its way.
struct Sent<'a> {
    pipe: &'a Pipe,
    bytes: &'a [u8],
    replies: usize,
    deadline: Tick,
    seat: Option<u64>,
    is_over: bool,
}

impl Pipe {
    /// A connection over a stream; it works for as long as somebody polls the driver.
    pub(super) fn open(stream: impl Stream + 'static) -> (Pipe, Drive) {
        let pipe = Pipe(Arc::new(Mutex::new(Flow::new(Box::new(stream)))));
        (pipe.clone(), Drive::new(pipe))
    }

    /// Sends `bytes`, which are so many commands, in one write, and waits for the reply to each
    /// until `deadline`.
    pub(super) async fn send(
        &self,
        bytes: &[u8],
        replies: usize,
        deadline: Tick,
    ) -> Result<Replies, Loss> {
        if replies == 0 {
            return Ok(Replies::new());
        }
        Sent { pipe: self, bytes, replies, deadline, seat: None, is_over: false }.await
    }

    /// Asks something that is asked seldom, and has what is answered read by the client library.
    /// The caller bounds the time.
    pub(super) async fn ask(&self, questions: &Pipeline) -> Result<Vec<Value>, Loss> {
        let bytes = questions.get_packed_pipeline();
        let replies = self.send(&bytes, questions.len(), Tick::MAX).await?;
        let nonsense = |error: RedisError| Loss::Nonsense(error.to_string().into());
        replies.iter().map(|reply| reply.value().map_err(nonsense)).collect()
    }

    /// Does something with both streams, and wakes the tasks that it concerns.
    fn with<T>(&self, work: impl FnOnce(&mut Flow) -> T) -> T {
        // Nothing that is done under this lock can leave it half done.
        let mut flow = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let done = work(&mut flow);
        let woken = flow.take_woken();
        drop(flow);
        for waker in woken {
            waker.wake();
        }
        done
    }
}

impl Future for Sent<'_> {
    type Output = Result<Replies, Loss>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let waker = context.waker();
        let polled = this.pipe.with(|flow| {
            let seat = match this.seat {
                Some(seat) => seat,
                None => match flow.send(this.bytes, this.replies, this.deadline) {
                    Ok(seat) => *this.seat.insert(seat),
                    Err(loss) => return Poll::Ready(Err(loss)),
                },
            };
            flow.poll_seat(seat, waker)
        });
        this.is_over |= polled.is_ready();
        polled
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        if let Some(seat) = self.seat.filter(|_| !self.is_over) {
            self.pipe.with(|flow| flow.leave(seat));
        }
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipe").finish_non_exhaustive()
    }
}

impl From<io::Error> for Loss {
    fn from(error: io::Error) -> Loss {
        let why = error.to_string().into();
        // So does TLS say that the other side has raised an alert.
        match error.kind() {
            io::ErrorKind::InvalidData => Loss::Untrusted(why),
            _ => Loss::Ended(why),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Ended(why) | Loss::Nonsense(why) | Loss::Untrusted(why) => f.write_str(why),
            Loss::Late => f.write_str("no answer in time"),
            Loss::Full => f.write_str("too many calls are under way"),
        }
    }
}

#[cfg(test)]
mod tests;
