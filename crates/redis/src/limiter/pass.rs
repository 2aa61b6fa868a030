//! A request that has passed, and what can be given back of it.

use tidegate_core::{Decision, Tick, Verdict};
use tidegate_store::By;

use crate::failure::StoreError;
use crate::fleet::{Fleet, FleetDecided, FleetReceipts};

/// A request that has passed. It owns what it needs, so it may outlive whoever asked.
///
/// Dropped, it gives back its permits; what it was charged otherwise stands.
#[must_use = "dropping it gives back its permits at once"]
pub struct FleetPass {
    decision: Decision,
    by: By,
    receipts: FleetReceipts,
    fleet: Fleet,
    /// When it is held back: its turn in a queue, by the server's clock.
    starts_at: Tick,
}

impl FleetPass {
    pub(super) fn new(fleet: &Fleet, decided: FleetDecided) -> FleetPass {
        let (decision, by, now) = (decided.decision(), decided.by, fleet.server_now());
        let starts_at = match decision.verdict {
            Verdict::Delay { by } => now.after(by),
            _ => now,
        };
        FleetPass { decision, by, receipts: decided.receipts, fleet: fleet.clone(), starts_at }
    }

    /// The decision by which it passed.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// By what it was decided.
    pub fn by(&self) -> By {
        self.by
    }

    /// Gives back everything that was charged, as if it had never been asked.
    ///
    /// Before its turn in a queue has come, it obeys the law of those who leave a queue: if others
    /// stand behind its slot, that stays empty, and only permits come back.
    pub async fn refund(self) -> Result<(), StoreError> {
        if self.fleet.server_now() < self.starts_at {
            self.receipts.give_up().await.map(drop)
        } else {
            self.receipts.refund().await
        }
    }

    /// Gives back its permits, and waits until that is done. Dropping it does the same without
    /// waiting.
    pub async fn release(self) -> Result<(), StoreError> {
        self.receipts.release().await
    }
}

impl std::fmt::Debug for FleetPass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("FleetPass");
        debug.field("decision", &self.decision).field("by", &self.by).finish_non_exhaustive()
    }
}
