//! What is charged without asking, and given back without a receipt.

use tidegate_core::{Debited, Kind, NothingToDebit, Tick};

use super::{FleetCharge, RedisStore, no_decision};
use crate::failure::StoreError;
use crate::gather::Reply;
use crate::plan::Does;
use crate::rule::FleetRule;
use tidegate_store::TextKey as FleetKey;

impl RedisStore {
    /// Charges what has happened in full, also beyond the limit: see
    /// [`Policy::debit`](tidegate_core::Policy::debit).
    pub async fn debit(
        &self,
        rule: &FleetRule,
        key: &FleetKey,
        cells: u32,
    ) -> Result<Debited, StoreError> {
        self.debit_by(FleetCharge { rule, key, cost: cells }, self.deadline()).await
    }

    /// As `debit`, but before `deadline`, by our own clock.
    pub(crate) async fn debit_by(
        &self,
        charge: FleetCharge<'_>,
        deadline: Tick,
    ) -> Result<Debited, StoreError> {
        if !charge.rule.policy().kind().has_debits() {
            return Err(StoreError::NothingToDebit(NothingToDebit));
        }
        let Reply::Debited(debits) = self.change(Does::Debit, charge, deadline).await? else {
            return Err(no_decision());
        };
        debits.into_iter().next().ok_or_else(no_decision)
    }

    /// Gives back up to `cells` without a receipt: see
    /// [`Policy::give_back`](tidegate_core::Policy::give_back).
    pub async fn give_back(
        &self,
        rule: &FleetRule,
        key: &FleetKey,
        cells: u32,
    ) -> Result<(), StoreError> {
        if matches!(rule.policy().kind(), Kind::Concurrency | Kind::LeakyQueue) {
            return Ok(());
        }
        let charge = FleetCharge { rule, key, cost: cells };
        self.change(Does::GiveBack, charge, self.deadline()).await.map(drop)
    }
}
