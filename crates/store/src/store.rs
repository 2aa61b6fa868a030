//! The seam between those who decide by limits and what keeps the limits' states.
//!
//! A store keeps a state for each key under each limit, and applies the core's transitions to it.
//! [`MemoryStore`](crate::MemoryStore) is one, in this process; another may be anywhere, as long as
//! its answers are those of the core. `tidegate_sim::conformance` says whether they are.
//!
//! A store that answers at once gives answers that are [ready](Later::Ready). Any other does
//! nothing before its answer is polled; what it has begun to settle it finishes by itself, whether
//! or not somebody waits for it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate_core::adapt::Share;
use tidegate_core::{Decision, Policy, Receipt, Span, Tick, Verdict, WithoutStore};

use crate::by::By;
use crate::clock::Clock;
use crate::key::{Key, KeyTooLong, Keys};
use crate::later::{Later, Work, all, at_once};
use crate::memory::{MemoryStore, Rule};
use crate::stats::{Health, StoreStats};
use crate::text_key::TextKey;

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

    /// The same store for a policy of this name, where policies count apart; nothing if this one
    /// is it.
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
    fn share_factor(&self, _node: u64, _own: Option<Share>, _lease: Span, _heard: HearsFactor) {}
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
pub type HearsFactor = Box<dyn FnOnce(Result<Share, StoreFailure>) + Send>;

/// What goes by the number of nodes.
pub trait FollowsNodes: Send + Sync {
    /// Whether nobody follows any more.
    fn is_over(&self) -> bool;

    /// Puts the new number in force. After an error the number from before counts.
    fn follow(&self) -> Result<(), StoreFailure>;
}

/// How a store wants keys.
#[derive(Debug)]
pub enum KeyForm<'s> {
    /// Hashed by these.
    Hash(&'s Keys),
    /// As a text that means the same in every process.
    Text,
}

/// A key as its store wants it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum StoreKey {
    /// Its hash.
    Hash(Key),
    /// Its text.
    Text(Arc<TextKey>),
}

/// A limit as its store keeps it. Clones are the same limit.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there are few, and every decision reads one")]
pub enum StoreLimit {
    /// In this process.
    Memory(Rule),
    /// In a store that knows what it is.
    Other(Arc<dyn OtherLimit>),
}

/// A limit of a store that is not in this crate.
pub trait OtherLimit: Any + fmt::Debug + Send + Sync {}

/// A limit that is wanted: a new one, or what another becomes.
#[derive(Clone, Debug)]
pub struct WantedLimit<'a> {
    /// Its name, by which nodes agree on it.
    pub name: String,
    /// The name of the limit that it is a quota of: a key has one state for a limit, whichever of
    /// its quotas it has.
    pub limit: String,
    /// What it is from now on.
    pub policy: Policy,
    /// What that is a part of, as under load; the policy itself if all of it is given out.
    pub whole: Policy,
    /// What it does while its store does not answer.
    pub without: WithoutStore,
    /// What it was until now: what was consumed is kept.
    pub before: Option<&'a StoreLimit>,
    /// Other quotas that keys had under its limit until now.
    pub others: Vec<StoreLimit>,
}

/// A key under a limit.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// By which limit.
    pub limit: &'a StoreLimit,
    /// Whom it counts.
    pub key: &'a StoreKey,
}

/// So many cells of a key under a limit.
#[derive(Clone, Copy, Debug)]
pub struct LimitCharge<'a> {
    /// By which limit, and whom it counts.
    pub at: Place<'a>,
    /// How many cells; with zero, it only looks.
    pub cost: u32,
}

/// What a store is to do about a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verb {
    /// Answer, and charge what passes.
    Decide,
    /// Answer as if it were decided, and charge nothing.
    Peek,
}

/// Limits that a store has room for, and that are about to be what is wanted.
pub struct PreparedLimits<'s> {
    limits: Vec<StoreLimit>,
    commit: Box<dyn FnOnce() + 's>,
}

/// Whether a store has judged a request at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AtOnce {
    /// It has, with this verdict.
    Judged(Verdict),
    /// One of the limits has become another one, as at a reload: nothing has happened. The request
    /// is to be judged by the limits that are in force now.
    Changed,
    /// It has to be [asked](Store::judge), and waited for.
    Later,
}

/// What a store says of a request.
#[derive(Debug)]
pub struct Judgment {
    /// The verdict of all limits together.
    pub verdict: Verdict,
    /// By what it was decided.
    pub by: By,
    /// What each limit says, and what it charged.
    pub limits: SmallVec<[(Decision, Charged); 4]>,
}

/// What one limit charged for a request.
#[derive(Debug, Default)]
pub enum Charged {
    /// Nothing.
    #[default]
    Nothing,
    /// In this process.
    Memory(MemoryCharge),
    /// In a store that knows what it is.
    Other(Box<dyn OtherCharge>),
}

/// A charge in this process.
#[derive(Debug, Default)]
pub struct MemoryCharge {
    /// What it costs by now. A limit may remember less: see
    /// [`Policy::with_overdraft`](tidegate_core::Policy::with_overdraft).
    pub(crate) cells: u32,
    /// For what was charged at first and since.
    pub(crate) receipts: SmallVec<[Receipt; 1]>,
}

/// A charge of a store that is not in this crate.
pub trait OtherCharge: Any + fmt::Debug + Send + Sync {
    /// What became of it since it was decided, if it was settled.
    fn standing(&self) -> Option<Standing>;

    /// Has all of it stand from now on. Dropped, a charge gives back permits; one that stands gives
    /// back nothing, and permits come back when their lease ends.
    fn stand(&mut self);
}

/// What became of a charge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Standing {
    /// How many cells are charged.
    pub cells: u32,
    /// What is left under the limit, as far as that is known; the verdict is of no interest.
    pub left: Option<Left>,
}

/// What is left under a limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Left {
    /// In numbers.
    pub decision: Decision,
    /// As of when.
    pub at: Tick,
}

/// Why a store cannot do what is wanted of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoreFailure(Box<str>);

impl<'a> WantedLimit<'a> {
    /// A limit of one quota, all of which is given out.
    pub fn new(
        name: impl Into<String>,
        (policy, without): (Policy, WithoutStore),
        before: Option<&'a StoreLimit>,
    ) -> WantedLimit<'a> {
        let name = name.into();
        let (limit, whole, others) = (name.clone(), policy, Vec::new());
        WantedLimit { name, limit, policy, whole, without, before, others }
    }
}

impl<'s> PreparedLimits<'s> {
    /// Limits, and how they come into force: all of them within microseconds.
    pub fn new(limits: Vec<StoreLimit>, commit: impl FnOnce() + 's) -> PreparedLimits<'s> {
        PreparedLimits { limits, commit: Box::new(commit) }
    }

    /// The limits. They are to be asked once this is committed.
    pub fn limits(&self) -> &[StoreLimit] {
        &self.limits
    }

    /// Has all limits turn into what is wanted.
    pub fn commit(self) -> Vec<StoreLimit> {
        (self.commit)();
        self.limits
    }
}

impl fmt::Debug for PreparedLimits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedLimits").field("limits", &self.limits.len()).finish_non_exhaustive()
    }
}

impl Judgment {
    /// All in one: the verdict of all together, with the numbers of the limit that is closest to
    /// refusing, or that refused for longest.
    pub fn decision(&self) -> Decision {
        in_one(self.verdict, self.limits.iter().map(|(decision, _)| decision))
    }

    /// The answer to a request that is not even asked about: it never passes.
    pub fn never(charges: &[LimitCharge<'_>]) -> Judgment {
        let said = || (Decision::of_no_limit(Verdict::Never), Charged::Nothing);
        let limits = charges.iter().map(|_| said()).collect();
        Judgment { verdict: Verdict::Never, by: By::Store, limits }
    }
}

/// The verdict of all together, with the numbers of the one that speaks for them.
pub(crate) fn in_one<'d>(verdict: Verdict, each: impl Iterator<Item = &'d Decision>) -> Decision {
    let speaks = each.min_by_key(|it| (it.verdict != verdict, it.remaining));
    Decision { verdict, ..speaks.copied().unwrap_or(Decision::of_no_limit(verdict)) }
}

impl Charged {
    /// Lets it stand, permits too, which come back when their lease ends.
    pub fn stand(self) {
        if let Charged::Other(mut charged) = self {
            charged.stand();
        }
    }

    /// What became of it since it was decided, where its store says so later.
    #[inline]
    pub fn standing(&self) -> Option<Standing> {
        match self {
            Charged::Other(charged) => charged.standing(),
            Charged::Nothing | Charged::Memory(_) => None,
        }
    }
}

impl KeyForm<'_> {
    /// A key in this form: `hash` makes one of the store's hashes, `text` the text.
    #[inline]
    pub fn key(
        &self,
        hash: impl FnOnce(&Keys) -> Result<Key, KeyTooLong>,
        text: impl FnOnce() -> Result<TextKey, KeyTooLong>,
    ) -> Result<StoreKey, KeyTooLong> {
        match self {
            KeyForm::Hash(keys) => hash(keys).map(StoreKey::Hash),
            KeyForm::Text => text().map(Arc::new).map(StoreKey::Text),
        }
    }
}

impl StoreFailure {
    /// A failure that says what to do.
    pub fn new(message: impl Into<Box<str>>) -> StoreFailure {
        StoreFailure(message.into())
    }

    /// The failure of a call that is about a limit or a key of another store.
    pub fn of_another_store() -> StoreFailure {
        StoreFailure::new("the limit is of another store: make it by this one")
    }
}

impl fmt::Display for StoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StoreFailure {}
