//! One connection's two streams of bytes, and who waits for which reply.
//!
//! Replies come in the order of calls, so a queue is all that tells whose one is. The task that
//! finds the stream ready moves it on for everybody; what it waits for itself wakes the driver.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use smallvec::SmallVec;
use tidegate_core::Tick;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Loss;
use crate::wire::frame::Scan;
use crate::wire::reply::Reply;

/// What a connection runs over.
pub(in crate::wire) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The replies to one call: mostly one.
pub(in crate::wire) type Replies = SmallVec<[Reply; 1]>;

/// As many calls may be under way; more are refused. Those who decide together need a few.
pub(super) const QUEUE_MAX: usize = 1024;

/// As many bytes may wait for the server to take them; calls that come then are refused.
pub(super) const OUTPUT_MAX: usize = 1 << 20;

/// From so many on, what is written is not kept until all is.
const OUTPUT_KEPT: usize = 64 << 10;

/// Room for a reply: nearly all are shorter.
const INPUT: usize = 16 << 10;

/// One connection's two streams of bytes.
pub(super) struct Flow {
    /// Nothing once it has ended.
    stream: Option<Box<dyn Stream>>,
    /// Why it has ended.
    ended: Option<Loss>,
    input: Box<[u8]>,
    /// What of the input has come in, and is not yet somebody's reply.
    come: std::ops::Range<usize>,
    scan: Scan,
    output: Vec<u8>,
    /// How much of the output is written.
    written: usize,
    /// Calls that are not answered; the next reply is for the first of them.
    seats: VecDeque<Seat>,
    /// How many seats have ever left the queue: the number of the first that is there.
    first: u64,
    /// Replies that nobody has fetched yet, by the numbers of their seats, which go up.
    answered: VecDeque<(u64, Replies)>,
    /// Who goes on when the stream is ready.
    driver: Waker,
    /// When the driver looks at who is late; nobody's deadline is before.
    alarm: Tick,
    /// Who is to be woken once the lock is free.
    woken: SmallVec<[Waker; 4]>,
}

/// The place of one call in the queue.
struct Seat {
    /// How many replies are still to come.
    missing: usize,
    replies: Replies,
    deadline: Tick,
    waits: Waits,
}

enum Waits {
    Yes(Option<Waker>),
    /// Its deadline is over, or the caller that waited has gone away.
    No,
}

impl Flow {
    pub(super) fn new(stream: Box<dyn Stream>) -> Flow {
        Flow {
            stream: Some(stream),
            ended: None,
            input: vec![0; INPUT].into(),
            come: 0..0,
            scan: Scan::default(),
            output: Vec::new(),
            written: 0,
            seats: VecDeque::new(),
            first: 0,
            answered: VecDeque::new(),
            driver: Waker::noop().clone(),
            alarm: Tick::MAX,
            woken: SmallVec::new(),
        }
    }

    /// Why it has ended, if it has.
    pub(super) fn ended(&self) -> Option<Loss> {
        self.ended.clone()
    }

    pub(super) fn take_woken(&mut self) -> SmallVec<[Waker; 4]> {
        std::mem::take(&mut self.woken)
    }

    /// Takes a seat for a call of so many commands, and sends them. Where that cannot be, nothing
    /// of it is sent.
    pub(super) fn send(
        &mut self,
        bytes: &[u8],
        replies: usize,
        deadline: Tick,
    ) -> Result<u64, Loss> {
        if let Some(loss) = self.ended() {
            return Err(loss);
        }
        if QUEUE_MAX <= self.seats.len() || OUTPUT_MAX < self.output.len() - self.written {
            return Err(Loss::Full);
        }
        let number = self.first + self.seats.len() as u64;
        let (waits, got) = (Waits::Yes(None), Replies::new());
        self.seats.push_back(Seat { missing: replies, replies: got, deadline, waits });
        if deadline < self.alarm {
            self.alarm = deadline;
            self.woken.push(self.driver.clone());
        }
        let driver = self.driver.clone();
        self.write(bytes, &mut Context::from_waker(&driver));
        Ok(number)
    }

    /// What has become of the call in a seat. Its answer is fetched once.
    pub(super) fn poll_seat(&mut self, number: u64, waker: &Waker) -> Poll<Result<Replies, Loss>> {
        let has_ended = self.ended();
        let Some(seat) = self.seat(number) else {
            // A caller that was late is not answered, even if the reply has come since.
            return Poll::Ready(self.fetch(number).ok_or(Loss::Late));
        };
        match (&mut seat.waits, has_ended) {
            (Waits::Yes(kept), None) => {
                match kept {
                    Some(kept) => kept.clone_from(waker),
                    None => *kept = Some(waker.clone()),
                }
                Poll::Pending
            }
            (Waits::Yes(_), Some(loss)) => Poll::Ready(Err(loss)),
            (Waits::No, _) => Poll::Ready(Err(Loss::Late)),
        }
    }

    /// Nobody waits any more for what is in a seat. What is still to come for it is skipped.
    pub(super) fn leave(&mut self, number: u64) {
        match self.seat(number) {
            Some(seat) => seat.waits = Waits::No,
            None => drop(self.fetch(number)),
        }
    }

    /// Takes an answer that has come.
    fn fetch(&mut self, number: u64) -> Option<Replies> {
        let at = self.answered.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        self.answered.remove(at).map(|(_, replies)| replies)
    }

    /// Bytes that there is room for in what waits to be written.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.output.capacity()
    }

    /// Answers that nobody has fetched.
    #[cfg(test)]
    pub(super) fn unfetched(&self) -> usize {
        self.answered.len()
    }

    /// When the driver is to look at who is late.
    pub(super) fn alarm(&self) -> Tick {
        self.alarm
    }

    /// Tells all whose time is over, and looks when the next one's is.
    pub(super) fn strike(&mut self, now: Tick) {
        self.alarm = Tick::MAX;
        for seat in &mut self.seats {
            let Waits::Yes(waker) = &mut seat.waits else { continue };
            if now < seat.deadline {
                self.alarm = self.alarm.min(seat.deadline);
            } else {
                self.woken.extend(waker.take());
                seat.waits = Waits::No;
            }
        }
    }

    /// Writes and reads for as long as the stream is ready; what it waits for wakes the driver.
    pub(super) fn drive(&mut self, driver: &Waker) {
        self.driver.clone_from(driver);
        let context = &mut Context::from_waker(driver);
        self.write(&[], context);
        self.read(context);
    }

    /// Ends it: everybody who waits gets the reason.
    pub(super) fn end(&mut self, why: Loss) {
        if self.stream.take().is_none() {
            return;
        }
        self.ended = Some(why);
        for seat in &mut self.seats {
            if let Waits::Yes(waker) = &mut seat.waits {
                self.woken.extend(waker.take());
            }
        }
        (self.output, self.written) = (Vec::new(), 0);
        self.woken.push(self.driver.clone());
    }

    fn seat(&mut self, number: u64) -> Option<&mut Seat> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.seats.get_mut(index)
    }

    /// Writes what waits, and `bytes` behind it.
    fn write(&mut self, bytes: &[u8], context: &mut Context<'_>) {
        let Some(stream) = &mut self.stream else { return };
        let mut stream = Pin::new(stream);
        let (mut waits, mut fresh) = (self.written < self.output.len(), bytes);
        let outcome = loop {
            let next = if waits { &self.output[self.written..] } else { fresh };
            if next.is_empty() {
                break match stream.as_mut().poll_flush(context) {
                    Poll::Ready(outcome) => outcome,
                    Poll::Pending => Ok(()),
                };
            }
            match stream.as_mut().poll_write(context, next) {
                Poll::Ready(Ok(0)) => break Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) if waits => {
                    self.written += count;
                    waits = self.written < self.output.len();
                }
                Poll::Ready(Ok(count)) => fresh = &fresh[count..],
                Poll::Ready(Err(error)) => break Err(error),
                Poll::Pending => break Ok(()),
            }
        };
        self.keep(waits, fresh);
        if let Err(error) = outcome {
            self.end(error.into());
        }
    }

    /// Keeps what could not be written, and not much of what could.
    fn keep(&mut self, waits: bool, fresh: &[u8]) {
        if !waits {
            self.output.clear();
            self.output.shrink_to(OUTPUT_KEPT);
            self.written = 0;
        } else if OUTPUT_KEPT < self.written && self.output.len() / 2 < self.written {
            self.output.drain(..self.written);
            self.written = 0;
        }
        self.output.extend_from_slice(fresh);
    }

    /// Reads all that has come in, and gives everybody theirs.
    fn read(&mut self, context: &mut Context<'_>) {
        loop {
            let Some(stream) = &mut self.stream else { return };
            let mut room = ReadBuf::new(&mut self.input[self.come.end..]);
            match Pin::new(stream).poll_read(context, &mut room) {
                Poll::Pending => return,
                Poll::Ready(Err(error)) => return self.end(error.into()),
                Poll::Ready(Ok(())) if room.filled().is_empty() => {
                    return self.end(Loss::Ended("the server has closed it".into()));
                }
                Poll::Ready(Ok(())) => self.come.end += room.filled().len(),
            }
            if let Err(why) = self.take_replies() {
                return self.end(Loss::Nonsense(why));
            }
            self.make_room();
        }
    }

    /// Hands out all replies that are whole.
    fn take_replies(&mut self) -> Result<(), Arc<str>> {
        while !self.come.is_empty() {
            let bytes = &self.input[self.come.clone()];
            let length = self.scan.look(bytes).map_err(|it| Arc::from(it.to_string()))?;
            let Some(length) = length else { return Ok(()) };
            let bytes = &bytes[..length];
            self.come.start += length;
            // Nobody has asked for what a server says by itself.
            if bytes.first() == Some(&b'>') {
                continue;
            }
            let seat = self.seats.front_mut().ok_or("a reply that nobody asked for")?;
            if let Waits::Yes(_) = seat.waits {
                seat.replies.push(Reply::new(bytes));
            }
            seat.missing -= 1;
            if seat.missing == 0 {
                self.answer_first();
            }
        }
        Ok(())
    }

    /// The first call has all its replies.
    fn answer_first(&mut self) {
        let Some(seat) = self.seats.pop_front() else { return };
        let number = self.first;
        self.first += 1;
        if let Waits::Yes(waker) = seat.waits {
            // At most one for each caller that is there: who goes away takes it along.
            self.answered.push_back((number, seat.replies));
            self.woken.extend(waker);
        }
    }

    /// Makes room for what comes next: more, the longer the reply that is under way. It grows no
    /// further than what a look takes for a reply.
    fn make_room(&mut self) {
        let left = self.come.len();
        let wanted = (2 * left).max(INPUT);
        if self.input.len() == wanted || (0 < left && wanted < self.input.len()) {
            self.input.copy_within(self.come.clone(), 0);
        } else {
            let mut input = vec![0; wanted];
            input[..left].copy_from_slice(&self.input[self.come.clone()]);
            self.input = input.into();
        }
        self.come = 0..left;
    }
}
