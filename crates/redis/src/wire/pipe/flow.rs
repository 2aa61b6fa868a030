//! One connection's two streams of bytes, and who waits for which reply.
//!
//! Replies come in the order of calls, so a queue is all that tells whose one is. Whoever finds the
//! stream ready moves it on for everybody; what it waits for itself wakes the driver.

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

/// As many calls may be under way; more wait for their turn.
pub(super) const QUEUE_MAX: usize = 1024;

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
    seats: VecDeque<Seat>,
    /// How many seats have ever left the queue: the number of the first that is there.
    first: u64,
    /// Which of them the next reply is for.
    served: usize,
    /// Who goes on when the stream is ready.
    driver: Waker,
    /// When the driver looks at who is late; nobody's deadline is before.
    alarm: Tick,
    /// Who waits for a seat.
    crowd: Vec<Waker>,
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
    /// No longer than until its deadline, which is over.
    Late,
    /// Whoever waited has gone away, or has what it waited for.
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
            served: 0,
            driver: Waker::noop().clone(),
            alarm: Tick::MAX,
            crowd: Vec::new(),
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

    /// Takes a seat for a call of so many commands, and sends them. Nothing if all are taken.
    pub(super) fn send(&mut self, bytes: &[u8], replies: usize, deadline: Tick) -> Option<u64> {
        if QUEUE_MAX <= self.seats.len() {
            return None;
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
        Some(number)
    }

    /// Has `waker` woken once a seat is free.
    pub(super) fn queue(&mut self, waker: &Waker) {
        if !self.crowd.iter().any(|other| other.will_wake(waker)) {
            self.crowd.push(waker.clone());
        }
    }

    /// What has become of the call in a seat. With an answer, the seat is given back.
    pub(super) fn poll_seat(&mut self, number: u64, waker: &Waker) -> Poll<Result<Replies, Loss>> {
        let has_ended = self.ended();
        let Some(seat) = self.seat(number) else { return Poll::Ready(Err(Loss::Late)) };
        let answer = if seat.missing == 0 {
            Ok(std::mem::take(&mut seat.replies))
        } else if let Some(loss) = has_ended {
            Err(loss)
        } else if let Waits::Yes(kept) = &mut seat.waits {
            match kept {
                Some(kept) => kept.clone_from(waker),
                None => *kept = Some(waker.clone()),
            }
            return Poll::Pending;
        } else {
            Err(Loss::Late)
        };
        self.leave(number);
        Poll::Ready(answer)
    }

    /// Nobody waits any more for what is in a seat. What is still to come for it is skipped.
    pub(super) fn leave(&mut self, number: u64) {
        if let Some(seat) = self.seat(number) {
            seat.waits = Waits::No;
        }
        self.clear();
    }

    /// When the driver is to look at who is late.
    pub(super) fn alarm(&self) -> Tick {
        self.alarm
    }

    /// Tells all whose time is over, and looks when the next one's is.
    pub(super) fn strike(&mut self, now: Tick) {
        self.alarm = Tick::MAX;
        for seat in self.seats.iter_mut().filter(|seat| 0 < seat.missing) {
            let Waits::Yes(waker) = &mut seat.waits else { continue };
            if now < seat.deadline {
                self.alarm = self.alarm.min(seat.deadline);
            } else {
                self.woken.extend(waker.take());
                seat.waits = Waits::Late;
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

    /// Ends it: everybody who waits is told why.
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
        self.woken.extend(self.crowd.drain(..));
        self.woken.push(self.driver.clone());
    }

    fn seat(&mut self, number: u64) -> Option<&mut Seat> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.seats.get_mut(index)
    }

    /// Gives back the seats at the front that nobody needs any more.
    fn clear(&mut self) {
        while self.seats.front().is_some_and(Seat::is_free) {
            self.seats.pop_front();
            self.first += 1;
            self.served = self.served.saturating_sub(1);
            self.woken.extend(self.crowd.drain(..));
        }
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
        if !waits {
            self.output.clear();
            self.written = 0;
        }
        self.output.extend_from_slice(fresh);
        if let Err(error) = outcome {
            self.end(Loss::Ended(error.to_string().into()));
        }
    }

    /// Reads all that has come in, and gives everybody theirs.
    fn read(&mut self, context: &mut Context<'_>) {
        loop {
            let Some(stream) = &mut self.stream else { return };
            let mut room = ReadBuf::new(&mut self.input[self.come.end..]);
            match Pin::new(stream).poll_read(context, &mut room) {
                Poll::Pending => return,
                Poll::Ready(Err(error)) => return self.end(Loss::Ended(error.to_string().into())),
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
            let seat = self.seats.get_mut(self.served).ok_or("a reply that nobody asked for")?;
            if let Waits::Yes(_) = seat.waits {
                seat.replies.push(Reply::new(bytes));
            }
            seat.missing -= 1;
            if seat.missing == 0 {
                self.served += 1;
                if let Waits::Yes(waker) = &mut seat.waits {
                    self.woken.extend(waker.take());
                }
                self.clear();
            }
        }
        Ok(())
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

impl Seat {
    fn is_free(&self) -> bool {
        self.missing == 0 && matches!(self.waits, Waits::No)
    }
}
