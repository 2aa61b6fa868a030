//! Clocks: what tick it is. The only file that reads time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
use std::task::Waker;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_core::{Span, Tick};

use crate::alarm::Alarm;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// Says what tick it is, and wakes whoever waits for a later one.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The present tick. Never earlier than an answer that was given before.
    fn now(&self) -> Tick;

    /// Wakes `waker` once `at` has come; soon, if it has already.
    fn wake_at(&self, at: Tick, waker: Waker) -> WakeId;

    /// Drops a waker that is not needed any more.
    fn cancel(&self, id: WakeId);
}

/// Names a waker that a clock holds.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct WakeId {
    at: Tick,
    number: u64,
}

/// Wakers in the order in which they are due.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    pending: BTreeMap<WakeId, Waker>,
    number: u64,
}

/// The system's clock: microseconds of Unix time, from the processor's own counter.
///
/// Unix time is read once in the life of the process; from there the monotonic counter goes on, so
/// that a system clock that is set back or forth pays nobody and blocks nobody.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    anchor: &'static Anchor,
}

/// Where the counter stood at which tick, and how fast it runs.
#[derive(Debug)]
struct Anchor {
    counter: quanta::Clock,
    raw: u64,
    tick: u64,
    /// Ticks to one step of the counter, in 2^-64ths: one multiplication turns steps into ticks.
    scale: u64,
}

impl SystemClock {
    /// The system's clock.
    pub fn new() -> SystemClock {
        static ANCHOR: OnceLock<Anchor> = OnceLock::new();
        SystemClock { anchor: ANCHOR.get_or_init(Anchor::now) }
    }
}

impl Anchor {
    #[expect(clippy::disallowed_methods, reason = "this is the file that reads time")]
    fn now() -> Anchor {
        let counter = quanta::Clock::new();
        // A clock set to before 1970 counts from there: only differences matter to most limits.
        let unix: Duration = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let tick = unix.as_secs() * 1_000_000 + u64::from(unix.subsec_micros());
        let nanos = counter.delta_as_nanos(0, 1 << 40);
        let scale = (u128::from(nanos) << 24) / 1_000;
        // A counter of more than a step a tick fits; a slower one would be no counter at all.
        let scale = u64::try_from(scale).unwrap_or(u64::MAX);
        Anchor { raw: counter.raw(), counter, tick, scale }
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Tick {
        let steps = self.anchor.counter.raw().saturating_sub(self.anchor.raw);
        let ticks = (u128::from(steps) * u128::from(self.anchor.scale)) >> 64;
        // The upper half of a product of two words is a word.
        Tick::from_micros(self.anchor.tick + u64::try_from(ticks).unwrap_or(u64::MAX))
    }

    fn wake_at(&self, at: Tick, waker: Waker) -> WakeId {
        Alarm::of_process().wake_at(at, waker)
    }

    fn cancel(&self, id: WakeId) {
        Alarm::of_process().cancel(id);
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

/// A clock that stands still until it is told to go on: for tests that do not sleep.
///
/// ```
/// use tidegate_core::Span;
/// use tidegate_store::{Clock, ManualClock};
///
/// let clock = ManualClock::new();
/// let start = clock.now();
/// clock.advance(Span::from_secs(90));
/// assert_eq!(clock.now().since(start), Span::from_secs(90));
/// ```
#[derive(Debug, Default)]
pub struct ManualClock {
    now: AtomicU64,
    wakers: Mutex<Wakers>,
}

impl ManualClock {
    /// A clock that stands at the epoch.
    pub fn new() -> ManualClock {
        ManualClock::default()
    }

    /// Goes on by `span`, and wakes whoever waited for a tick on the way.
    pub fn advance(&self, span: Span) {
        let mut wakers = lock(&self.wakers);
        let now = self.now().after(span);
        self.now.store(now.get(), Ordering::Release);
        let due = wakers.take_due(now);
        drop(wakers);
        due.into_iter().for_each(Waker::wake);
    }

    /// How many wait for a later tick.
    pub fn waiting(&self) -> usize {
        lock(&self.wakers).pending.len()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Tick {
        Tick::from_micros(self.now.load(Ordering::Acquire))
    }

    fn wake_at(&self, at: Tick, waker: Waker) -> WakeId {
        let mut wakers = lock(&self.wakers);
        let id = wakers.insert(at, waker);
        let due = wakers.take_due(self.now());
        drop(wakers);
        due.into_iter().for_each(Waker::wake);
        id
    }

    fn cancel(&self, id: WakeId) {
        lock(&self.wakers).remove(id);
    }
}

impl Wakers {
    pub(crate) fn insert(&mut self, at: Tick, waker: Waker) -> WakeId {
        self.number += 1;
        let id = WakeId { at, number: self.number };
        self.pending.insert(id, waker);
        id
    }

    pub(crate) fn remove(&mut self, id: WakeId) {
        self.pending.remove(&id);
    }

    /// The tick at which the first one is due.
    pub(crate) fn first_at(&self) -> Option<Tick> {
        self.pending.first_key_value().map(|(id, _)| id.at)
    }

    /// Takes out all that are due at `now`.
    pub(crate) fn take_due(&mut self, now: Tick) -> Vec<Waker> {
        let mut due = Vec::new();
        while self.first_at().is_some_and(|at| at <= now)
            && let Some((_, waker)) = self.pending.pop_first()
        {
            due.push(waker);
        }
        due
    }
}
