//! What is to be given back while Redis does not answer, until it does.
//!
//! Kept is only what Redis certainly did not do. A call whose outcome is unknown is not sent again:
//! permits that were taken at the same tick are one event, so that a second release could give back
//! somebody else's. A refund goes only to the run that it was charged in.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tidegate_core::{Kind, Receipt};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Fleet, Inner, SharedRule};
use crate::failure::StoreError;
use crate::wire::ServerRun;
use tidegate_store::TextKey as FleetKey;

/// The most that is kept. It is what was charged before Redis went away, so it is as much as there
/// were requests under way; of keys of usual length, three megabytes.
const RETURNS_MAX: usize = 16_384;
/// As many are sent at a time: a call takes no more.
const SENT_MAX: usize = 128;
/// How long to wait after Redis did not answer. While it is left alone nothing is sent at all.
const PAUSE: Duration = Duration::from_millis(100);

/// Something to be given back to Redis.
#[derive(Debug)]
pub(super) struct Return {
    pub(super) rule: SharedRule,
    pub(super) key: FleetKey,
    pub(super) receipt: Receipt,
    /// In which it was charged.
    pub(super) run: ServerRun,
}

/// What waits for Redis.
#[derive(Debug, Default)]
pub(super) struct Returns {
    kept: Mutex<Kept>,
    /// Cells that Redis was perhaps never told of.
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    queue: VecDeque<Return>,
    is_sending: bool,
}

impl Returns {
    /// Cells that Redis was perhaps never told of.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Forgets what is to be given back to a key: it has been made fresh.
    pub(super) fn forget(&self, rule: &SharedRule, key: &FleetKey) {
        let is_it = |back: &Return| back.rule.number() == rule.number() && back.key == *key;
        self.lock().queue.retain(|back| !is_it(back));
    }

    /// Keeps it, if there is room; whether somebody is to be started who sends it.
    fn keep(&self, back: Return) -> bool {
        let mut kept = self.lock();
        if RETURNS_MAX <= kept.queue.len() {
            drop(kept);
            self.drop(&back);
            return false;
        }
        kept.queue.push_back(back);
        !std::mem::replace(&mut kept.is_sending, true)
    }

    fn drop(&self, back: &Return) {
        self.dropped.fetch_add(back.receipt.cost().into(), Ordering::Relaxed);
    }

    /// The rule and the key of the first one. The sender has nothing more to do if there is none.
    fn first(&self) -> Option<(SharedRule, FleetKey)> {
        let mut kept = self.lock();
        let first = kept.queue.front().map(|back| (back.rule.clone(), back.key));
        kept.is_sending = first.is_some();
        first
    }

    /// Others first: they may be for a server that answers.
    fn rotate(&self) {
        let mut kept = self.lock();
        if !kept.queue.is_empty() {
            kept.queue.rotate_left(1);
        }
    }

    fn take(&self) -> Vec<Return> {
        let mut kept = self.lock();
        let some = kept.queue.len().min(SENT_MAX);
        kept.queue.drain(..some).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Return {
    fn is_permit(&self) -> bool {
        self.rule.policy().kind() == Kind::Concurrency
    }

    /// Whether it is a slot of a queue.
    pub(super) fn is_slot(&self) -> bool {
        self.rule.policy().kind() == Kind::LeakyQueue
    }
}

impl Fleet {
    /// The runtime that the connections are on: tasks can be started there from any thread.
    pub fn runtime(&self) -> &Handle {
        self.inner.store.runtime()
    }

    /// Gives something back to Redis, by what the rule is now: its states are kept under that. What
    /// Redis certainly did not do is kept, and sent again. Whether it came back: the slot of a
    /// queue may not.
    pub(super) async fn give_back(&self, back: Return) -> Result<bool, StoreError> {
        let run = (!back.is_permit()).then_some(back.run);
        let (store, rule) = (&self.inner.store, back.rule.present());
        let done = store.refund_in(&rule.rule, &back.key, &back.receipt, run).await;
        if let Err(error) = &done {
            let is_over = run.is_some_and(|run| run != store.run_now());
            if is_over || !may_be_repeated(error) {
                self.inner.returns.drop(&back);
            } else if self.inner.returns.keep(back) {
                self.start_sending();
            }
        }
        done
    }

    /// Not async: what it starts calls [`Fleet::give_back`], which called this.
    fn start_sending(&self) {
        let work = send_kept(Arc::downgrade(&self.inner));
        drop(self.runtime().spawn(work));
    }

    /// Sends some of what is kept; how long to wait before the next try, or that nothing is left.
    async fn send_some(&self) -> Option<Duration> {
        let returns = &self.inner.returns;
        let (rule, key) = returns.first()?;
        // Not with what is kept: what is sent in vain may have been done, and is lost then.
        if self.inner.store.peek(&rule.present().rule, &key, 0).await.is_err() {
            returns.rotate();
            return Some(PAUSE);
        }
        let mut sending = JoinSet::new();
        for back in returns.take() {
            let fleet = self.clone();
            sending.spawn(async move { fleet.give_back(back).await.is_ok() });
        }
        let are_done = sending.join_all().await.into_iter().all(|is_done| is_done);
        Some(if are_done { Duration::ZERO } else { PAUSE })
    }
}

/// Whether the same may be sent once more, and may then be done.
fn may_be_repeated(error: &StoreError) -> bool {
    error.is_certain() && !matches!(error, StoreError::Damaged(_))
}

/// Sends what is kept until nothing is, or the fleet is gone.
async fn send_kept(fleet: Weak<Inner>) {
    while let Some(inner) = fleet.upgrade() {
        let fleet = Fleet { inner };
        let Some(pause) = fleet.send_some().await else { return };
        drop(fleet);
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }
}
