//! Waiting for a turn: first come, first served for each key, without polling.
//!
//! A request that has to wait for a key stands in its line. Only the first of a line asks the
//! store, and sleeps until the tick at which the store said it would pass. A request that leaves,
//! served or not, wakes the next.

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
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};

/// Everybody who waits, by key.
#[derive(Debug, Default)]
pub(super) struct WaitList {
    lines: Mutex<Lines>,
    /// How many wait, or ask whether they have to. Most of the time nobody does, and then a caller
    /// that gives something back locks nothing.
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct Lines {
    by_key: HashMap<Key, VecDeque<Waiter>>,
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

/// What comes of asking.
enum Turn<'a> {
    Held { until: Tick, pass: Pass<'a> },
    Passed { pass: Pass<'a> },
    Refused(Decision),
    Wait { until: Tick },
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
        let counted = Counted::unless_in_line(&self.stage, &limiter.waiting.waiting);
        let now = limiter.now();
        let turn = if lines.is_turn_of(key, &self.stage) {
            self.ask_store(now, deadline)
        } else if now < deadline {
            Turn::Wait { until: deadline }
        } else {
            Turn::Refused(refused(self.ask.clone().peek(), Span::from_micros(1)))
        };
        let Turn::Wait { until } = turn else {
            drop(counted);
            let left = self.leave_line(&mut lines);
            drop(lines);
            drop(left);
            return self.end(turn, waker);
        };
        let stood = lines.stand(key, &self.stage, waker, counted);
        drop(lines);
        let Some((number, _replaced)) = stood else {
            return Poll::Ready(Err(refused(self.ask.clone().peek(), Span::from_micros(1))));
        };
        self.stage = Stage::InLine { number };
        self.set_alarm(until, waker);
        Poll::Pending
    }

    fn ask_store(&self, now: Tick, deadline: Tick) -> Turn<'a> {
        let limiter = self.ask.limiter;
        let (answer, charged) = self.ask.charged(now);
        let decision = answer.decision();
        match decision.verdict {
            Verdict::Allow => {
                Turn::Passed { pass: Pass::new(limiter, decision, charged, (now, self.ask.line())) }
            }
            Verdict::Delay { by } => {
                let mut pass = Pass::new(limiter, decision, charged, (now, self.ask.line()));
                let until = now.after(by);
                if until <= deadline {
                    return Turn::Held { until, pass };
                }
                pass.give_up_quietly();
                Turn::Refused(refused(decision, until.since(deadline)))
            }
            Verdict::Deny { retry_after } if now.after(retry_after) <= deadline => {
                Turn::Wait { until: now.after(retry_after) }
            }
            // A permit may come back long before its lease ends.
            Verdict::Deny { .. } if now < deadline && limiter.lends_permits() => {
                Turn::Wait { until: deadline }
            }
            Verdict::Deny { .. } | Verdict::Never => Turn::Refused(decision),
        }
    }

    fn end(&mut self, turn: Turn<'a>, waker: &Waker) -> Poll<Result<Pass<'a>, Decision>> {
        match turn {
            Turn::Passed { pass } => Poll::Ready(Ok(pass)),
            Turn::Refused(decision) => Poll::Ready(Err(decision)),
            Turn::Held { until, pass } => {
                self.stage = Stage::Held { until, pass: Box::new(pass) };
                self.set_alarm(until, waker);
                Poll::Pending
            }
            Turn::Wait { .. } => Poll::Pending,
        }
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

    /// Leaves the line, if it is in one; what it returns is to be dropped without the lock.
    fn leave_line(&mut self, lines: &mut Lines) -> Left {
        let stage = std::mem::replace(&mut self.stage, Stage::Done);
        match (stage, self.ask.line()) {
            (Stage::InLine { number }, Some(key)) => {
                lines.leave(key, number, &self.ask.limiter.waiting.waiting)
            }
            _ => Left::default(),
        }
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
    /// Gives back the place in the line, or what may come back of a start that never came.
    fn drop(&mut self) {
        self.stop_alarm();
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::InLine { number } => {
                self.stage = Stage::InLine { number };
                let waiting = &self.ask.limiter.waiting;
                let left = self.leave_line(&mut lock(&waiting.lines));
                drop(left);
            }
            Stage::Held { pass, .. } => pass.give_up(),
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

    /// Takes a place in the line, or stays in it with a new waker; `None` if too many wait. The
    /// waker that is replaced is to be dropped without the lock.
    fn stand(
        &mut self,
        key: Key,
        stage: &Stage<'_>,
        waker: &Waker,
        counted: Option<Counted<'_>>,
    ) -> Option<(u64, Option<Waker>)> {
        if let Stage::InLine { number } = stage {
            let line = self.by_key.get_mut(&key)?;
            let place = line.binary_search_by_key(number, |waiter| waiter.number).ok()?;
            let replaced = std::mem::replace(&mut line[place].waker, waker.clone());
            return Some((*number, Some(replaced)));
        }
        counted?.stay()?;
        self.number += 1;
        let waiter = Waiter { number: self.number, waker: waker.clone() };
        self.by_key.entry(key).or_default().push_back(waiter);
        Some((self.number, None))
    }

    fn leave(&mut self, key: Key, number: u64, waiting: &AtomicUsize) -> Left {
        let mut left = Left::default();
        let Some(line) = self.by_key.get_mut(&key) else { return left };
        let Ok(place) = line.binary_search_by_key(&number, |waiter| waiter.number) else {
            return left;
        };
        left.removed = line.remove(place);
        waiting.fetch_sub(1, Ordering::SeqCst);
        match line.front() {
            None => {
                self.by_key.remove(&key);
            }
            Some(next) if place == 0 => left.next = Some(next.waker.clone()),
            Some(_) => {}
        }
        left
    }
}

/// A request that asks, counted as waiting before it does. A caller that gives back what the store
/// has just denied the request sees that somebody waits, and has the lock only when the request
/// stands in its line.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    /// Who stands in a line is counted already.
    fn unless_in_line(stage: &Stage<'_>, waiting: &'a AtomicUsize) -> Option<Counted<'a>> {
        if matches!(stage, Stage::InLine { .. }) {
            return None;
        }
        waiting.fetch_add(1, Ordering::SeqCst);
        Some(Counted(waiting))
    }

    /// It does wait, and stays counted until it leaves the line; `None` if too many wait.
    fn stay(self) -> Option<()> {
        let has_room = self.0.load(Ordering::Relaxed) <= WAITING_MAX;
        has_room.then(|| std::mem::forget(self))
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl WaitList {
    /// Wakes the first of a line: something has come back that it may be waiting for.
    pub(super) fn wake_line(&self, key: Option<Key>) {
        if 0 < self.waiting.load(Ordering::SeqCst) {
            let lines = lock(&self.lines);
            let line = key.and_then(|key| lines.by_key.get(&key));
            let first = line.and_then(VecDeque::front).map(|first| first.waker.clone());
            drop(lines);
            first.into_iter().for_each(Waker::wake);
        }
    }

    /// As `wake_line`, for every line.
    pub(super) fn wake_lines(&self) {
        if 0 < self.waiting.load(Ordering::SeqCst) {
            self.wake_every_line();
        }
    }

    /// Wakes the first of every line, without checking whether there is one: a request that begins
    /// to wait after that sees what was changed before.
    pub(super) fn wake_every_line(&self) {
        let lines = lock(&self.lines);
        let firsts = lines.by_key.values().filter_map(VecDeque::front);
        let firsts: Vec<Waker> = firsts.map(|first| first.waker.clone()).collect();
        drop(lines);
        firsts.into_iter().for_each(Waker::wake);
    }
}

/// What is left of a place in a line: dropped, it wakes the next. Never under the lock, since a
/// waker may run anything.
#[derive(Debug, Default)]
struct Left {
    removed: Option<Waiter>,
    next: Option<Waker>,
}

impl Drop for Left {
    fn drop(&mut self) {
        drop(self.removed.take());
        if let Some(next) = self.next.take() {
            next.wake();
        }
    }
}

/// `decision` as a refusal: a request that waited in vain has to come back, even where one that
/// did not wait would pass.
fn refused(decision: Decision, at_least: Span) -> Decision {
    let verdict = match decision.verdict {
        Verdict::Allow | Verdict::Delay { .. } => Verdict::Deny { retry_after: at_least },
        refusal => refusal,
    };
    Decision { verdict, ..decision }
}

/// Blocks the thread until `future` is done.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
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
