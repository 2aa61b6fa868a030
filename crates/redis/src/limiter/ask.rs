//! One request to a fleet's limiter, said in full.

use smallvec::SmallVec;
use tidegate_core::{Decision, Verdict};
use tidegate_store::KeyTooLong;

use super::rule::{NamedRule, Present, Scope};
use super::{By, FleetAnswer, FleetLimiter, FleetPass};
use crate::failure::StoreError;
use crate::key::{FleetKey, KeyPart};
use crate::store::{FleetCharge, Judged};

/// A request that has not been decided yet.
#[derive(Clone, Debug)]
#[must_use = "nothing has been decided yet"]
pub struct FleetAsk<'a> {
    pub(super) limiter: &'a FleetLimiter,
    key: Result<FleetKey, KeyTooLong>,
    cost: u32,
    others: SmallVec<[(usize, Result<FleetKey, KeyTooLong>); 1]>,
    /// Whether a key was given for a rule that there is not.
    misnamed: bool,
}

/// One rule's part in a request.
pub(super) struct Part<'a> {
    pub(super) named: &'a NamedRule,
    pub(super) present: Present,
    pub(super) key: FleetKey,
}

pub(super) type Parts<'a> = SmallVec<[Part<'a>; 1]>;

impl<'a> FleetAsk<'a> {
    pub(super) fn new(limiter: &'a FleetLimiter, key: impl KeyPart) -> FleetAsk<'a> {
        let key = FleetKey::new(key);
        FleetAsk { limiter, key, cost: 1, others: SmallVec::new(), misnamed: false }
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

    /// Another key for one of the rules. With a name that no rule has, the request never passes.
    pub fn key_for(self, rule: &str, key: impl KeyPart) -> FleetAsk<'a> {
        self.other(rule, FleetKey::new(key))
    }

    /// The same for a key of a tenant.
    pub fn key_in_tenant_for(
        self,
        rule: &str,
        tenant: impl KeyPart,
        key: impl KeyPart,
    ) -> FleetAsk<'a> {
        self.other(rule, FleetKey::in_tenant(tenant, key))
    }

    fn other(mut self, rule: &str, key: Result<FleetKey, KeyTooLong>) -> FleetAsk<'a> {
        match self.limiter.inner.rules.iter().position(|named| named.name() == rule) {
            None => self.misnamed = true,
            Some(index) => {
                self.others.retain(|(other, _)| *other != index);
                self.others.push((index, key));
            }
        }
        self
    }

    /// Decides, and charges every rule if all let it pass.
    pub async fn decide(self) -> FleetAnswer<'a> {
        match self.parts() {
            Some(parts) => self.charged(&parts).await.0,
            None => self.never(),
        }
    }

    /// What [`FleetAsk::decide`] would answer, without charging.
    pub async fn peek(self) -> FleetAnswer<'a> {
        let Some(parts) = self.parts() else { return self.never() };
        match self.limiter.inner.store.peek_all(&self.charges(&parts)).await {
            Ok(judged) => self.answer(&judged),
            Err(error) => self.without_store(&parts, &error, false).0,
        }
    }

    /// Decides, and hands out a [`FleetPass`] that can be given back.
    ///
    /// Dropping it gives back what counts concurrency; everything else stays charged unless it is
    /// refunded.
    pub async fn enter(self) -> Result<FleetPass, FleetAnswer<'a>> {
        let Some(parts) = self.parts() else { return Err(self.never()) };
        let (answer, charged) = self.charged(&parts).await;
        if answer.verdict.passes() {
            let (decision, by) = (answer.decision(), answer.by);
            Ok(FleetPass::new(self.limiter.clone(), decision, by, charged))
        } else {
            Err(answer)
        }
    }

    pub(super) async fn reset(self) -> Result<(), StoreError> {
        let Some(parts) = self.parts() else { return Ok(()) };
        let inner = &self.limiter.inner;
        for part in parts.iter().filter(|part| matches!(part.named.scope(), Scope::Each)) {
            if let Ok(key) = inner.local.key((part.key.tag(), part.key.text())) {
                inner.local.reset(&part.present.local, key);
                inner.local.reset(&part.present.owed, key);
            }
            inner.store.reset(&part.present.rule, &part.key).await?;
        }
        Ok(())
    }

    /// Decides by Redis, or without it.
    async fn charged(&self, parts: &Parts<'a>) -> (FleetAnswer<'a>, Charged) {
        let rest = match self.repay(parts).await {
            Ok(rest) => rest,
            // One deadline is for all of it: who has not taken the debt is not asked further.
            Err(error) => return self.without_store(parts, &error, true),
        };
        let store = rest.as_ref().unwrap_or(&self.limiter.inner.store);
        match store.decide_all(&self.charges(parts)).await {
            Ok(judged) => {
                let answer = self.answer(&judged);
                let receipts = judged.into_receipts().enumerate();
                let charged = receipts.filter_map(|(index, receipt)| {
                    let Part { present, key, .. } = &parts[index];
                    receipt.map(|receipt| (present.rule.clone(), *key, receipt))
                });
                (answer, Charged::Store(charged.collect()))
            }
            Err(error) => self.without_store(parts, &error, true),
        }
    }

    fn answer(&self, judged: &Judged) -> FleetAnswer<'a> {
        let by = if judged.is_remembered() { By::Remembered } else { By::Store };
        self.limiter.inner.counts.add(by);
        let each = judged.each().copied().collect();
        FleetAnswer { limiter: self.limiter, verdict: judged.verdict(), by, each }
    }

    pub(super) fn charges<'p>(&self, parts: &'p Parts<'a>) -> SmallVec<[FleetCharge<'p>; 1]> {
        let charge = |part: &'p Part<'a>| FleetCharge {
            rule: &part.present.rule,
            key: &part.key,
            cost: self.cost,
        };
        parts.iter().map(charge).collect()
    }

    pub(super) fn cells(&self) -> u32 {
        self.cost
    }

    /// Every rule with its key; `None` if one of them is too long or for a rule there is not.
    fn parts(&self) -> Option<Parts<'a>> {
        if self.misnamed {
            return None;
        }
        let part = |(index, named): (usize, &'a NamedRule)| {
            let other = self.others.iter().find(|(other, _)| *other == index);
            let key = match (other, named.scope()) {
                (Some((_, key)), _) => key.ok()?,
                (None, Scope::All(key)) => key,
                (None, Scope::Each) => self.key.ok()?,
            };
            Some(Part { named, present: named.present(), key })
        };
        self.limiter.inner.rules.iter().enumerate().map(part).collect()
    }

    /// What cannot be asked never passes.
    fn never(&self) -> FleetAnswer<'a> {
        let (verdict, by, each) = (Verdict::Never, By::Store, SmallVec::<[Decision; 1]>::new());
        FleetAnswer { limiter: self.limiter, verdict, by, each }
    }
}

/// What was charged, and where it is to be given back.
pub(super) enum Charged {
    Store(Vec<(crate::rule::FleetRule, FleetKey, tidegate_core::Receipt)>),
    Local(Vec<(std::sync::Arc<tidegate_store::Rule>, tidegate_store::Key, tidegate_core::Receipt)>),
}
