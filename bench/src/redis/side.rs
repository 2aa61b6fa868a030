//! One of the two that are compared, and the ways to ask it.
//!
//! All tasks run on the one thread of a current-thread runtime, connections included: of two
//! cores one is the server's, and a second thread of ours would take turns with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::tidegate::Kind;
use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use super::ours::Ours;
use super::plain::Plain;
use super::time::Time;
use crate::histogram::Histogram;
use crate::order::Random;
use crate::setting::Quota;
use crate::timer;

/// A rule, kept by either. Clones are the same rule on the same connection.
#[derive(Clone)]
pub(super) enum Side {
    Plain(Plain),
    Ours(Ours),
}

/// Who asks about whom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crowd {
    /// How many ask at once.
    pub(super) tasks: u32,
    pub(super) clients: u32,
    /// Each round has its own draws, the same for both sides.
    pub(super) round: u64,
}

/// What a number of tasks did at once.
pub(super) struct Lap {
    pub(super) decisions: u64,
    pub(super) admitted: u64,
    pub(super) wall: Duration,
    /// The processor time of the thread that all tasks and connections share.
    pub(super) client_cpu: Duration,
    pub(super) latencies: Histogram,
}

impl Side {
    /// Both sides, the published script first.
    pub(super) async fn pair(
        url: &str,
        kind: Kind,
        quota: Quota,
        time: &Time,
    ) -> Result<[Self; 2]> {
        Ok([
            Self::Plain(Plain::connect(url, kind, quota, time.clone()).await?),
            Self::Ours(Ours::connect(url, kind, quota, time.clone()).await?),
        ])
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Plain(_) => "plain script",
            Self::Ours(_) => "tidegate",
        }
    }

    async fn decide(&mut self, client: u32) -> Result<bool> {
        match self {
            Self::Plain(plain) => plain.decide(client).await,
            Self::Ours(ours) => ours.decide(client).await,
        }
    }

    /// Asks about every one of `clients` once, many at a time, and counts what passes.
    pub(super) async fn pass(&self, clients: u32) -> Result<u64> {
        let mut tasks = JoinSet::new();
        for first in 0..TASKS {
            let mut side = self.clone();
            tasks.spawn(async move {
                let mut admitted = 0;
                for client in (first..clients).step_by(TASKS as usize) {
                    admitted += u64::from(side.decide(FIRST_CLIENT + client).await?);
                }
                anyhow::Ok(admitted)
            });
        }
        let mut admitted = 0;
        while let Some(ended) = tasks.join_next().await {
            admitted += ended??;
        }
        Ok(admitted)
    }

    /// Asks about clients drawn at random for as long as `time`.
    pub(super) async fn lap(&self, crowd: Crowd, time: Duration) -> Result<Lap> {
        let ends = Arc::new(AtomicBool::new(false));
        let cpu_before = timer::own_cpu();
        let start = timer::now();
        let mut tasks = JoinSet::new();
        for task in 0..crowd.tasks {
            let random = Random::seeded((crowd.round << 32) + u64::from(task));
            tasks.spawn(self.clone().walk(random, crowd.clients, Arc::clone(&ends)));
        }
        tokio::time::sleep(time).await;
        ends.store(true, Ordering::Relaxed);
        let mut all = Lap::new();
        while let Some(ended) = tasks.join_next().await {
            all.add(&ended??);
        }
        all.wall = start.elapsed();
        all.client_cpu = timer::own_cpu().saturating_sub(cpu_before);
        ensure!(all.decisions > 0, "nothing was decided");
        Ok(all)
    }

    async fn walk(
        mut self,
        mut random: Random,
        clients: u32,
        ends: Arc<AtomicBool>,
    ) -> Result<Lap> {
        let mut lap = Lap::new();
        while !ends.load(Ordering::Relaxed) {
            // Not all are timed: reading the clock is a tenth of a decision that asks nobody.
            let start = lap.decisions.is_multiple_of(TIMED_EVERY).then(timer::now);
            lap.admitted += u64::from(self.decide(FIRST_CLIENT + random.below(clients)).await?);
            lap.decisions += 1;
            if let Some(start) = start {
                lap.latencies.add(start.elapsed());
            }
            // A decision that asks nobody never waits, and would keep all other tasks, and the
            // one that says when to end, from running.
            if lap.decisions.is_multiple_of(YIELD_EVERY) {
                tokio::task::yield_now().await;
            }
        }
        Ok(lap)
    }
}

impl Lap {
    fn new() -> Self {
        Self {
            decisions: 0,
            admitted: 0,
            wall: Duration::ZERO,
            client_cpu: Duration::ZERO,
            latencies: Histogram::new(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.decisions += other.decisions;
        self.admitted += other.admitted;
        self.latencies.merge(&other.latencies);
    }
}

/// How many ask at once where it does not matter.
const TASKS: u32 = 64;
/// Clients have seven digits, all of them.
const FIRST_CLIENT: u32 = 1_000_000;
const TIMED_EVERY: u64 = 8;
const YIELD_EVERY: u64 = 64;
