//! What goes over the seam between a store and those who decide by it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::{Decision, Policy, Receipt, Tick, Verdict, WithoutStore};

use crate::by::By;
use crate::key::{Key, KeyTooLong, Keys};
use crate::memory::Rule;
use crate::text_key::TextKey;

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
    /// The key that it counts.
    pub key: &'a StoreKey,
}

/// So many cells of a key under a limit.
#[derive(Clone, Copy, Debug)]
pub struct LimitCharge<'a> {
    /// The limit, and the key that it counts.
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
    /// It has to be [asked](super::Store::judge), and waited for.
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
