//! Wakes tasks and threads at a tick of the system's clock, for whatever runs them.
//!
//! One thread for the whole process, started by the first one that waits, asleep until the next
//! waker is due. Decisions never touch it, and no async runtime is needed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, OnceLock, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use tidegate_core::Tick;

use crate::clock::{Clock, SystemClock, WakeId, Wakers};

/// The process's one alarm.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    // Not the model checker's: it never runs there.
    wakers: std::sync::Mutex<Wakers>,
    changed: Condvar,
}

impl Alarm {
    /// The alarm, with its thread started.
    pub(crate) fn of_process() -> &'static Alarm {
        static ALARM: OnceLock<Alarm> = OnceLock::new();
        static STARTED: OnceLock<()> = OnceLock::new();
        let alarm = ALARM.get_or_init(Alarm::default);
        STARTED.get_or_init(|| {
            let named = thread::Builder::new().name("tidegate-alarm".into());
            named.spawn(|| alarm.run()).expect("a process that cannot start a thread cannot wait");
        });
        alarm
    }

    pub(crate) fn wake_at(&self, at: Tick, waker: Waker) -> WakeId {
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = wakers.first_at().is_none_or(|first| at < first);
        let id = wakers.insert(at, waker);
        drop(wakers);
        // Otherwise the thread sleeps for no longer than it should already.
        if is_first {
            self.changed.notify_one();
        }
        id
    }

    pub(crate) fn cancel(&self, id: WakeId) {
        let removed = self.wakers.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        drop(removed);
    }

    fn run(&self) -> ! {
        let clock = SystemClock::new();
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let due = wakers.take_due(clock.now());
            if !due.is_empty() {
                drop(wakers);
                for waker in due {
                    // A waker that panics must not take everybody else's alarm with it.
                    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
                }
                wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            wakers = match wakers.first_at() {
                None => self.changed.wait(wakers).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let wait = Duration::from_micros(at.since(clock.now()).get());
                    let woken = self.changed.wait_timeout(wakers, wait);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}
