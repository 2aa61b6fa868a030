//! Clocks: what tick it is. The only file that reads time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
// The system's clock is never part of a model.
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tidegate_core::{Span, Tick};

use crate::alarm::Alarm;
use crate::sync::{Mutex, lock};

/// Says what tick it is, and wakes those that wait for a later one.
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
/// Unix time is read once in the life of the process. From there the monotonic clock goes on, so
/// that a system clock that is set back or forth pays nobody and blocks nobody.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    anchor: &'static Anchor,
}

/// Where the counter stood at which tick, how fast it runs, and by how much it has been corrected.
///
/// The counter costs half of what the system's clock does, but its rate is only known to some parts
/// per million. So it is taken to be slower than it is, and once a second put forward to where the
/// system's monotonic clock is: it lags by microseconds, and never goes back.
#[derive(Debug)]
struct Anchor {
    counter: quanta::Clock,
    start: Instant,
    raw: u64,
    /// Unix time at the start.
    unix: u64,
    /// Ticks to one step of the counter, in 2^-64ths: one multiplication turns steps into ticks.
    scale: u64,
    /// Steps to a second.
    second: u64,
    /// Where ticks are counted from: Unix time at the start, and what was put forward since.
    base: AtomicU64,
    /// The step from which on that is to be seen to again.
    see_to_at: AtomicU64,
}

impl SystemClock {
    /// The system's clock.
    pub fn new() -> SystemClock {
        static ANCHOR: OnceLock<Anchor> = OnceLock::new();
        SystemClock { anchor: ANCHOR.get_or_init(Anchor::now) }
    }
}

impl Anchor {
    /// More than a counter's measured rate is off by, in parts per million.
    const SLOWED_PPM: u128 = 50;

    #[expect(clippy::disallowed_methods, reason = "this is the file that reads time")]
    fn now() -> Anchor {
        let counter = quanta::Clock::new();
        let nanos = counter.delta_as_nanos(0, 1 << 40).max(1);
        let scale = (u128::from(nanos) << 24) / 1_000;
        let scale = scale - scale * Anchor::SLOWED_PPM / 1_000_000;
        let second = (1_000_000_000_u128 << 40) / u128::from(nanos);
        let word = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        // A clock set to before 1970 counts from there: only differences matter to most limits.
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix = word(unix.as_micros());
        Anchor {
            start: Instant::now(),
            raw: counter.raw(),
            counter,
            unix,
            scale: word(scale),
            second: word(second),
            base: AtomicU64::new(unix),
            see_to_at: AtomicU64::new(0),
        }
    }

    #[inline]
    fn steps(&self) -> u64 {
        self.counter.raw().saturating_sub(self.raw)
    }

    /// Ticks by the counter alone.
    #[inline]
    fn counted(&self, steps: u64) -> u64 {
        // The upper half of a product of two words is a word.
        u64::try_from((u128::from(steps) * u128::from(self.scale)) >> 64).unwrap_or(u64::MAX)
    }

    /// Puts the counter forward to where the system's clock is.
    #[cold]
    fn see_to(&self) {
        // In this order: a pause between the two makes it seem less behind, and never ahead.
        let elapsed = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        let steps = self.steps();
        let behind = elapsed.saturating_sub(self.counted(steps));
        self.base.fetch_max(self.unix.saturating_add(behind), Ordering::Relaxed);
        self.see_to_at.store(steps.saturating_add(self.second), Ordering::Relaxed);
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Tick {
        let anchor = self.anchor;
        let steps = anchor.steps();
        if anchor.see_to_at.load(Ordering::Relaxed) <= steps {
            anchor.see_to();
        }
        let base = anchor.base.load(Ordering::Relaxed);
        Tick::from_micros(base.saturating_add(anchor.counted(steps)))
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

/// A clock that stands still until it is advanced: for tests that do not sleep.
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

    /// Goes on by `span`, and wakes those that waited for a tick on the way.
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
        let removed = lock(&self.wakers).remove(id);
        drop(removed);
    }
}

impl Wakers {
    pub(crate) fn insert(&mut self, at: Tick, waker: Waker) -> WakeId {
        self.number += 1;
        let id = WakeId { at, number: self.number };
        self.pending.insert(id, waker);
        id
    }

    /// Takes a waker out; it is to be dropped without a lock, since dropping may run anything.
    pub(crate) fn remove(&mut self, id: WakeId) -> Option<Waker> {
        self.pending.remove(&id)
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
