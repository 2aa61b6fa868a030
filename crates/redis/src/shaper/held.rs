//! A slot that has not come yet: dropped, it is given back as far as that is possible.

use std::sync::Arc;

use tidegate_core::{Span, Tick};
use tidegate_store::By;

use super::Inner;
use crate::fleet::FleetReceipts;

/// A slot that is ours.
pub(super) struct Held {
    shaper: Arc<Inner>,
    /// When it comes. The end of time until that is known: given back, then.
    until: Tick,
    receipts: Option<FleetReceipts>,
    by: By,
}

impl Held {
    pub(super) fn new(shaper: Arc<Inner>, receipts: FleetReceipts, by: By) -> Held {
        Held { shaper, until: Tick::MAX, receipts: Some(receipts), by }
    }

    pub(super) fn until_after(mut self, now: Tick, by: Span) -> Held {
        self.until = now.after(by);
        self
    }

    pub(super) fn until(&self) -> Tick {
        self.until
    }

    /// It has come, and is used. By what it was decided.
    pub(super) fn start(mut self) -> By {
        if let Some(receipts) = self.receipts.take() {
            receipts.keep();
        }
        self.by
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(receipts) = self.receipts.take().filter(|receipts| !receipts.is_empty()) else {
            return;
        };
        // What has come is used up.
        if self.shaper.now() < self.until {
            receipts.refund_soon();
        } else {
            receipts.keep();
        }
    }
}
