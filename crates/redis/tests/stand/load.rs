//! Load on a limiter, and a log of what it let pass that the limiter knows nothing of.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_core::{Span, Tick, Verdict};
use tidegate_redis::By;
use tidegate_store::{Clock, SystemClock};
use tokio::task::JoinHandle;

use super::Node;

/// One call, as its caller saw it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub asked: Tick,
    pub answered: Tick,
    pub key: Arc<str>,
    pub verdict: Verdict,
    pub by: By,
}

/// Everything that was asked, in no order.
#[derive(Clone, Debug, Default)]
pub struct Log(pub Vec<Entry>);

/// Tasks that ask without end.
pub struct Load {
    stop: Arc<AtomicBool>,
    clock: Arc<SystemClock>,
    tasks: Vec<JoinHandle<Log>>,
}

/// What a bucket may let pass: so many at once, and so many a second.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    pub burst: u64,
    pub per_second: u64,
}

impl Load {
    /// So many tasks, each asking for all keys in turn, about once in a millisecond.
    pub fn start(limiter: &Node, keys: &[&str], tasks: usize) -> Load {
        Load::paced(limiter, keys, (tasks, PACE), Arc::new(SystemClock::new()))
    }

    /// As `start`, by a clock that other logs have too, and as often as `pace` says.
    pub fn paced(
        limiter: &Node,
        keys: &[&str],
        (tasks, pace): (usize, Duration),
        clock: Arc<SystemClock>,
    ) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let keys: Vec<Arc<str>> = keys.iter().map(|key| Arc::from(*key)).collect();
        let task = |number: usize| {
            let (limiter, keys) = (limiter.clone(), keys.clone());
            let (stop, clock) = (Arc::clone(&stop), Arc::clone(&clock));
            tokio::spawn(async move { work(&limiter, &keys, (number, pace), &stop, &clock).await })
        };
        let tasks = (0..tasks).map(task).collect();
        Load { stop, clock, tasks }
    }

    /// The clock of the log.
    pub fn now(&self) -> Tick {
        self.clock.now()
    }

    /// Ends it, and hands out the log.
    pub async fn stop(self) -> Log {
        self.stop.store(true, Ordering::Relaxed);
        let mut log = Log::default();
        for task in self.tasks {
            log.0.extend(task.await.unwrap().0);
        }
        log
    }
}

async fn work(
    limiter: &Node,
    keys: &[Arc<str>],
    (number, pace): (usize, Duration),
    stop: &AtomicBool,
    clock: &SystemClock,
) -> Log {
    let mut log = Log::default();
    let mut turn = number;
    while !stop.load(Ordering::Relaxed) {
        let key = Arc::clone(&keys[turn % keys.len()]);
        turn += 1;
        let asked = clock.now();
        let answer = limiter.decide(&*key).await;
        let (verdict, by) = (answer.verdict(), answer.by());
        log.0.push(Entry { asked, answered: clock.now(), key, verdict, by });
        tokio::time::sleep(pace).await;
    }
    log
}

const PACE: Duration = Duration::from_millis(1);

impl Log {
    /// Those for which it holds.
    pub fn only(&self, holds: impl Fn(&Entry) -> bool) -> Log {
        Log(self.0.iter().filter(|entry| holds(entry)).cloned().collect())
    }

    /// Those that were asked and answered between both.
    pub fn between(&self, from: Tick, to: Tick) -> Log {
        self.only(|entry| from <= entry.asked && entry.answered <= to)
    }

    pub fn of(&self, key: &str) -> Log {
        self.only(|entry| &*entry.key == key)
    }

    pub fn admitted(&self) -> Log {
        self.only(|entry| entry.verdict.passes())
    }

    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// The longest that anybody waited, in milliseconds, and the 99th percentile.
    pub fn waited_ms(&self) -> (u64, u64) {
        let mut waits: Vec<u64> =
            self.0.iter().map(|entry| entry.answered.since(entry.asked).get() / 1_000).collect();
        waits.sort_unstable();
        let at = |percent: usize| waits.get(waits.len() * percent / 100).copied();
        (waits.last().copied().unwrap_or(0), at(99).unwrap_or(0))
    }

    /// By how many cells what was admitted passes what was allowed, over the worst span: zero if
    /// it never does.
    ///
    /// A call has passed at some time between its question and its answer, so a span holds those
    /// that were asked and answered within it.
    pub fn excess(&self, allowed: Allowed) -> u64 {
        let mut log = self.admitted().0;
        log.sort_by_key(|entry| entry.answered);
        let mut worst = 0;
        for from in log.iter().map(|entry| entry.asked) {
            let mut count = 0;
            for entry in log.iter().filter(|entry| from <= entry.asked) {
                count += 1;
                worst = worst.max(allowed.excess(count, entry.answered.since(from)));
            }
        }
        worst
    }
}

impl Allowed {
    fn excess(self, count: u64, over: Span) -> u64 {
        // A millionth more: their clocks are not ours.
        let earned = u128::from(self.per_second) * u128::from(over.get() + over.get() / 1_000_000);
        let earned = u64::try_from(earned.div_ceil(1_000_000)).unwrap_or(u64::MAX);
        count.saturating_sub(self.burst + earned)
    }
}
