//! Waiting for a turn: first come, first served for each key, without polling.
//!
//! Whoever has to wait for a key stands in its line. Only the first of a line asks the store, and
//! sleeps until the tick at which the store said it would pass. Whoever leaves, served or not,
//! wakes the next.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tidegate_core::{Decision, Span, Tick, Verdict};

use super::ask::Ask;
use super::pass::Pass;
use crate::clock::WakeId;
use crate::key::Key;
use crate::sync::{Mutex, lock};

/// Everybody who waits, by key.
#[derive(Debug, Default)]
pub(super) struct WaitList {
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    by_key: HashMap<Key, VecDeque<Waiter>>,
    waiting: usize,
    number: u64,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    waker: Waker,
}

/// The most that wait at a time; the next one is refused at once.
const WAITING_MAX: usize = 65_536;

/// Waits until a request passes; made by [`Ask::acquire`].
#[derive(Debug)]
#[must_use = "a future does nothing until it is awaited"]
pub struct Acquire<'a> {
    ask: Ask<'a>,
    within: Span,
    /// Set when it is first polled: waiting starts then.
    deadline: Option<Tick>,
    stage: Stage<'a>,
    alarm: Option<WakeId>,
}

#[derive(Debug)]
enum Stage<'a> {
    Asking,
    InLine {
        number: u64,
    },
    /// It has passed, and starts at `until`.
    Held {
        until: Tick,
        pass: Box<Pass<'a>>,
    },
    Done,
}

impl<'a> Acquire<'a> {
    pub(super) fn new(ask: Ask<'a>, within: Span) -> Acquire<'a> {
        Acquire { ask, within, deadline: None, stage: Stage::Asking, alarm: None }
    }

    /// Asks the store, if it is this one's turn.
    fn poll_turn(&mut self, waker: &Waker, deadline: Tick) -> Poll<Result<Pass<'a>, Decision>> {
        let limiter = self.ask.limiter;
        let Some(key) = self.ask.line() else {
            return Poll::Ready(Err(self.ask.charged(limiter.now()).0.decision()));
        };
        let mut lines = lock(&limiter.waiting.lines);
        let now = limiter.now();
        let wake_at = if lines.is_turn_of(key, &self.stage) {
            let (answer, charged) = self.ask.charged(now);
            let decision = answer.decision();
            match decision.verdict {
                Verdict::Allow | Verdict::Delay { .. } => {
                    self.leave_line(&mut lines);
                    drop(lines);
                    let pass = Pass::new(limiter, decision, charged);
                    return self.passed(pass, now, deadline, waker);
                }
                Verdict::Deny { retry_after } if now.after(retry_after) <= deadline => {
                    now.after(retry_after)
                }
                Verdict::Deny { .. } | Verdict::Never => {
                    self.leave_line(&mut lines);
                    return Poll::Ready(Err(decision));
                }
            }
        } else if deadline <= now {
            let decision = self.ask.clone().peek();
            self.leave_line(&mut lines);
            return Poll::Ready(Err(decision));
        } else {
            deadline
        };
        match lines.stand(key, &self.stage, waker) {
            Some(number) => self.stage = Stage::InLine { number },
            None => return Poll::Ready(Err(self.ask.clone().peek())),
        }
        drop(lines);
        self.set_alarm(wake_at, waker);
        Poll::Pending
    }

    /// It has passed: now, or after a delay that it is held for.
    fn passed(
        &mut self,
        pass: Pass<'a>,
        now: Tick,
        deadline: Tick,
        waker: &Waker,
    ) -> Poll<Result<Pass<'a>, Decision>> {
        let decision = pass.decision();
        let Verdict::Delay { by } = decision.verdict else { return Poll::Ready(Ok(pass)) };
        let until = now.after(by);
        if deadline < until {
            pass.refund();
            return Poll::Ready(Err(decision));
        }
        self.stage = Stage::Held { until, pass: Box::new(pass) };
        self.set_alarm(until, waker);
        Poll::Pending
    }

    fn poll_held(&mut self, waker: &Waker) -> Poll<Result<Pass<'a>, Decision>> {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Held { until, pass } if until <= self.ask.limiter.now() => {
                Poll::Ready(Ok(*pass))
            }
            Stage::Held { until, pass } => {
                self.stage = Stage::Held { until, pass };
                self.set_alarm(until, waker);
                Poll::Pending
            }
            _ => Poll::Pending,
        }
    }

    fn set_alarm(&mut self, at: Tick, waker: &Waker) {
        self.stop_alarm();
        self.alarm = Some(self.ask.limiter.clock().wake_at(at, waker.clone()));
    }

    fn stop_alarm(&mut self) {
        if let Some(id) = self.alarm.take() {
            self.ask.limiter.clock().cancel(id);
        }
    }

    fn leave_line(&mut self, lines: &mut Lines) {
        if let (Stage::InLine { number }, Some(key)) = (&self.stage, self.ask.line()) {
            lines.leave(key, *number);
        }
        self.stage = Stage::Done;
    }
}

impl<'a> Future for Acquire<'a> {
    type Output = Result<Pass<'a>, Decision>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = context.waker();
        let within = self.within;
        let now = self.ask.limiter.now();
        let deadline = *self.deadline.get_or_insert_with(|| now.after(within));
        match self.stage {
            Stage::Asking | Stage::InLine { .. } => self.poll_turn(waker, deadline),
            Stage::Held { .. } => self.poll_held(waker),
            Stage::Done => Poll::Pending,
        }
    }
}

impl Drop for Acquire<'_> {
    /// Gives back the place in the line, or what was charged for a start that never came.
    fn drop(&mut self) {
        self.stop_alarm();
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::InLine { number } => {
                if let Some(key) = self.ask.line() {
                    lock(&self.ask.limiter.waiting.lines).leave(key, number);
                }
            }
            Stage::Held { pass, .. } => pass.refund(),
            Stage::Asking | Stage::Done => {}
        }
    }
}

impl Lines {
    /// Whether nobody stands before it: it is the first of its line, or there is no line.
    fn is_turn_of(&self, key: Key, stage: &Stage<'_>) -> bool {
        let first = self.by_key.get(&key).and_then(VecDeque::front);
        match (first, stage) {
            (None, _) => true,
            (Some(first), Stage::InLine { number }) => first.number == *number,
            (Some(_), _) => false,
        }
    }

    /// Takes a place in the line, or stays in it with a new waker; `None` if too many wait.
    fn stand(&mut self, key: Key, stage: &Stage<'_>, waker: &Waker) -> Option<u64> {
        if let Stage::InLine { number } = stage {
            let line = self.by_key.get_mut(&key)?;
            let waiter = line.iter_mut().find(|waiter| waiter.number == *number)?;
            waiter.waker.clone_from(waker);
            return Some(*number);
        }
        if WAITING_MAX <= self.waiting {
            return None;
        }
        self.waiting += 1;
        self.number += 1;
        let waiter = Waiter { number: self.number, waker: waker.clone() };
        self.by_key.entry(key).or_default().push_back(waiter);
        Some(self.number)
    }

    /// Leaves the line, and wakes whoever is first then.
    fn leave(&mut self, key: Key, number: u64) {
        let Some(line) = self.by_key.get_mut(&key) else { return };
        let Some(place) = line.iter().position(|waiter| waiter.number == number) else { return };
        line.remove(place);
        self.waiting -= 1;
        match line.front() {
            None => {
                self.by_key.remove(&key);
            }
            Some(next) if place == 0 => next.waker.wake_by_ref(),
            Some(_) => {}
        }
    }
}

/// Blocks the thread until `future` is done.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
