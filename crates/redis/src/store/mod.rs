//! The store: decisions by scripts, where the whole fleet sees them.

mod across;
mod batch;
mod build;
mod carry;
mod debit;
mod factor;
mod give_back;
mod judged;
mod nodes;
mod prefix;
mod renew;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, Policy, Receipt, Span, Tick};

pub use self::build::StoreBuilder;
pub use self::judged::Judged;
use self::prefix::Prefix;
use crate::call::{Limit, Limits, Request};
use crate::error::ConnectError;
use crate::failure::StoreError;
use crate::found::{LIMITS_MAX, One};
use crate::gather::{Decided, Gather, Reply};
use crate::plan::Does;
use crate::rule::FleetRule;
use crate::settings::Settings;
use crate::tally::Tally;
use crate::wire::slot_of;
use tidegate_store::Health;
use tidegate_store::TextKey as FleetKey;

/// Keeps states in Redis or Valkey, and decides there: one round trip, atomic, by its clock.
///
/// It needs a Tokio runtime. Clones share the connections. It says when Redis did not decide; a
/// [`Fleet`](crate::Fleet) knows what to do then.
///
/// ```no_run
/// use tidegate_core::{Policy, Quota};
/// use tidegate_redis::{FleetKey, RedisStore};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::connect("redis://127.0.0.1:6379").await?;
/// let rule = store.rule("per-client", Policy::token_bucket(Quota::per_minute(100))?);
/// let decision = store.decide(&rule, &FleetKey::new("ada")?, 1).await?;
/// println!("{} left", decision.remaining);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore {
    gather: Arc<Gather>,
    prefix: Prefix,
    /// How long a decision may take.
    deadline: Span,
}

/// One of the limits that a request has to pass.
#[derive(Clone, Copy, Debug)]
pub struct FleetCharge<'a> {
    /// By which rule.
    pub rule: &'a FleetRule,
    /// Which key it counts.
    pub key: &'a FleetKey,
    /// How many cells.
    pub cost: u32,
}

impl RedisStore {
    /// The most limits that one request is judged by.
    pub const LIMITS_MAX: usize = LIMITS_MAX;

    /// Connects to `url`, with everything else as it usually is.
    pub async fn connect(url: &str) -> Result<RedisStore, ConnectError> {
        RedisStore::builder(Settings::from_url(url)?).connect().await
    }

    /// A store with settings of your choice.
    pub fn builder(settings: Settings) -> StoreBuilder {
        StoreBuilder::new(settings)
    }

    /// A rule. The name and the policy are all that nodes have to agree on.
    pub fn rule(&self, name: &str, policy: Policy) -> FleetRule {
        FleetRule::new(name, policy)
    }

    /// This store, with another deadline for every call.
    #[must_use]
    pub fn within(&self, deadline: Duration) -> RedisStore {
        RedisStore { deadline: deadline.into(), ..self.clone() }
    }

    /// Decides one request, and charges it if it passes.
    pub async fn decide(
        &self,
        rule: &FleetRule,
        key: &FleetKey,
        cost: u32,
    ) -> Result<Decision, StoreError> {
        Ok(self.decide_with_receipt(rule, key, cost).await?.0)
    }

    /// As [`RedisStore::decide`]; the receipt is for what passed, and can be refunded once.
    pub async fn decide_with_receipt(
        &self,
        rule: &FleetRule,
        key: &FleetKey,
        cost: u32,
    ) -> Result<(Decision, Option<Receipt>), StoreError> {
        let judged = self.decide_all(&[FleetCharge { rule, key, cost }]).await?;
        let One { decision, receipt, .. } = judged.into_first();
        Ok((decision, receipt))
    }

    /// Decides one request by several limits: all are charged, or none.
    ///
    /// In a cluster, limits of different tenants live in different places. Then all are asked
    /// first, and charged in a second round trip; what was charged is given back if one of them has
    /// filled up in between. More than [`RedisStore::LIMITS_MAX`] limits never pass, nor does a
    /// request that names one key of one rule twice.
    pub async fn decide_all(&self, charges: &[FleetCharge<'_>]) -> Result<Judged, StoreError> {
        self.judge(Does::Decide, charges, || self.deadline()).await
    }

    /// As `decide_all`, but before `deadline`, by our own clock.
    pub(crate) async fn decide_all_by(
        &self,
        charges: &[FleetCharge<'_>],
        deadline: Tick,
    ) -> Result<Judged, StoreError> {
        self.judge(Does::Decide, charges, || deadline).await
    }

    /// What [`RedisStore::decide_all`] would answer, without charging.
    pub async fn peek_all(&self, charges: &[FleetCharge<'_>]) -> Result<Judged, StoreError> {
        self.judge(Does::Peek, charges, || self.deadline()).await
    }

    /// What [`RedisStore::decide`] would answer, without charging.
    pub async fn peek(
        &self,
        rule: &FleetRule,
        key: &FleetKey,
        cost: u32,
    ) -> Result<Decision, StoreError> {
        let judged = self.peek_all(&[FleetCharge { rule, key, cost }]).await?;
        Ok(judged.into_first().decision)
    }

    /// Gives back what was charged: never above full, never into another window. Where less of the
    /// quota is given out since, it is what the cells are worth now.
    ///
    /// Whatever comes of it, the receipt is used up: what may have been given back is never given
    /// back again.
    pub async fn refund(
        &self,
        rule: &FleetRule,
        key: &FleetKey,
        receipt: Receipt,
    ) -> Result<(), StoreError> {
        let charge = FleetCharge { rule, key, cost: rule.worth(&receipt) };
        self.change(Does::refund(&receipt), charge, self.deadline()).await.map(drop)
    }

    /// Makes a key fresh.
    pub async fn reset(&self, rule: &FleetRule, key: &FleetKey) -> Result<(), StoreError> {
        let deadline = self.deadline();
        self.change(Does::Reset, FleetCharge { rule, key, cost: 0 }, deadline).await.map(drop)
    }

    /// How the connections are.
    pub fn health(&self) -> Health {
        self.gather.wire().health()
    }

    /// How many servers are left alone just now, because they failed several times in a row.
    pub fn resting(&self) -> usize {
        self.gather.resting()
    }

    pub(crate) fn tally(&self) -> &Tally {
        self.gather.tally()
    }

    /// Whether Redis would be asked about `key` just now, or is left alone.
    pub fn is_asked(&self, rule: &FleetRule, key: &FleetKey) -> bool {
        let request = self.request(Does::Peek, &[FleetCharge { rule, key, cost: 0 }]);
        self.gather.is_asked(request.slot)
    }

    /// The tick by which a decision that begins now is made, by our own clock.
    pub(crate) fn deadline(&self) -> Tick {
        self.gather.deadline(self.deadline)
    }

    /// How long there is until then.
    pub(crate) fn left(&self, deadline: Tick) -> Duration {
        self.gather.left(deadline)
    }

    /// The server's clock, as far as it is known here.
    pub(crate) fn server_now(&self) -> Tick {
        self.gather.server_now()
    }

    /// Has all limits judge. What is remembered takes no time, and asks for no deadline.
    async fn judge(
        &self,
        does: Does,
        charges: &[FleetCharge<'_>],
        deadline: impl FnOnce() -> Tick,
    ) -> Result<Judged, StoreError> {
        if charges.is_empty() || LIMITS_MAX < charges.len() {
            return Ok(Judged::never());
        }
        if does == Does::Decide
            && let Some(refused) = self.remembered(charges)
        {
            return Ok(refused);
        }
        let deadline = deadline();
        if let Some(answer) = self.gather.join(does, charges, deadline) {
            let judged = answer.await.and_then(decided).map(Judged::from);
            return self.gather.tally().hears(judged);
        }
        let request = self.request(does, charges);
        if request.names_one_twice() {
            return Ok(Judged::never());
        }
        let judged = if self.gather.wire().is_cluster() && 1 < request.limits.len() {
            // Large, and only in a cluster: all others need not carry it along.
            Box::pin(across::judge(self, does, request, deadline)).await
        } else {
            self.ask(request, deadline).await.map(Judged::from)
        };
        self.gather.tally().hears(judged)
    }

    /// The answer, if it has been refused lately and only time can change that.
    fn remembered(&self, charges: &[FleetCharge<'_>]) -> Option<Judged> {
        let remembered = self.gather.refusals().answer(charges, || self.gather.now());
        remembered.map(|(verdict, answers)| Judged { verdict, answers, is_remembered: true })
    }

    /// Does what needs no judging; it may free something that was refused.
    async fn change(
        &self,
        does: Does,
        charge: FleetCharge<'_>,
        deadline: Tick,
    ) -> Result<Reply, StoreError> {
        let request = self.request(does, &[charge]);
        self.gather.refusals().forget(&request, self.gather.now());
        let done = self.reply(request.clone(), deadline).await;
        // Once more: what was asked meanwhile may have been refused before this was done.
        self.gather.refusals().forget(&request, self.gather.now());
        self.gather.tally().hears(done)
    }

    /// Has Redis decide, and carries states over from former policies as it finds them.
    async fn ask(&self, request: Request, deadline: Tick) -> Result<Decided, StoreError> {
        self.reply(request, deadline).await.and_then(decided)
    }

    /// As `ask`, for anything that is to be done there.
    async fn reply(&self, request: Request, deadline: Tick) -> Result<Reply, StoreError> {
        let changed = request.limits.iter().any(|limit| !limit.formers().is_empty());
        if !changed {
            return self.gather.ask(request, deadline).await;
        }
        // Large, and seldom: all others need not carry it along.
        Box::pin(self.reply_after_change(request, deadline)).await
    }

    /// As `reply`, for rules whose policies were others before.
    async fn reply_after_change(
        &self,
        request: Request,
        deadline: Tick,
    ) -> Result<Reply, StoreError> {
        // Each round carries over all that it finds; only others who do the same cause another.
        for _ in 0..CARRIES_MAX {
            match self.gather.ask(request.clone(), deadline).await? {
                Reply::Elsewhere { judged, kept } => {
                    self.carry(&request, (judged, kept), deadline).await?;
                }
                done => return Ok(done),
            }
        }
        Err(StoreError::NotCharged("others change the same key all the time".into()))
    }

    fn request(&self, does: Does, charges: &[FleetCharge<'_>]) -> Request {
        let limit = |charge: &FleetCharge<'_>| Limit {
            rule: charge.rule.clone(),
            place: charge.rule.place(self.prefix(), charge.key),
            cost: charge.cost,
            formers: charge.rule.formers_alive(|| self.gather.server_now()),
        };
        let limits: Limits = charges.iter().map(limit).collect();
        let slot = match &limits[..] {
            [first, ..] if self.gather.wire().is_cluster() => slot_of(&first.place.name),
            _ => 0,
        };
        Request { does, slot, limits }
    }
}

fn decided(reply: Reply) -> Result<Decided, StoreError> {
    match reply {
        Reply::Decided(decided) => Ok(decided),
        _ => Err(no_decision()),
    }
}

/// An answer to something else than was asked.
fn no_decision() -> StoreError {
    StoreError::Damaged("no decision where one was asked for".into())
}

/// How often a request is asked again because states were carried over.
const CARRIES_MAX: usize = 5;

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore").field("health", &self.health()).finish_non_exhaustive()
    }
}
