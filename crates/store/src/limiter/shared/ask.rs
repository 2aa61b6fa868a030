//! One request to a limiter on any store, said in full.

use std::hash::Hash;

use smallvec::SmallVec;
use tidegate_core::Kind;

use super::{Inner, LimiterRule, Scope, SharedLimiter, SharedPass, SharedRule};
use crate::key::{KeyTooLong, Keys};
use crate::later::Later;
use crate::limiter::Answer;
use crate::limiter::rule::UnknownRule;
use crate::store::{Judgment, LimitCharge, Place, Store, StoreFailure, StoreKey, StoreLimit, Verb};
use crate::text_key::{KeyPart, TextKey};

/// A request to a [`SharedLimiter`] that has not been decided yet.
#[derive(Clone, Debug)]
#[must_use = "nothing has been decided yet"]
pub struct SharedAsk<'a> {
    limiter: &'a SharedLimiter,
    key: Result<StoreKey, KeyTooLong>,
    cost: u32,
    others: SmallVec<[(usize, Result<StoreKey, KeyTooLong>); 1]>,
}

/// What is asked of one rule.
#[derive(Debug)]
pub(super) struct AskedRule {
    pub(super) limit: StoreLimit,
    pub(super) key: StoreKey,
    /// Whether it hands out permits, which come back.
    pub(super) lends: bool,
}

impl AskedRule {
    pub(super) fn place(&self) -> Place<'_> {
        Place { limit: &self.limit, key: &self.key }
    }
}

impl<'a> SharedAsk<'a> {
    pub(super) fn new(limiter: &'a SharedLimiter, key: impl KeyPart + Hash) -> SharedAsk<'a> {
        let key = key_of(&*limiter.inner.store, key);
        SharedAsk { limiter, key, cost: 1, others: SmallVec::new() }
    }

    /// Whose key it is. All limits of a tenant live in one place of a cluster, and are judged in
    /// one round trip; without this, each key is its own tenant.
    pub fn in_tenant(
        mut self,
        tenant: impl KeyPart + Hash,
        key: impl KeyPart + Hash,
    ) -> SharedAsk<'a> {
        self.key = key_in_tenant(&*self.limiter.inner.store, tenant, key);
        self
    }

    /// What the request costs, in cells. Without it, one; with zero, it only looks.
    pub fn cost(mut self, cells: u32) -> SharedAsk<'a> {
        self.cost = cells;
        self
    }

    /// Another key for one of the rules.
    pub fn key_for(
        self,
        rule: &str,
        key: impl KeyPart + Hash,
    ) -> Result<SharedAsk<'a>, UnknownRule> {
        let key = key_of(&*self.limiter.inner.store, key);
        self.other(rule, key)
    }

    /// A tenant's key for one of the rules.
    pub fn key_in_tenant_for(
        self,
        rule: &str,
        tenant: impl KeyPart + Hash,
        key: impl KeyPart + Hash,
    ) -> Result<SharedAsk<'a>, UnknownRule> {
        let key = key_in_tenant(&*self.limiter.inner.store, tenant, key);
        self.other(rule, key)
    }

    fn other(
        mut self,
        rule: &str,
        key: Result<StoreKey, KeyTooLong>,
    ) -> Result<SharedAsk<'a>, UnknownRule> {
        let index = self.limiter.inner.rules.find(rule)?;
        self.others.retain(|(other, _)| *other != index);
        self.others.push((index, key));
        Ok(self)
    }

    /// Decides, and charges every rule if all let it pass.
    pub async fn decide(self) -> Answer<'a> {
        self.answer(Verb::Decide).await
    }

    /// What [`SharedAsk::decide`] would answer, without charging.
    pub async fn peek(self) -> Answer<'a> {
        self.answer(Verb::Peek).await
    }

    /// Decides, and hands out a [`SharedPass`] that can be given back.
    ///
    /// Dropping it gives back what counts concurrency; everything else stays charged unless it is
    /// refunded.
    pub async fn enter(self) -> Result<SharedPass, Answer<'a>> {
        let names = &self.limiter.inner.rules.names;
        let Some(asked) = self.asked() else { return Err(Answer::never(names)) };
        let judgment = self.judge(&asked, Verb::Decide).await;
        let (verdict, by) = (judgment.verdict, judgment.by);
        let answer = Answer::new(names, (verdict, by), judgment.limits.iter().map(|it| it.0));
        if !verdict.passes() {
            return Err(answer);
        }
        let charged = asked.into_iter().zip(judgment.limits.into_iter().map(|it| it.1)).collect();
        Ok(SharedPass::new(self.limiter, (answer.decision(), by), charged))
    }

    pub(super) async fn reset(self) -> Result<(), StoreFailure> {
        let Some(asked) = self.asked() else { return Ok(()) };
        for (rule, asked) in self.limiter.inner.rules.each.iter().zip(&asked) {
            if rule.scope() == Scope::Each {
                self.limiter.inner.store.reset(asked.place()).await?;
            }
        }
        Ok(())
    }

    /// What was charged stands, permits too: a caller who wants them back enters.
    async fn answer(self, verb: Verb) -> Answer<'a> {
        let names = &self.limiter.inner.rules.names;
        let Some(asked) = self.asked() else { return Answer::never(names) };
        let Judgment { verdict, by, limits } = self.judge(&asked, verb).await;
        let each = limits.into_iter().map(|(decision, charged)| {
            charged.stand();
            decision
        });
        Answer::new(names, (verdict, by), each)
    }

    fn judge(&self, asked: &[AskedRule], verb: Verb) -> Later<Judgment> {
        let places = asked.iter().map(AskedRule::place);
        let charges = places.map(|at| LimitCharge { at, cost: self.cost });
        let charges: SmallVec<[LimitCharge<'_>; 2]> = charges.collect();
        let Inner { store, clock, .. } = &*self.limiter.inner;
        store.judge(&charges, verb, store.now(&**clock))
    }

    /// What every rule is asked; `None` if one of the keys is too long.
    fn asked(&self) -> Option<SmallVec<[AskedRule; 1]>> {
        let asked = |(index, rule): (usize, &LimiterRule<SharedRule>)| {
            let other = self.others.iter().find(|(other, _)| *other == index);
            let rule = rule.present();
            let key = match (other, &rule.everybody) {
                (Some((_, key)), _) => key.clone().ok()?,
                (None, Some(everybody)) => everybody.clone(),
                (None, None) => self.key.clone().ok()?,
            };
            let lends = rule.kind == Kind::Concurrency;
            Some(AskedRule { limit: rule.limit.clone(), key, lends })
        };
        self.limiter.inner.rules.each.iter().enumerate().map(asked).collect()
    }
}

fn key_of(store: &dyn Store, key: impl KeyPart + Hash) -> Result<StoreKey, KeyTooLong> {
    store.key_form().key(|keys| keys.key(&key), || TextKey::new(&key))
}

fn key_in_tenant(
    store: &dyn Store,
    tenant: impl KeyPart + Hash,
    key: impl KeyPart + Hash,
) -> Result<StoreKey, KeyTooLong> {
    let hash = |keys: &Keys| keys.key(("in tenant", &tenant, &key));
    store.key_form().key(hash, || TextKey::in_tenant(&tenant, &key))
}
