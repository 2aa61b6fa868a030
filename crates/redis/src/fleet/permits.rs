//! Permits of a fleet while they are renewed.
//!
//! A renewal goes on in a task of its own, so that a caller that stops waiting for it does not lose
//! the new receipts. The last to know of the permits gives them back: the admission, or a renewal
//! that the admission did not live to see.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Tick;
use tidegate_store::StoreFailure;
use tokio::sync::Mutex;

use super::FleetReceipts;

/// Permits that were renewed at least once; without receipts, they are gone.
#[derive(Default)]
pub(super) struct Permits {
    receipts: Mutex<FleetReceipts>,
    /// When the first lapses, in ticks; zero if none is held. Of before, while it is renewed.
    lapse_at: AtomicU64,
}

impl Permits {
    pub(super) fn new(receipts: FleetReceipts) -> Permits {
        let lapse_at = AtomicU64::new(ticks(receipts.lapse_at()));
        Permits { receipts: Mutex::new(receipts), lapse_at }
    }

    pub(super) fn lapse_at(&self) -> Option<Tick> {
        let ticks = self.lapse_at.load(Ordering::Relaxed);
        (ticks != 0).then(|| Tick::from_micros(ticks))
    }

    /// Renews them, one renewal after the other.
    pub(super) async fn renew(permits: Arc<Permits>) -> Result<bool, StoreFailure> {
        let renewal = tokio::spawn(async move {
            let mut receipts = permits.receipts.lock().await;
            if receipts.is_empty() {
                return Ok(false);
            }
            let is_held = receipts.renew().await;
            permits.lapse_at.store(ticks(receipts.lapse_at()), Ordering::Relaxed);
            is_held.map_err(|error| StoreFailure::new(error.to_string()))
        });
        renewal.await.unwrap_or_else(|_| Err(StoreFailure::new("the runtime has ended")))
    }

    /// Gives them back, after a renewal that is under way.
    pub(super) async fn release(&self) {
        let mut held = self.receipts.lock().await;
        self.lapse_at.store(0, Ordering::Relaxed);
        let _ = std::mem::take(&mut *held).release().await;
    }
}

fn ticks(lapse_at: Option<Tick>) -> u64 {
    lapse_at.map_or(0, Tick::get)
}
