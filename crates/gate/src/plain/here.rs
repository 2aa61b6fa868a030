//! Plain limits in this process: nothing is allocated, and memory is asked for ahead.

use std::hash::{Hash, Hasher};

use smallvec::{SmallVec, smallvec};
use tidegate_core::{Decision, Tick, Verdict};
use tidegate_store::{By, Charge, Key, MemoryStore};

use super::ask::{Asked, PIECE_BYTES_MAX, fits};
use super::{PlainCharge, PlainDecided, PlainLimit};
use crate::store::StoreFailure;

/// The parts of a key, hashed each with its length.
struct Parts<'a>(&'a [&'a [u8]]);

impl Hash for Parts<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        // One part is all that most keys have; how many there are is told by the number of others.
        if let [only] = self.0 {
            state.write(only);
        } else {
            state.write_usize(self.0.len());
            self.0.iter().for_each(|part| state.write(part));
        }
    }
}

#[inline]
fn key_of(store: &MemoryStore, parts: &[&[u8]]) -> Option<Key> {
    if fits(parts) { store.key(Parts(parts)).ok() } else { long_key(store, parts) }
}

/// The key of parts that are too long to be hashed at once: piece by piece, each with what was
/// before it.
#[cold]
fn long_key(store: &MemoryStore, parts: &[&[u8]]) -> Option<Key> {
    let mut key = store.key(("long", parts.len())).ok()?;
    for part in parts {
        key = store.key((key, part.len())).ok()?;
        for piece in part.chunks(PIECE_BYTES_MAX) {
            key = store.key((key, piece)).ok()?;
        }
    }
    Some(key)
}

#[inline]
fn charge_of<'a>(store: &MemoryStore, charge: &PlainCharge<'a>) -> Option<Charge<'a>> {
    let rule = charge.limit.0.rule.here()?;
    Some(Charge { rule, key: key_of(store, charge.key)?, cost: charge.cost })
}

pub(super) fn decide(
    store: &MemoryStore,
    charges: &[PlainCharge<'_>],
    now: Tick,
    takes: bool,
) -> PlainDecided {
    if let [one] = charges
        && let Some(charge) = charge_of(store, one)
    {
        let Charge { rule, key, cost } = charge;
        let decision = if takes {
            store.decide(rule, key, now, cost)
        } else {
            store.peek(rule, key, now, cost)
        };
        let verdict = decision.verdict;
        return PlainDecided { verdict, by: By::Store, now, each: smallvec![decision] };
    }
    decide_several(store, charges, now, takes).unwrap_or_else(|| PlainDecided::never(charges, now))
}

fn decide_several(
    store: &MemoryStore,
    charges: &[PlainCharge<'_>],
    now: Tick,
    takes: bool,
) -> Option<PlainDecided> {
    let asked = Asked::new(charges, |charge| key_of(store, charge.key))?;
    let mut wanted: SmallVec<[Charge<'_>; 4]> = SmallVec::new();
    for one in &asked.once {
        wanted.push(Charge { rule: one.limit.0.rule.here()?, key: one.key, cost: one.cost });
    }
    let mut said: SmallVec<[Decision; 4]> = SmallVec::new();
    let peeks = |it: &Charge<'_>| store.peek(it.rule, it.key, now, it.cost);
    let is_many = MemoryStore::LIMITS_MAX < wanted.len();
    if !takes || is_many {
        said.extend(wanted.iter().map(peeks));
    }
    let mut verdict = said.iter().fold(Verdict::Allow, |all, it| all.and(it.verdict));
    if takes && verdict.passes() {
        said.clear();
        for some in wanted.chunks(MemoryStore::LIMITS_MAX) {
            verdict = verdict.and(store.decide_all(some, now, |decision, _| said.push(decision)));
        }
    }
    let each = asked.places.iter().map(|place| said[*place]).collect();
    Some(PlainDecided { verdict, by: By::Store, now, each })
}

/// Many, each by itself. The memory of each is asked for as soon as its key is known, while the
/// next key is being hashed.
pub(super) fn decide_batch(
    store: &MemoryStore,
    charges: &[PlainCharge<'_>],
    now: Tick,
    mut each: impl FnMut(Decision),
) {
    for charges in charges.chunks(MemoryStore::BATCH) {
        let mut wanted: SmallVec<[Option<Charge<'_>>; MemoryStore::BATCH]> = SmallVec::new();
        for charge in charges {
            let charge = charge_of(store, charge);
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
}

pub(super) fn reset(
    store: &MemoryStore,
    limit: &PlainLimit,
    key: &[&[u8]],
) -> Result<Vec<String>, StoreFailure> {
    let charge = charge_of(store, &PlainCharge { limit, key, cost: 0 });
    let charge = charge.ok_or_else(no_key)?;
    store.reset(charge.rule, charge.key);
    Ok(vec![limit.name().to_owned()])
}

/// Why a key cannot be reset: the limit is of another store.
pub(super) fn no_key() -> StoreFailure {
    StoreFailure::new("the limit is of another gate: make it by this one")
}
