//! The seam between those who decide by limits and what keeps the limits' states.
//!
//! A store keeps a state for each key under each limit, and applies the core's transitions to it.
//! [`MemoryStore`](crate::MemoryStore) is one, in this process; another may be anywhere, as long as
//! its answers are those of the core. `tidegate_sim::conformance` says whether they are.
//!
//! A store that answers at once gives answers that are [ready](Later::Ready). Any other does
//! nothing before its answer is polled; what it has begun to settle it finishes by itself, whether
//! or not somebody waits for it.

mod values;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::adapt::Fraction;
use tidegate_core::{Decision, Policy, Span, Tick};

pub(crate) use self::values::in_one;
pub use self::values::{
    AtOnce, Charged, Judgment, KeyForm, Left, LimitCharge, MemoryCharge, OtherCharge, OtherLimit,
    Place, PreparedLimits, Standing, StoreFailure, StoreKey, StoreLimit, Verb, WantedLimit,
};
use crate::clock::Clock;
use crate::later::{Later, Work, all, at_once};
use crate::memory::MemoryStore;
use crate::stats::{Health, StoreStats};

/// Keeps the states of limits.
pub trait Store: fmt::Debug + Send + Sync {
    /// Whether every answer is ready when it is given.
    fn answers_at_once(&self) -> bool {
        false
    }

    /// Whether other processes count by the same states.
    fn is_shared(&self) -> bool {
        false
    }

    /// The store in this process, if it is that: it can be saved, and asked in batches.
    fn memory(&self) -> Option<&MemoryStore> {
        None
    }

    /// How it wants keys.
    fn key_form(&self) -> KeyForm<'_>;

    /// The tick by which it counts, where `clock` is that of its user.
    fn now(&self, clock: &dyn Clock) -> Tick {
        clock.now()
    }

    /// Prepares all limits that are wanted, in their order. There is room for all of them, or
    /// nothing has happened. Until they are committed, limits that were something before go on as
    /// that.
    fn prepare(
        &self,
        wanted: &[WantedLimit<'_>],
        now: Tick,
    ) -> Result<PreparedLimits<'_>, StoreFailure>;

    /// Makes all limits that are wanted, in their order, or none.
    fn put(&self, wanted: &[WantedLimit<'_>], now: Tick) -> Result<Vec<StoreLimit>, StoreFailure> {
        self.prepare(wanted, now).map(PreparedLimits::commit)
    }

    /// Carries over what keys consumed under a policy that a limit had before this process began. A
    /// store that begins with this process has nothing to carry over.
    fn formerly(&self, _limit: &StoreLimit, _policy: Policy) {}

    /// Says whether refusals by a limit are repeated in this process, until time allows the
    /// request. A store that answers at once has no need to.
    fn remember_refusals(&self, _limit: &StoreLimit, _yes: bool) {}

    /// Judges one request by several limits: with [`Verb::Decide`] all are charged, or none.
    ///
    /// The answer has as many limits as there are charges, in their order.
    fn judge(&self, charges: &[LimitCharge<'_>], verb: Verb, now: Tick) -> Later<Judgment>;

    /// Judges as [`Store::judge`] does, and shows the answer of each limit in their order; for a
    /// store that answers at once, whose answers are not to be moved about.
    fn judge_at_once(
        &self,
        _charges: &[LimitCharge<'_>],
        _verb: Verb,
        _now: Tick,
        _each: &mut dyn FnMut(Decision, Charged),
    ) -> AtOnce {
        AtOnce::Later
    }

    /// Judges several requests, each by itself, in their order. Elsewhere they are asked together.
    fn judge_each(
        &self,
        requests: &[SmallVec<[LimitCharge<'_>; 4]>],
        verb: Verb,
        now: Tick,
    ) -> Later<Vec<Judgment>> {
        let asked: Vec<_> = requests.iter().map(|it| self.judge(it, verb, now)).collect();
        if self.answers_at_once() {
            Later::Ready(at_once(all(asked)))
        } else {
            Later::pending(all(asked))
        }
    }

    /// Brings what a limit charged to `cells`: less is given back as if it had never been charged,
    /// more is debited, also beyond the limit.
    fn settle(
        &self,
        at: Place<'_>,
        charged: &mut Charged,
        cells: u32,
        clock: &Arc<dyn Clock>,
    ) -> Later<Standing>;

    /// Gives back what a request was charged that gives up before its start.
    ///
    /// If its slot in a queue cannot come back, because others stand behind it, what was charged
    /// under other limits stays charged as well: otherwise a queue could be filled for free.
    /// Permits come back all the same.
    fn give_up(
        &self,
        charged: &mut [(Place<'_>, &mut Charged)],
        clock: &Arc<dyn Clock>,
    ) -> Later<()>;

    /// Gives back permits.
    fn release(&self, at: Place<'_>, charged: &mut Charged, clock: &Arc<dyn Clock>) -> Later<()>;

    /// Renews permits: each lapses one lease from now. Whether all of them are still held.
    fn renew(
        &self,
        at: Place<'_>,
        charged: &mut Charged,
        clock: &Arc<dyn Clock>,
    ) -> Later<Result<bool, StoreFailure>>;

    /// When the first permit lapses, by `clock`; nothing if none is held.
    fn lapses_at(&self, at: Place<'_>, charged: &Charged, clock: &dyn Clock) -> Option<Tick>;

    /// Makes a key fresh under a limit.
    fn reset(&self, at: Place<'_>) -> Later<Result<(), StoreFailure>>;

    /// Finishes work on answers of this store that nobody waits for any more.
    fn finish(&self, work: Work<()>);

    /// What it holds and has seen.
    fn stats(&self) -> StoreStats;

    /// How the connections to servers elsewhere are, if there are any.
    fn health(&self) -> Option<Health> {
        None
    }

    /// The most keys that it keeps in this process, of each size of state.
    fn keys_max(&self) -> usize;

    /// This store as a policy of this name uses it, where policies count apart; `None` if that is
    /// this store itself.
    fn for_policy(&self, _name: Option<&str>) -> Option<Arc<dyn Store>> {
        None
    }

    /// Whether a policy of this name counts where this store counts.
    fn takes_policy(&self, _name: Option<&str>) -> bool {
        true
    }

    /// How many nodes are known to share the quota.
    fn nodes(&self) -> u32 {
        1
    }

    /// Says how many nodes share the quota: for limits that are put from now on.
    fn set_nodes(&self, _nodes: u32) {}

    /// Counts the nodes that share it, every so often for as long as `follower` is there.
    fn count_nodes(&self, _every: Duration, _follower: Box<dyn FollowsNodes>) {}

    /// Says how much of adaptive limits this `node` gives out, and hears the least that nodes said
    /// lately, beside the requests. What is said counts for `lease`.
    fn share_factor(&self, _node: u64, _own: Option<Fraction>, _lease: Span, _heard: HearsFactor) {}
}

impl dyn Store {
    /// Makes all limits that are wanted; one that is missing would let everything pass.
    pub(crate) fn put_all(
        &self,
        wanted: &[WantedLimit<'_>],
        clock: &dyn Clock,
    ) -> Result<Vec<StoreLimit>, StoreFailure> {
        let made = self.put(wanted, self.now(clock))?;
        if made.len() == wanted.len() {
            Ok(made)
        } else {
            Err(StoreFailure::new("the store did not make all limits: mend its `put`"))
        }
    }
}

/// What is done when the nodes have said how much they give out.
pub type HearsFactor = Box<dyn FnOnce(Result<Fraction, StoreFailure>) + Send>;

/// What goes by the number of nodes.
pub trait FollowsNodes: Send + Sync {
    /// Whether nobody follows any more.
    fn is_over(&self) -> bool;

    /// Puts the new number in force. After an error the number from before counts.
    fn follow(&self) -> Result<(), StoreFailure>;
}
