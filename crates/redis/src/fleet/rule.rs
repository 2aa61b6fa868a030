//! The rules of a fleet, and what each does without Redis.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use tidegate_core::{
    Applied, Grains, Kind, Policy, Quota, QuotaError, Shape, Span, Tick, WithoutStore,
};
use tidegate_store::{ChangeError, MemoryStore, Rule};

use super::owed::Owed;
use crate::rule::FleetRule;

/// A rule of a [`Fleet`](super::Fleet), and what it does without Redis. Clones are the same rule.
///
/// Made by [`Fleet::rule`](super::Fleet::rule), and only good for that fleet.
#[derive(Clone)]
pub struct SharedRule(Arc<Inner>);

struct Inner {
    /// Tells it from all other rules of its fleet, whatever they are called.
    number: u64,
    name: Box<str>,
    without: WithoutStore,
    /// Together with what it was called before, or did without Redis.
    present: Arc<RwLock<Arc<Present>>>,
}

/// A rule as it is now.
pub(super) struct Present {
    pub(super) rule: FleetRule,
    /// By which this node decides while Redis does not answer.
    pub(super) local: Arc<Rule>,
    /// What it let pass then, and Redis has not been told of.
    pub(super) owed: Arc<Rule>,
}

/// What tick it is, by the clocks that states are counted by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) here: Tick,
    pub(super) in_redis: Tick,
}

impl SharedRule {
    pub(super) fn new(
        rule: FleetRule,
        (number, without): (u64, WithoutStore),
        share: Policy,
        stores: (&MemoryStore, &Owed),
    ) -> Result<SharedRule, ChangeError> {
        let (local, owed) = stores;
        let applied = Applied { policy: share, whole: rule.applied().whole };
        let local = local.rule_of(applied).map(Arc::new).map_err(ChangeError::TooMany)?;
        let owed = owed.rule(applied).map(Arc::new).map_err(ChangeError::TooMany)?;
        Ok(SharedRule::of(Present { rule, local, owed }, number, without))
    }

    pub(super) fn of(present: Present, number: u64, without: WithoutStore) -> SharedRule {
        let (name, present) = (present.rule.name().into(), RwLock::new(Arc::new(present)));
        SharedRule(Arc::new(Inner { number, name, without, present: Arc::new(present) }))
    }

    /// This rule under another name, or with something else to do without Redis. Those who hold the
    /// rule as it was go by what it becomes.
    pub(super) fn also(&self, name: &str, without: WithoutStore) -> SharedRule {
        let (number, present) = (self.0.number, Arc::clone(&self.0.present));
        SharedRule(Arc::new(Inner { number, name: name.into(), without, present }))
    }

    /// The rule's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The policy that it has now.
    pub fn policy(&self) -> Policy {
        *self.present().rule.policy()
    }

    /// What it does with a request that Redis does not answer.
    pub fn without(&self) -> WithoutStore {
        self.0.without
    }

    pub(super) fn number(&self) -> u64 {
        self.0.number
    }

    /// Whether `other` is the same rule.
    pub(super) fn is(&self, other: &SharedRule) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn is_local(&self) -> bool {
        matches!(self.0.without, WithoutStore::Local { .. })
    }

    pub(super) fn present(&self) -> Arc<Present> {
        Arc::clone(&self.0.present.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adjusts the rule that is used with Redis; the limit stays the same.
    pub(super) fn adjust(&self, adjust: impl FnOnce(&FleetRule) -> FleetRule) {
        let present = self.present();
        let (local, owed) = (Arc::clone(&present.local), Arc::clone(&present.owed));
        self.set(Present { rule: adjust(&present.rule), local, owed });
    }

    pub(super) fn set(&self, present: Present) {
        *self.0.present.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(present);
    }
}

impl fmt::Debug for SharedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("SharedRule");
        debug.field("name", &self.0.name).field("policy", &self.policy());
        debug.field("without", &self.0.without).finish_non_exhaustive()
    }
}

/// The policy of one node while Redis does not answer.
pub(super) fn share(policy: &Policy, without: WithoutStore) -> Result<Policy, QuotaError> {
    let WithoutStore::Local { nodes } = without else { return Ok(*policy) };
    let nodes = nodes.max(1);
    if nodes == 1 {
        return Ok(*policy);
    }
    let cells = |limit: u32| (limit / nodes).max(1);
    let share = match policy.shape() {
        Shape::Calendar { limit, boundaries } => Policy::calendar(cells(limit), boundaries),
        Shape::FixedWindow { limit, per }
        | Shape::Log { limit, per }
        | Shape::SlidingWindow { limit, per } => {
            Policy::new(policy.kind(), Quota::new(cells(limit), per))
        }
        Shape::Line(grains) => Policy::new(policy.kind(), share_of_line(&grains, nodes)),
    };
    let share = share?.with_refused(policy.refused())?;
    if policy.kind().has_burst() { share.with_overdraft(policy.overdraft()) } else { Ok(share) }
}

/// The rate of `grains` divided by `nodes`, never rounded up; the burst at least one cell.
fn share_of_line(grains: &Grains, nodes: u32) -> Quota {
    let mut cells = grains.tick();
    let mut per = u128::from(grains.cell()) * u128::from(nodes);
    // Both halved, cells down and time up, until they are in range: the rate only falls. Slower
    // than the slowest quota it cannot be.
    while u128::from(Quota::PER_MAX.get()) < per && 1 < cells {
        (cells, per) = (cells / 2, per.div_ceil(2));
    }
    let per = u64::try_from(per).unwrap_or(u64::MAX).min(Quota::PER_MAX.get());
    let cells = u32::try_from(cells).unwrap_or(u32::MAX);
    Quota::new(cells, Span::from_micros(per)).burst((grains.burst() / nodes).max(1))
}

/// Whether a rule hands out permits that come back.
pub(super) fn lends(rule: &FleetRule) -> bool {
    rule.policy().kind() == Kind::Concurrency
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(kind: Kind, quota: Quota, nodes: u32) -> Policy {
        share(&Policy::new(kind, quota).unwrap(), WithoutStore::Local { nodes }).unwrap()
    }

    #[test]
    fn shares_add_up_to_no_more_than_the_whole() {
        for nodes in [1, 2, 3, 7, 1_000] {
            for quota in [Quota::per_second(3), Quota::per_minute(100), Quota::per_hour(12_345)] {
                let whole = *Policy::token_bucket(quota).unwrap().grains().unwrap();
                let part = *shared(Kind::TokenBucket, quota, nodes).grains().unwrap();
                // tick / cell is the rate.
                let all = u128::from(part.tick()) * u128::from(nodes) * u128::from(whole.cell());
                assert!(all <= u128::from(whole.tick()) * u128::from(part.cell()));
                assert_eq!(part.burst(), (whole.burst() / nodes).max(1));
            }
            let window = shared(Kind::FixedWindow, Quota::per_minute(100), nodes);
            assert_eq!(window.limit(), (100 / nodes).max(1));
        }
    }

    #[test]
    fn the_slowest_quota_still_has_a_share() {
        let quota = Quota::new(1, Quota::PER_MAX);
        assert_eq!(shared(Kind::Gcra, quota, 5).limit(), 1);
        let quota = Quota::new(1_000_003, Quota::PER_MAX);
        assert_eq!(shared(Kind::Gcra, quota, 5).limit(), 200_000);
    }
}
