//! throttlecrab's library: GCRA over a hash map that wants exclusive access.
//!
//! The periodic store is timed without a lock, on one thread. The adaptive store sits in a
//! mutex, which is what an application with two threads has to do. Both clean up by their
//! default schedule.
//!
//! The adaptive store is told how many keys will come. Left to grow, it scans the whole map on
//! every write while the map is more than three quarters full: 90 microseconds a decision at
//! fifty thousand keys.

use std::sync::Mutex;

use ::throttlecrab::{AdaptiveStore, PeriodicStore, RateLimiter, Store};

use super::{Contender, MILLION, Subject};
use crate::key::Key;
use crate::setting::{Quota, Setting};
use crate::tape::Tape;
use crate::timer;
use crate::workload::Field;

pub(super) const PERIODIC: Contender = Contender {
    decides: |workload| workload.threads == 1 && workload.field == Field::All,
    memory_keys: MILLION,
    ..Contender::new("throttlecrab periodic, no lock", make_periodic)
};

pub(super) const ADAPTIVE: Contender = Contender {
    memory_keys: MILLION,
    ..Contender::new("throttlecrab adaptive, mutex", make_adaptive)
};

/// Locked once for a whole tape.
struct Periodic {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    terms: Terms,
}

/// Locked for every decision.
struct Adaptive {
    limiter: Mutex<RateLimiter<AdaptiveStore>>,
    terms: Terms,
}

/// A quota in the units of throttlecrab's arguments.
#[derive(Clone, Copy)]
struct Terms {
    burst: i64,
    seconds: i64,
}

impl Subject for Periodic {
    fn decide(&self, key: &Key) -> bool {
        self.terms.decide(&mut self.limiter.lock().expect(UNPOISONED), key)
    }

    fn play(&self, tape: &Tape<'_>) -> u64 {
        let mut limiter = self.limiter.lock().expect(UNPOISONED);
        tape.each(|key| self.terms.decide(&mut limiter, key))
    }
}

impl Subject for Adaptive {
    #[inline]
    fn decide(&self, key: &Key) -> bool {
        // The clock is read before the lock is taken: the shortest critical section.
        let now = timer::time_of_day();
        self.terms.decide_at(now, &mut self.limiter.lock().expect(UNPOISONED), key)
    }
}

impl Terms {
    fn new(quota: Quota) -> Self {
        let seconds = i64::try_from(quota.per.as_secs()).expect("a period below 2^63 seconds");
        Self { burst: i64::from(quota.burst), seconds }
    }

    #[inline]
    fn decide<S: Store>(self, limiter: &mut RateLimiter<S>, key: &Key) -> bool {
        self.decide_at(timer::time_of_day(), limiter, key)
    }

    #[inline]
    fn decide_at<S: Store>(
        self,
        now: std::time::SystemTime,
        limiter: &mut RateLimiter<S>,
        key: &Key,
    ) -> bool {
        limiter.rate_limit(&key.0, self.burst, 1, self.seconds, 1, now).is_ok_and(|(pass, _)| pass)
    }
}

fn make_periodic(setting: &Setting) -> Box<dyn Subject> {
    let limiter = Mutex::new(RateLimiter::new(PeriodicStore::new()));
    Box::new(Periodic { limiter, terms: Terms::new(setting.quota) })
}

fn make_adaptive(setting: &Setting) -> Box<dyn Subject> {
    let keys = usize::try_from(setting.keys.max(1000)).expect("a 64-bit machine");
    let limiter = Mutex::new(RateLimiter::new(AdaptiveStore::with_capacity(keys)));
    Box::new(Adaptive { limiter, terms: Terms::new(setting.quota) })
}

const UNPOISONED: &str = "no thread panics while it holds the lock";
