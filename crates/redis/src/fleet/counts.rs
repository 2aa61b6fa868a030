//! What was decided by what, and a word in the log when Redis did not decide.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Span, Tick};

use crate::failure::StoreError;
use tidegate_store::{By, DecisionCounts};

/// At most one line in the log for this long.
const LOG_EVERY: Span = Span::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Counts {
    store: AtomicU64,
    remembered: AtomicU64,
    local: AtomicU64,
    open: AtomicU64,
    closed: AtomicU64,
    unanswered: AtomicU64,
    /// When the next line may be written, and how many were left out since the last.
    log_at: AtomicU64,
    left_out: AtomicU64,
    /// Since when the log has said that Redis does not decide; zero while it has not.
    away_since: AtomicU64,
}

impl Counts {
    /// Counts a decision while Redis answers, and says once in the log that it is back.
    pub(super) fn add_with(&self, by: By, now: impl Fn() -> Tick) {
        self.add(by);
        if by == By::Store && self.away_since.load(Ordering::Relaxed) != 0 {
            let since = self.away_since.swap(0, Ordering::Relaxed);
            // One of several that come at the same time.
            if since != 0 {
                let away = now().since(Tick::from_micros(since));
                tracing::info!(away_ms = away.get() / 1_000, "Redis is back");
            }
        }
    }

    fn add(&self, by: By) {
        let count = match by {
            By::Store => &self.store,
            By::Remembered => &self.remembered,
            By::Local => &self.local,
            By::Open => &self.open,
            By::Closed => &self.closed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a decision without Redis, and says so in the log, but not too often.
    pub(super) fn add_without(&self, by: By, error: &StoreError, now: Tick) {
        self.add(by);
        if !error.is_certain() {
            self.unanswered.fetch_add(1, Ordering::Relaxed);
        }
        let log_at = self.log_at.load(Ordering::Relaxed);
        let next = now.after(LOG_EVERY).get();
        let is_ours = log_at <= now.get()
            && self
                .log_at
                .compare_exchange(log_at, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if !is_ours {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let _ = self.away_since.compare_exchange(
            0,
            now.get().max(1),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        tracing::warn!(%error, %by, left_out, "decided without Redis");
    }

    pub(super) fn read(&self) -> DecisionCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut counts = DecisionCounts::default();
        counts.store = read(&self.store);
        counts.remembered = read(&self.remembered);
        counts.local = read(&self.local);
        counts.open = read(&self.open);
        counts.closed = read(&self.closed);
        counts.unanswered = read(&self.unanswered);
        counts
    }
}
