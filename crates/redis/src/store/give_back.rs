//! What is given back later than it was asked for, or after a server has lost its data.

use tidegate_core::Receipt;
use tokio::runtime::Handle;

use super::{FleetCharge, RedisStore};
use crate::failure::StoreError;
use crate::gather::Reply;
use crate::plan::Does;
use crate::rule::FleetRule;
use crate::wire::ServerRun;
use tidegate_store::TextKey as FleetKey;

impl RedisStore {
    /// Gives back what was charged, as [`RedisStore::refund`] does, but only in the run in which it
    /// was charged; anywhere for a permit, whose receipt names the permit itself.
    ///
    /// However late it is sent: what time has paid meanwhile does not come back. Whether it came
    /// back: the slot of a queue does not if others stand behind it, or if its time is over.
    pub(crate) async fn refund_in(
        &self,
        rule: &FleetRule,
        key: &FleetKey,
        receipt: &Receipt,
        run: Option<ServerRun>,
    ) -> Result<bool, StoreError> {
        let does = Does::Refund { at: receipt.at(), run };
        let charge = FleetCharge { rule, key, cost: rule.worth(receipt) };
        let done = self.change(does, charge, self.deadline()).await?;
        Ok(matches!(done, Reply::Refunded(true)))
    }

    /// The present run of the servers: to be noted before something is charged.
    pub(crate) fn run_now(&self) -> ServerRun {
        self.gather.wire().run_now()
    }

    /// The runtime that its connections are on.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.gather.runtime
    }
}
