//! One request to a fleet's limiter, said in full.

use smallvec::SmallVec;
use tidegate_core::Verdict;
use tidegate_store::{By, KeyTooLong, UnknownRule};

use super::rule::{NamedRule, Scope};
use super::{FleetAnswer, FleetLimiter, FleetPass};
use crate::failure::StoreError;
use crate::fleet::{Decisions, FleetDecided, SharedCharge};
use tidegate_store::{KeyPart, TextKey as FleetKey};

/// A request that has not been decided yet.
#[derive(Clone, Debug)]
#[must_use = "nothing has been decided yet"]
pub struct FleetAsk<'a> {
    pub(super) limiter: &'a FleetLimiter,
    key: Result<FleetKey, KeyTooLong>,
    cost: u32,
    others: SmallVec<[(usize, Result<FleetKey, KeyTooLong>); 1]>,
}

/// The key of each rule.
type RuleKeys = SmallVec<[FleetKey; 1]>;

impl<'a> FleetAsk<'a> {
    pub(super) fn new(limiter: &'a FleetLimiter, key: impl KeyPart) -> FleetAsk<'a> {
        let key = FleetKey::new(key);
        FleetAsk { limiter, key, cost: 1, others: SmallVec::new() }
    }

    /// Whose key it is. All limits of a tenant live in one place of a cluster, and are judged in
    /// one round trip; without this, each key is its own tenant.
    pub fn in_tenant(mut self, tenant: impl KeyPart, key: impl KeyPart) -> FleetAsk<'a> {
        self.key = FleetKey::in_tenant(tenant, key);
        self
    }

    /// What the request costs, in cells. Without it, one; with zero, it only looks.
    pub fn cost(mut self, cells: u32) -> FleetAsk<'a> {
        self.cost = cells;
        self
    }

    /// Another key for one of the rules.
    pub fn key_for(self, rule: &str, key: impl KeyPart) -> Result<FleetAsk<'a>, UnknownRule> {
        self.other(rule, FleetKey::new(key))
    }

    /// The same for a key of a tenant.
    pub fn key_in_tenant_for(
        self,
        rule: &str,
        tenant: impl KeyPart,
        key: impl KeyPart,
    ) -> Result<FleetAsk<'a>, UnknownRule> {
        self.other(rule, FleetKey::in_tenant(tenant, key))
    }

    fn other(
        mut self,
        rule: &str,
        key: Result<FleetKey, KeyTooLong>,
    ) -> Result<FleetAsk<'a>, UnknownRule> {
        let index = UnknownRule::find(rule, self.limiter.rules.iter().map(NamedRule::name))?;
        self.others.retain(|(other, _)| *other != index);
        self.others.push((index, key));
        Ok(self)
    }

    /// Decides, and charges every rule if all let it pass.
    pub async fn decide(self) -> FleetAnswer<'a> {
        let Some(keys) = self.keys() else { return self.never() };
        let decided = self.limiter.fleet.decide(&self.charges(&keys)).await;
        self.answer(decided)
    }

    /// What [`FleetAsk::decide`] would answer, without charging.
    pub async fn peek(self) -> FleetAnswer<'a> {
        let Some(keys) = self.keys() else { return self.never() };
        let decided = self.limiter.fleet.peek(&self.charges(&keys)).await;
        self.answer(decided)
    }

    /// Decides, and hands out a [`FleetPass`] that can be given back.
    ///
    /// Dropping it gives back what counts concurrency; everything else stays charged unless it is
    /// refunded.
    pub async fn enter(self) -> Result<FleetPass, FleetAnswer<'a>> {
        let Some(keys) = self.keys() else { return Err(self.never()) };
        let decided = self.limiter.fleet.decide(&self.charges(&keys)).await;
        if decided.verdict.passes() {
            Ok(FleetPass::new(&self.limiter.fleet, decided))
        } else {
            Err(self.answer(decided))
        }
    }

    pub(super) async fn reset(self) -> Result<(), StoreError> {
        let Some(keys) = self.keys() else { return Ok(()) };
        for (named, key) in self.limiter.rules.iter().zip(&keys) {
            if matches!(named.scope, Scope::Each) {
                self.limiter.fleet.reset(&named.shared, key).await?;
            }
        }
        Ok(())
    }

    /// What was charged stands, permits too: whoever wants them back enters.
    fn answer(&self, decided: FleetDecided) -> FleetAnswer<'a> {
        let FleetDecided { verdict, by, each, receipts } = decided;
        receipts.keep();
        FleetAnswer { limiter: self.limiter, verdict, by, each }
    }

    fn charges<'k>(&self, keys: &'k RuleKeys) -> SmallVec<[SharedCharge<'k>; 1]>
    where
        'a: 'k,
    {
        let charge = |(named, key): (&'a NamedRule, &'k FleetKey)| SharedCharge {
            rule: &named.shared,
            key,
            cost: self.cost,
        };
        self.limiter.rules.iter().zip(keys).map(charge).collect()
    }

    /// The key of every rule; `None` if one of them is too long.
    fn keys(&self) -> Option<RuleKeys> {
        let key = |(index, named): (usize, &NamedRule)| {
            let other = self.others.iter().find(|(other, _)| *other == index);
            match (other, named.scope) {
                (Some((_, key)), _) => key.ok(),
                (None, Scope::All(key)) => Some(key),
                (None, Scope::Each) => self.key.ok(),
            }
        };
        self.limiter.rules.iter().enumerate().map(key).collect()
    }

    /// What cannot be asked never passes.
    fn never(&self) -> FleetAnswer<'a> {
        let (verdict, by, each) = (Verdict::Never, By::Store, Decisions::new());
        FleetAnswer { limiter: self.limiter, verdict, by, each }
    }
}
