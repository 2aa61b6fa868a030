//! A stream that counts the frames of HTTP/2 which make us work and ask nothing.
//!
//! The stack below answers pings and settings for as long as they come. A peer that sends too many
//! of them gets `GOAWAY` with `ENHANCE_YOUR_CALM`, and its connection is left. What does not begin
//! as HTTP/2 does is passed on as it is.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::Stream;
use crate::limits;

#[derive(Debug)]
pub(crate) struct Calm<S> {
    stream: S,
    spoken: Spoken,
    heard: Cut,
    said: Cut,
    budget: Budget,
    /// The last stream that the peer began.
    last: [u8; 4],
}

/// What is spoken on it.
#[derive(Debug)]
enum Spoken {
    /// So many bytes are as HTTP/2 begins.
    Begun(usize),
    Http2,
    Other,
    /// No more than a farewell, until this is over or so many bytes have come.
    Farewell(Pin<Box<Sleep>>, usize),
}

/// Where in a frame a stream of bytes is.
#[derive(Debug, Default)]
struct Cut {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Of the frame's body, what is still to come.
    body_bytes: usize,
}

/// What a frame says before its body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Head {
    kind: u8,
    flags: u8,
    stream: [u8; 4],
    body_bytes: usize,
}

#[derive(Debug)]
struct Budget {
    left: u32,
    /// Until there is as much left as at first; set up once something is taken.
    timer: Option<Pin<Box<Sleep>>>,
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD_BYTES: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const ENHANCE_YOUR_CALM: u8 = 11;

impl<S: Stream> Calm<S> {
    pub(crate) fn new(stream: S) -> Calm<S> {
        let budget = Budget { left: limits::CALM_FRAMES_MAX, timer: None };
        let (heard, said) = (Cut::default(), Cut::default());
        Calm { stream, spoken: Spoken::Begun(0), heard, said, budget, last: [0; 4] }
    }

    /// Looks at what has come; whether it may go on.
    fn hear(&mut self, mut bytes: &[u8], context: &mut Context<'_>) -> bool {
        if let Spoken::Begun(before) = self.spoken {
            let begun = bytes.len().min(PREFACE.len() - before);
            if bytes[..begun] != PREFACE[before..before + begun] {
                self.spoken = Spoken::Other;
            } else if before + begun < PREFACE.len() {
                self.spoken = Spoken::Begun(before + begun);
            } else {
                self.spoken = Spoken::Http2;
            }
            bytes = &bytes[begun..];
        }
        if !matches!(self.spoken, Spoken::Http2) {
            return true;
        }
        let (budget, last, mut goes_on) = (&mut self.budget, &mut self.last, true);
        self.heard.pass(bytes, |head| {
            if head.kind == HEADERS {
                *last = head.stream;
            }
            goes_on &= budget.take(head, context);
        });
        goes_on
    }

    /// Tells the peer why it is left, if that can be said between two frames.
    fn say_farewell(&mut self, context: &mut Context<'_>) {
        let timer = Box::pin(sleep(limits::FAREWELL_TIME));
        self.spoken = Spoken::Farewell(timer, 0);
        if !self.said.is_between() {
            return;
        }
        let mut farewell = [0, 0, 8, GOAWAY, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ENHANCE_YOUR_CALM];
        farewell[HEAD_BYTES..HEAD_BYTES + 4].copy_from_slice(&self.last);
        // Who has no room for these few bytes reads nothing.
        let _ = Pin::new(&mut self.stream).poll_write(context, &farewell);
        let _ = Pin::new(&mut self.stream).poll_flush(context);
    }

    /// Reads on for a moment, and listens to nothing: who is cut off in the middle of a word does
    /// not hear the farewell.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Spoken::Farewell(timer, heard) = &mut self.spoken else { return Poll::Pending };
        let over = || Poll::Ready(Err(ErrorKind::ConnectionAborted.into()));
        if timer.as_mut().poll(context).is_ready() {
            return over();
        }
        let _ = Pin::new(&mut self.stream).poll_shutdown(context);
        let mut bytes = [0; limits::READ_BYTES_MAX];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
            *heard += buffer.filled().len();
            if buffer.filled().is_empty() || limits::CALM_BYTES_MAX < *heard {
                return over();
            }
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.spoken, Spoken::Farewell(..))
    }

    /// Notes what has gone out.
    fn say(&mut self, bytes: &[u8]) {
        if !matches!(self.spoken, Spoken::Other) {
            self.said.pass(bytes, |_| {});
        }
    }
}

impl Cut {
    /// Goes on by so many bytes, and shows the heads that are now complete.
    fn pass(&mut self, mut bytes: &[u8], mut seen: impl FnMut(Head)) {
        while !bytes.is_empty() {
            let passed = self.body_bytes.min(bytes.len());
            self.body_bytes -= passed;
            bytes = &bytes[passed..];
            let more = bytes.len().min(HEAD_BYTES - self.head_bytes);
            self.head[self.head_bytes..self.head_bytes + more].copy_from_slice(&bytes[..more]);
            self.head_bytes += more;
            bytes = &bytes[more..];
            if self.head_bytes == HEAD_BYTES {
                let [a, b, c, kind, flags, stream @ ..] = self.head;
                self.body_bytes = u32::from_be_bytes([0, a, b, c]) as usize;
                self.head_bytes = 0;
                seen(Head { kind, flags, stream, body_bytes: self.body_bytes });
            }
        }
    }

    fn is_between(&self) -> bool {
        self.head_bytes == 0 && self.body_bytes == 0
    }
}

impl Budget {
    /// Whether a frame may come.
    fn take(&mut self, head: Head, context: &mut Context<'_>) -> bool {
        match head.kind {
            HEADERS => self.give(),
            DATA if 0 < head.body_bytes || head.flags & END_STREAM != 0 => self.give(),
            // The stack bounds the first of these, and the second is how replies are taken.
            CONTINUATION | WINDOW_UPDATE => {}
            _ => return self.spend(context),
        }
        true
    }

    fn give(&mut self) {
        self.left = (self.left + limits::CALM_EACH).min(limits::CALM_FRAMES_MAX);
    }

    fn spend(&mut self, context: &mut Context<'_>) -> bool {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limits::CALM_TIME)));
        if self.left == 0 && timer.as_mut().poll(context).is_ready() {
            self.left = limits::CALM_FRAMES_MAX;
            timer.set(sleep(limits::CALM_TIME));
        }
        self.left.checked_sub(1).inspect(|left| self.left = *left).is_some()
    }
}

impl<S: Stream> AsyncRead for Calm<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.is_over() {
            return this.poll_end(context);
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        if this.hear(&buffer.filled()[before..], context) {
            return Poll::Ready(Ok(()));
        }
        buffer.set_filled(before);
        this.say_farewell(context);
        this.poll_end(context)
    }
}

impl<S: Stream> AsyncWrite for Calm<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_over() {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.say(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        all: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_over() {
            return Poll::Ready(Ok(all.iter().map(|bytes| bytes.len()).sum()));
        }
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, all))?;
        let mut left = written;
        for bytes in all {
            let some = left.min(bytes.len());
            self.say(&bytes[..some]);
            left -= some;
        }
        Poll::Ready(Ok(written))
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
    use std::task::Waker;

    use super::*;

    fn frame(kind: u8, flags: u8, body: &[u8]) -> Vec<u8> {
        let length = u8::try_from(body.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, 5], body].concat()
    }

    #[test]
    fn frames_are_seen_wherever_they_are_cut() {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for (kind, length) in [(HEADERS, 3), (DATA, 0), (6, 8), (DATA, 200), (4, 0), (4, 6)] {
            bytes.extend(frame(kind, 1, &vec![6; length]));
            expected.push(Head { kind, flags: 1, stream: [0, 0, 0, 5], body_bytes: length });
        }
        for piece in 1..=bytes.len() {
            let (mut cut, mut seen) = (Cut::default(), Vec::new());
            let mut between = 0;
            for some in bytes.chunks(piece) {
                cut.pass(some, |head| seen.push(head));
                between += usize::from(cut.is_between());
            }
            assert_eq!(seen, expected, "in pieces of {piece}");
            assert!(cut.is_between());
            assert!(between <= expected.len());
        }
    }

    #[tokio::test]
    async fn a_flood_has_an_end_and_requests_put_it_off() {
        let mut context = Context::from_waker(Waker::noop());
        let head = |kind| Head { kind, flags: 0, stream: [0; 4], body_bytes: 8 };
        let mut budget = Budget { left: limits::CALM_FRAMES_MAX, timer: None };
        for _ in 0..4 * limits::CALM_FRAMES_MAX {
            assert!(budget.take(head(HEADERS), &mut context));
            for _ in 0..limits::CALM_EACH {
                assert!(budget.take(head(6), &mut context));
            }
            for kind in [CONTINUATION, WINDOW_UPDATE] {
                assert!(budget.take(head(kind), &mut context));
            }
        }
        assert!(budget.take(head(HEADERS), &mut context));
        for _ in 0..limits::CALM_FRAMES_MAX {
            assert!(budget.take(head(6), &mut context));
        }
        assert!(!budget.take(head(4), &mut context));
        // A frame of data without any is no part of a request either.
        assert!(!budget.take(Head { body_bytes: 0, ..head(DATA) }, &mut context));
    }
}
