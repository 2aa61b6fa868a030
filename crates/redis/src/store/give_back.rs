//! What is given back later than it was asked for, or after a server has lost its data.

use tidegate_core::{Receipt, Tick};
use tokio::runtime::Handle;

use super::{FleetCharge, RedisStore};
use crate::failure::StoreError;
use crate::gather::Reply;
use crate::plan::Does;
use crate::rule::FleetRule;
use crate::wire::ServerRun;
use tidegate_store::TextKey as FleetKey;

/// When something was to be given back, and to which run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since {
    /// By the store's own clock: see [`RedisStore::now`].
    pub(crate) asked: Tick,
    /// Nothing for a permit: its receipt names the permit itself, wherever that is kept.
    pub(crate) run: Option<ServerRun>,
}

impl RedisStore {
    /// Gives back what was charged, as [`RedisStore::refund`] does, but only in the run in which it
    /// was charged, and of a line only what time has not paid since it was asked for.
    ///
    /// As if it had been given back when it was asked for, or less: a line that had met zero in
    /// between would have paid no more than that. Whether it came back: the slot of a queue does
    /// not if others stand behind it, or if its time is over.
    pub(crate) async fn refund_since(
        &self,
        rule: &FleetRule,
        key: &FleetKey,
        receipt: &Receipt,
        since: Since,
    ) -> Result<bool, StoreError> {
        let late = self.now().since(since.asked);
        let does = Does::Refund { at: receipt.at(), late, run: since.run };
        let charge = FleetCharge { rule, key, cost: rule.worth(receipt) };
        let done = self.change(does, charge, self.deadline()).await?;
        Ok(matches!(done, Reply::Refunded(true)))
    }

    /// The present run of the servers: to be noted before something is charged.
    pub(crate) fn run_now(&self) -> ServerRun {
        self.gather.wire().run_now()
    }

    /// The clock by which it is counted how late something is.
    pub(crate) fn now(&self) -> Tick {
        self.gather.now()
    }

    /// The runtime that its connections are on.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.gather.runtime
    }
}
