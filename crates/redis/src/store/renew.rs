//! Permits that are held for longer than one lease.

use tidegate_core::{Kind, Receipt};

use super::{FleetCharge, RedisStore};
use crate::failure::StoreError;
use crate::gather::Reply;
use crate::plan::Does;
use crate::rule::FleetRule;
use tidegate_store::TextKey as FleetKey;

impl RedisStore {
    /// Renews a permit: if it is still held, it lapses one period from now, and the receipt is made
    /// that of the renewed permit. Otherwise, or if the rule is not one of concurrency, `false`.
    ///
    /// After an error the receipt is as it was. If Redis has not answered, the permit may have been
    /// renewed all the same: then this receipt is void, and the permit is held until it lapses.
    pub async fn renew(
        &self,
        rule: &FleetRule,
        key: &FleetKey,
        receipt: &mut Receipt,
    ) -> Result<bool, StoreError> {
        if rule.policy().kind() != Kind::Concurrency || receipt.cost() == 0 {
            return Ok(false);
        }
        let charge = FleetCharge { rule, key, cost: receipt.cost() };
        let does = Does::Renew { at: receipt.at() };
        let Reply::Renewed(renewed) = self.change(does, charge, self.deadline()).await? else {
            return Ok(false);
        };
        let renewed = renewed.into_iter().next().flatten();
        let is_held = renewed.is_some();
        if let Some(renewed) = renewed {
            *receipt = renewed;
        }
        Ok(is_held)
    }
}
