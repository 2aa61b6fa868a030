//! One connection: reads what is there, has it answered in turns, writes once a turn.
//!
//! An idle connection has no buffers: what arrives first meets the stack. Its timer goes off now
//! and then whatever happens, and only counts: setting one for each command would cost more than
//! the command.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Sleep, sleep, timeout};

use super::frame::{Found, Frames};
use super::session::Session;
use super::table;
use super::turn::{Conversation, Ending};
use super::waiting::{self, Waiting};
use crate::desk::Desk;
use crate::limits::{
    FAREWELL_TIME, RESP_COMMAND_BYTES_MAX, RESP_IDLE_CHECKS, RESP_LAST_TURNS_MAX, RESP_LAST_WAIT,
    RESP_SLOW_CHECKS, RESP_WRITE_DEADLINE,
};
use crate::listen::{self, Answering, Busy};
use crate::metrics::DoorName;
use crate::stop::Stop;
use crate::trace::{Ending as SpanEnding, Notes, Outcome};

/// Why a connection ended.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Closed {
    /// The client went away.
    ByClient,
    /// It was silent for too long.
    Idle,
    /// Another one needed its place.
    MadeRoom,
    /// What it sent is no command.
    Misframed,
    /// It said `QUIT`.
    Quit,
    /// It did not read what it asked for, or did not finish a command, in time.
    Slow,
    /// The server stops.
    Stopped,
}

/// Serves one connection until it ends. When it is time to stop, what has arrived is still
/// answered.
pub(super) async fn serve<S>(
    stream: S,
    session: Session,
    desk: &Desk,
    stop: Stop,
    busy: &Busy,
) -> Closed
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut line = Line::new(stream, Conversation::new(session), stop.clone(), busy.clone());
    let closed = line.run(desk, stop).await;
    // A client that does not listen any more need not hear of it.
    let _ = timeout(RESP_WRITE_DEADLINE, line.stream.shutdown()).await;
    match closed {
        // For at most as long as the server takes to stop.
        Closed::Stopped => listen::until_the_end(&mut line.stream).await,
        Closed::Misframed | Closed::Quit => {
            let _ = timeout(FAREWELL_TIME, listen::until_the_end(&mut line.stream)).await;
        }
        Closed::ByClient | Closed::Idle | Closed::MadeRoom | Closed::Slow => {}
    }
    closed
}

/// A connection and what is on its way over it.
struct Line<S> {
    stream: S,
    conversation: Conversation,
    input: Vec<u8>,
    out: Vec<u8>,
    /// How often the timer went off since a command was complete.
    quiet: u32,
    stop: Stop,
    /// Who is woken by the timer and by the stop already.
    armed: Option<Waker>,
    busy: Busy,
    /// From the first byte of a command until all that has come is answered.
    answering: Option<Answering>,
    /// Whether there was nothing to do before what was heard last.
    has_rested: bool,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Heard {
    Bytes,
    End,
    Stop,
    Timer,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    fn new(stream: S, conversation: Conversation, stop: Stop, busy: Busy) -> Line<S> {
        Line {
            stream,
            conversation,
            input: Vec::new(),
            out: Vec::new(),
            quiet: 0,
            stop,
            armed: None,
            busy,
            answering: None,
            has_rested: true,
        }
    }

    async fn run(&mut self, desk: &Desk, mut stop: Stop) -> Closed {
        let mut timer = pin!(sleep(desk.bounds.resp_check_every));
        let mut stopped = pin!(stop.asked());
        loop {
            let heard =
                poll_fn(|context| self.poll_heard(context, timer.as_mut(), stopped.as_mut())).await;
            let closed = match heard {
                Heard::Bytes => self.heard(desk).await,
                Heard::End => Some(Closed::ByClient),
                Heard::Stop => Some(self.finish(desk).await),
                Heard::Timer => {
                    timer.set(sleep(desk.bounds.resp_check_every));
                    self.armed = None;
                    self.overdue()
                }
            };
            if let Some(closed) = closed {
                return closed;
            }
        }
    }

    fn poll_heard(
        &mut self,
        context: &mut Context<'_>,
        timer: Pin<&mut Sleep>,
        stopped: Pin<&mut impl Future<Output = ()>>,
    ) -> Poll<Heard> {
        // First, or a client that never pauses would never be told.
        if self.stop.is_asked() {
            return Poll::Ready(Heard::Stop);
        }
        if let Poll::Ready(heard) = self.poll_read(context) {
            return Poll::Ready(heard);
        }
        self.has_rested = true;
        if self.input.is_empty() {
            (self.input, self.out) = (Vec::new(), Vec::new());
        }
        // Both go on waking us: they are asked again only when there is something to hear.
        let is_armed = self.armed.as_ref().is_some_and(|armed| armed.will_wake(context.waker()));
        if is_armed && !timer.is_elapsed() && !self.stop.is_asked() {
            return Poll::Pending;
        }
        if stopped.poll(context).is_ready() {
            return Poll::Ready(Heard::Stop);
        }
        if timer.poll(context).is_ready() {
            return Poll::Ready(Heard::Timer);
        }
        self.armed = Some(context.waker().clone());
        Poll::Pending
    }

    /// Takes what has arrived.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Heard> {
        let more = listen::poll_more(&mut self.stream, context, &mut self.input);
        more.map(|more| if more { Heard::Bytes } else { Heard::End })
    }

    /// Answers what was heard; says so if that was the end.
    async fn heard(&mut self, desk: &Desk) -> Option<Closed> {
        if self.answering.is_none() {
            let Some(answering) = self.busy.begin() else { return Some(Closed::MadeRoom) };
            self.answering = Some(answering);
        }
        let closed = self.answer(desk).await;
        if self.input.is_empty() && !self.conversation.is_passing() {
            self.answering = None;
        }
        closed
    }

    /// Answers all that has been read, in turns; says so if that was the end.
    async fn answer(&mut self, desk: &Desk) -> Option<Closed> {
        loop {
            // Who goes on without a pause does so when others have had their turn.
            let has_rested = std::mem::take(&mut self.has_rested);
            let slice = if has_rested { None } else { desk.turns.next().await };
            let begun = desk.metrics.begun();
            let mut traced = desk.traces.begin(begun);
            let mut notes = traced.notes();
            let turn = self.conversation.turn(desk, &self.input, &mut self.out, &mut notes);
            let name = notes.is_on().then(|| span_name(&self.input));
            if turn.used == self.input.len() {
                self.input.clear();
            } else {
                self.input.drain(..turn.used);
            }
            if 0 < turn.commands {
                self.quiet = 0;
            }
            drop(slice);
            if !turn.waiting.is_empty() && !self.settle(turn.waiting, &mut notes).await {
                return Some(Closed::ByClient);
            }
            let commands = turn.commands as u64;
            let ended = desk.metrics.answered(DoorName::Resp, begun, commands);
            if 0 < commands {
                desk.traces.end(traced, || {
                    let name = name.unwrap_or_default().into();
                    SpanEnding { name, begun, ended, outcome: Outcome::Resp { commands } }
                });
            }
            if !self.out.is_empty() {
                let sent = timeout(RESP_WRITE_DEADLINE, self.send()).await;
                self.out.clear();
                match sent {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return Some(Closed::ByClient),
                    Err(_) => return Some(Closed::Slow),
                }
            }
            match turn.ends {
                Some(Ending::Misframed(_)) => return Some(Closed::Misframed),
                Some(Ending::Quit) => return Some(Closed::Quit),
                None if !turn.is_cut => return None,
                None => {}
            }
        }
    }

    /// Writes replies. While the client does not take them, no more is held than there is.
    async fn send(&mut self) -> io::Result<()> {
        let Line { stream, input, out, .. } = self;
        let mut sent = 0;
        while sent < out.len() {
            let written = poll_fn(|context| {
                let polled = Pin::new(&mut *stream).poll_write(context, &out[sent..]);
                if polled.is_pending() {
                    out.drain(..sent);
                    sent = 0;
                    out.shrink_to_fit();
                    input.shrink_to_fit();
                }
                polled
            });
            match written.await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => sent += written,
            }
        }
        stream.flush().await
    }

    /// Waits for replies; `false` if the client goes away while any of them waits for a turn: then
    /// all leave, and the requests behind them in the queue move up.
    async fn settle(&mut self, replies: Vec<Waiting>, notes: &mut Notes<'_>) -> bool {
        let is_watched = waiting::any_turn(&replies);
        let Line { stream, input, out, .. } = self;
        let mut settling = pin!(waiting::settle(replies, out, notes));
        poll_fn(|context| {
            if settling.as_mut().poll(context).is_ready() {
                return Poll::Ready(true);
            }
            // What it sends meanwhile is for later, and not without end.
            while is_watched && input.len() < RESP_COMMAND_BYTES_MAX {
                match listen::poll_more(stream, context, input) {
                    Poll::Ready(true) => {}
                    Poll::Ready(false) => return Poll::Ready(false),
                    Poll::Pending => break,
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Answers what is on its way, until the client is quiet for a moment.
    async fn finish(&mut self, desk: &Desk) -> Closed {
        for _ in 0..RESP_LAST_TURNS_MAX {
            let last = timeout(RESP_LAST_WAIT, poll_fn(|context| self.poll_read(context)));
            if last.await != Ok(Heard::Bytes) || self.answer(desk).await.is_some() {
                break;
            }
        }
        Closed::Stopped
    }

    /// Whether the client has been silent for too long: sooner in the middle of a command.
    fn overdue(&mut self) -> Option<Closed> {
        self.quiet += 1;
        let is_within = !self.input.is_empty() || self.conversation.is_passing();
        if RESP_SLOW_CHECKS <= self.quiet && is_within {
            return Some(Closed::Slow);
        }
        (RESP_IDLE_CHECKS <= self.quiet).then_some(Closed::Idle)
    }
}

/// What the first command of a turn is called: one of those that there are.
#[cold]
fn span_name(input: &[u8]) -> String {
    let first = Frames::default().next(input).ok().flatten().map(|frame| frame.found);
    let spec = match &first {
        Some(Found::Command(arguments)) => arguments.first().and_then(|name| table::find(name)),
        _ => None,
    };
    spec.map_or_else(|| "COMMAND".to_owned(), |spec| spec.name.to_ascii_uppercase())
}

#[cfg(test)]
mod tests;
