//! Limits that are in no policy: the caller says them, as a command of the Redis protocol does.
//!
//! A name is one limit: given again with another policy it is changed, and what was consumed is
//! kept. There is a bound on names, and none is ever dropped to make room: what a key had consumed
//! under it would be forgotten, and the key would get a fresh burst. A caller that knows that all
//! keys are fresh can have a name forgotten.

mod ask;
mod key;
mod limits;

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::{Decision, Kind, Policy, Span, Tick, Verdict, WithoutStore};
use tidegate_store::{
    By, Charge, Later, LimitCharge, MemoryStore, Place, Store, StoreFailure, StoreKey, StoreLimit,
    Verb, at_once,
};

use self::ask::Asked;
use self::key::hash_key;
pub(crate) use self::limits::AdhocLimits;
use crate::gate::Gate;
use crate::in_force::memory_rule;
use crate::later::later;
use crate::reset::Resetting;

/// A limit that is in no policy. Clones are the same limit.
///
/// Made by [`Gate::adhoc`], and only good for that gate.
#[derive(Clone, Debug)]
pub struct AdhocLimit(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    name: Box<str>,
    policy: Policy,
    without: WithoutStore,
    limit: StoreLimit,
}

/// So many cells of one key under a plain limit.
#[derive(Clone, Copy, Debug)]
pub struct AdhocCharge<'a> {
    /// By which limit.
    pub limit: &'a AdhocLimit,
    /// The key that it counts, in parts that are never mistaken for each other, however long: what
    /// is kept of them is a hash. The first is the tenant: what begins alike lives together in a
    /// cluster.
    pub key: &'a [&'a [u8]],
    /// How many cells; with zero, it only looks.
    pub cost: u32,
}

/// What plain limits said.
#[derive(Clone, Debug)]
pub struct AdhocDecided {
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
    DecideAdhoc -> AdhocDecided,
    #[expect(clippy::result_large_err, reason = "both ways are the answer: a box would cost more")]
}

impl AdhocLimit {
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
    fn is(&self, other: &AdhocLimit) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.name == other.0.name
    }
}

impl AdhocCharge<'_> {
    /// What is said of it where nobody can be asked.
    fn never(&self) -> Decision {
        let limit = self.limit.policy().limit();
        Decision { verdict: Verdict::Never, limit, remaining: 0, reset_after: Span::ZERO }
    }
}

impl AdhocDecided {
    /// All in one: the verdict, with the numbers of the limit that is closest to refusing, or that
    /// refused for longest.
    pub fn decision(&self) -> Decision {
        let verdict = self.verdict;
        let nothing = Decision::of_no_limit(verdict);
        let speaks = self.each.iter().min_by_key(|it| (it.verdict != verdict, it.remaining));
        Decision { verdict, ..speaks.copied().unwrap_or(nothing) }
    }

    fn never(charges: &[AdhocCharge<'_>], now: Tick) -> AdhocDecided {
        let each = charges.iter().map(AdhocCharge::never).collect();
        AdhocDecided { verdict: Verdict::Never, by: By::Store, now, each }
    }
}

impl Gate {
    /// A limit that is not in the policy: the caller says it. The same name and policy is the same
    /// limit; the same name with another policy is changed, and what was consumed is kept.
    ///
    /// It never counts with a rule of the policy, even if both have one name. Limits of requests in
    /// flight belong into a policy: what they lend has to come back, and here nobody holds it.
    pub fn adhoc(
        &self,
        name: &str,
        policy: Policy,
        without: WithoutStore,
    ) -> Result<AdhocLimit, StoreFailure> {
        if policy.kind() == Kind::Concurrency {
            let message = "a plain limit cannot be one of requests in flight: use a rule";
            return Err(StoreFailure::new(message));
        }
        let now = || self.0.home.now();
        let kept = (&*self.0.store, &self.0.orphans);
        self.0.adhoc.limit(name, policy, without, kept, now)
    }

    /// Forgets a plain limit, unless others than its caller have it too. The next caller that names
    /// it gets a new one: so nothing may be owed under it any more.
    pub fn forget_adhoc(&self, limit: &AdhocLimit) {
        self.0.adhoc.forget(limit);
    }

    /// Decides by plain limits: all are charged, or none.
    ///
    /// A limit that is named twice for one key is charged once, by the higher cost. More than
    /// [`MemoryStore::LIMITS_MAX`](tidegate_store::MemoryStore::LIMITS_MAX) limits are charged in
    /// groups of as many, once a look at all of them has found room: if one fills up in between,
    /// nothing passes, and what the groups before it took stays taken.
    pub fn decide_adhoc(&self, charges: &[AdhocCharge<'_>]) -> DecideAdhoc {
        self.ask_adhoc(charges, Verb::Decide)
    }

    /// What [`Gate::decide_adhoc`] would answer, without charging: the numbers are those of now.
    pub fn peek_adhoc(&self, charges: &[AdhocCharge<'_>]) -> DecideAdhoc {
        self.ask_adhoc(charges, Verb::Peek)
    }

    fn ask_adhoc(&self, charges: &[AdhocCharge<'_>], verb: Verb) -> DecideAdhoc {
        let (now, home) = (self.now(), &self.0.home);
        let never = AdhocDecided::never(charges, now);
        let Some(asked) = Asked::new(charges, |charge| home.adhoc_key(charge.key)) else {
            return DecideAdhoc(Later::Ready(never));
        };
        let Asked { once, places } = asked;
        if home.store.answers_at_once() {
            let limits = once.iter().map(|it| (&it.limit.0.limit, &it.key, it.cost));
            let said = at_once(ask(&*home.store, &charges_of(limits), verb, now));
            return DecideAdhoc(Later::Ready(said.hand_out(&places, never)));
        }
        let store = Arc::clone(&home.store);
        let once = once.into_iter().map(|it| (it.limit.0.limit.clone(), it.key, it.cost));
        let once: SmallVec<[(StoreLimit, StoreKey, u32); 1]> = once.collect();
        DecideAdhoc(Later::pending(async move {
            let limits = once.iter().map(|(limit, key, cost)| (limit, key, *cost));
            ask(&*store, &charges_of(limits), verb, now).await.hand_out(&places, never)
        }))
    }

    /// Decides about many, each by itself, in their order; nothing is allocated. `None` where
    /// states are not kept in this process: then ask one by one, at the same time.
    ///
    /// The memory of each is asked for as soon as its key is known, while the next key is being
    /// hashed.
    pub fn decide_adhoc_batch(
        &self,
        charges: &[AdhocCharge<'_>],
        mut each: impl FnMut(Decision),
    ) -> Option<()> {
        let (store, now) = (self.0.store.memory()?, self.now());
        for charges in charges.chunks(MemoryStore::BATCH) {
            let mut wanted: SmallVec<[Option<Charge<'_>>; MemoryStore::BATCH]> = SmallVec::new();
            for charge in charges {
                let charge = charge_in_memory(store, charge);
                if let Some(charge) = &charge {
                    store.prefetch(charge);
                }
                wanted.push(charge);
            }
            for (wanted, charge) in wanted.iter().zip(charges) {
                each(match wanted {
                    Some(Charge { rule, key, cost }) => store.decide(rule, *key, now, *cost),
                    None => charge.never(),
                });
            }
        }
        Some(())
    }

    /// Makes a key fresh under a plain limit. Gives the limit's name.
    pub fn reset_adhoc(&self, limit: &AdhocLimit, key: &[&[u8]]) -> Resetting {
        let Some(key) = self.0.home.adhoc_key(key) else {
            return Resetting(Later::Ready(Err(StoreFailure::of_another_store())));
        };
        let reset = self.0.store.reset(Place { limit: &limit.0.limit, key: &key });
        let name = limit.name().to_owned();
        Resetting(reset.map(|done| done.map(|()| vec![name])))
    }
}

fn charge_in_memory<'a>(store: &MemoryStore, charge: &AdhocCharge<'a>) -> Option<Charge<'a>> {
    let rule = memory_rule(&charge.limit.0.limit)?;
    let key = store.key_of(|keys| hash_key(keys, charge.key)).ok()?;
    Some(Charge { rule, key, cost: charge.cost })
}

fn charges_of<'a>(
    limits: impl Iterator<Item = (&'a StoreLimit, &'a StoreKey, u32)>,
) -> SmallVec<[LimitCharge<'a>; 4]> {
    limits.map(|(limit, key, cost)| LimitCharge { at: Place { limit, key }, cost }).collect()
}

/// What limits said, each asked once.
struct Said {
    verdict: Verdict,
    by: By,
    each: SmallVec<[Decision; 4]>,
}

/// Asks as many at a time as are judged together.
async fn ask(store: &dyn Store, charges: &[LimitCharge<'_>], verb: Verb, now: Tick) -> Said {
    let is_many = MemoryStore::LIMITS_MAX < charges.len();
    if !is_many || verb == Verb::Peek {
        return ask_all(store, charges, verb, now).await;
    }
    let said = ask_all(store, charges, Verb::Peek, now).await;
    if said.verdict.passes() { ask_all(store, charges, verb, now).await } else { said }
}

async fn ask_all(store: &dyn Store, charges: &[LimitCharge<'_>], verb: Verb, now: Tick) -> Said {
    let mut said = Said { verdict: Verdict::Allow, by: By::Store, each: SmallVec::new() };
    for some in charges.chunks(MemoryStore::LIMITS_MAX) {
        let judgment = store.judge(some, verb, now).await;
        said.verdict = said.verdict.and(judgment.verdict);
        if !said.by.is_fallback() {
            said.by = judgment.by;
        }
        said.each.extend(judgment.limits.iter().map(|(decision, _)| *decision));
    }
    said
}

impl Said {
    fn hand_out(self, places: &[usize], never: AdhocDecided) -> AdhocDecided {
        let Said { verdict, by, each: said } = self;
        let each = places.iter().zip(never.each);
        let each = each.map(|(place, never)| said.get(*place).copied().unwrap_or(never));
        AdhocDecided { verdict, by, now: never.now, each: each.collect() }
    }
}
