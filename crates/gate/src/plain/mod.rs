//! Limits that are in no policy: whoever asks says them, as a command of the Redis protocol does.
//!
//! A name is one limit: given again with another policy it is changed, and what was consumed is
//! kept. There is a bound on names, and none is ever dropped to make room: what a key had consumed
//! under it would be forgotten, and the key would get a fresh burst. Whoever knows that all keys
//! are fresh can have one forgotten.

mod ask;
mod book;
#[cfg(feature = "redis")]
mod fleet;
mod here;

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_config::WithoutStore;
use tidegate_core::{Decision, Kind, Policy, Span, Tick, Verdict};
use tidegate_store::By;

pub(crate) use self::book::Book;
use crate::gate::Gate;
use crate::later::{Later, later};
use crate::reset::Resetting;
use crate::store::{AnyStore, StoreFailure, StoreRule};

/// A limit that is in no policy. Clones are the same limit.
///
/// Made by [`Gate::plain`], and only good for that gate.
#[derive(Clone, Debug)]
pub struct PlainLimit(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    name: Box<str>,
    policy: Policy,
    without: WithoutStore,
    rule: StoreRule,
}

/// So many cells of one key under a plain limit.
#[derive(Clone, Copy, Debug)]
pub struct PlainCharge<'a> {
    /// By which limit.
    pub limit: &'a PlainLimit,
    /// Whom it counts, in parts that are never mistaken for each other, however long: what is kept
    /// of them is a hash. The first is the tenant: what begins alike lives together in a cluster.
    pub key: &'a [&'a [u8]],
    /// How many cells; with zero, it only looks.
    pub cost: u32,
}

/// What plain limits said.
#[derive(Clone, Debug)]
pub struct PlainDecided {
    /// The verdict of all of them together.
    pub verdict: Verdict,
    /// By what it was decided.
    pub by: By,
    /// When, in microseconds of Unix time.
    pub now: Tick,
    /// What each of them said, in order. Where a limit is of another gate, nobody is asked, and
    /// each says never.
    pub each: SmallVec<[Decision; 4]>,
}

later! {
    /// A decision by plain limits that is being made. In this process it is there at once.
    DecidePlain -> PlainDecided,
    #[expect(clippy::result_large_err, reason = "both ways are the answer: a box would cost more")]
}

impl PlainLimit {
    /// How many plain limits a gate keeps.
    pub const LIMITS_MAX: usize = 4_096;

    /// The most bytes of a name.
    pub const NAME_BYTES_MAX: usize = 256;

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The policy that it was asked for with.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// Whether they count in the same place. A name is one limit, whatever it was before.
    fn is(&self, other: &PlainLimit) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.name == other.0.name
    }
}

impl PlainCharge<'_> {
    /// What is said of it where nobody can be asked.
    fn never(&self) -> Decision {
        let limit = self.limit.policy().limit();
        Decision { verdict: Verdict::Never, limit, remaining: 0, reset_after: Span::ZERO }
    }
}

impl PlainDecided {
    /// All in one: the verdict, with the numbers of the limit that is closest to refusing, or that
    /// refused for longest.
    pub fn decision(&self) -> Decision {
        let verdict = self.verdict;
        let nothing = Decision::of_no_limit(verdict);
        let speaks = self.each.iter().min_by_key(|it| (it.verdict != verdict, it.remaining));
        Decision { verdict, ..speaks.copied().unwrap_or(nothing) }
    }

    fn never(charges: &[PlainCharge<'_>], now: Tick) -> PlainDecided {
        let each = charges.iter().map(PlainCharge::never).collect();
        PlainDecided { verdict: Verdict::Never, by: By::Store, now, each }
    }
}

impl Gate {
    /// A limit that is not in the policy: whoever asks says it. The same name and policy is the
    /// same limit; the same name with another policy is changed, and what was consumed is kept.
    ///
    /// It never counts with a rule of the policy, even if both have one name. Limits of requests in
    /// flight belong into a policy: what they lend has to come back, and here nobody holds it.
    pub fn plain(
        &self,
        name: &str,
        policy: Policy,
        without: WithoutStore,
    ) -> Result<PlainLimit, StoreFailure> {
        if policy.kind() == Kind::Concurrency {
            let message = "a plain limit cannot be one of requests in flight: use a rule";
            return Err(StoreFailure::new(message));
        }
        let now = || self.0.store.now(&*self.0.clock);
        let kept = (&self.0.store, &self.0.restored);
        self.0.plain.limit(name, policy, without, kept, now)
    }

    /// Forgets a plain limit, unless others than its caller have it too. Whoever names it next gets
    /// a new one: so nothing may be owed under it any more.
    pub fn forget_plain(&self, limit: &PlainLimit) {
        self.0.plain.forget(limit);
    }

    /// Decides by plain limits: all are charged, or none.
    ///
    /// A limit that is named twice for one key is charged once, by the higher cost. More than
    /// [`MemoryStore::LIMITS_MAX`](tidegate_store::MemoryStore::LIMITS_MAX) limits are charged in
    /// groups of as many, once a look at all of them has found room: if one fills up in between,
    /// nothing passes, and what the groups before it took stays taken.
    pub fn decide_plain(&self, charges: &[PlainCharge<'_>]) -> DecidePlain {
        self.ask_plain(charges, true)
    }

    /// What [`Gate::decide_plain`] would answer, without charging: the numbers are those of now.
    pub fn peek_plain(&self, charges: &[PlainCharge<'_>]) -> DecidePlain {
        self.ask_plain(charges, false)
    }

    fn ask_plain(&self, charges: &[PlainCharge<'_>], takes: bool) -> DecidePlain {
        let now = self.now();
        DecidePlain(match &self.0.store {
            #[cfg(feature = "redis")]
            AnyStore::Fleet(fleet) => {
                fleet::decide((fleet, self.0.secret.as_ref()), charges, now, takes)
            }
            AnyStore::Here(store) => Later::Here(here::decide(store, charges, now, takes)),
        })
    }

    /// Decides about many, each by itself, in their order; nothing is allocated. `None` where
    /// states are kept in Redis: then ask one by one, at the same time.
    pub fn decide_plain_batch(
        &self,
        charges: &[PlainCharge<'_>],
        each: impl FnMut(Decision),
    ) -> Option<()> {
        let store = self.0.store.here()?;
        here::decide_batch(store, charges, self.now(), each);
        Some(())
    }

    /// Makes a key fresh under a plain limit. Gives the limit's name.
    pub fn reset_plain(&self, limit: &PlainLimit, key: &[&[u8]]) -> Resetting {
        Resetting(match &self.0.store {
            #[cfg(feature = "redis")]
            AnyStore::Fleet(fleet) => fleet::reset((fleet, self.0.secret.as_ref()), limit, key),
            AnyStore::Here(store) => Later::Here(here::reset(store, limit, key)),
        })
    }
}
