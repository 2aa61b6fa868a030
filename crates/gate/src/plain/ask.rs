//! What is asked where several plain limits judge together: each place once.

use std::collections::HashMap;
use std::hash::Hash;

use smallvec::SmallVec;
use tidegate_store::MemoryStore;

use super::{PlainCharge, PlainLimit};

/// Each limit once for a key, with the highest cost.
pub(super) struct Asked<'a, K> {
    pub(super) once: SmallVec<[Once<'a, K>; 4]>,
    /// For each charge, which of them it is.
    pub(super) places: SmallVec<[usize; 4]>,
}

pub(super) struct Once<'a, K> {
    pub(super) limit: &'a PlainLimit,
    pub(super) key: K,
    pub(super) cost: u32,
}

impl<'a, K: Copy + Eq + Hash> Asked<'a, K> {
    /// Nothing if the store makes no key of one.
    pub(super) fn new(
        charges: &[PlainCharge<'a>],
        key_of: impl Fn(&PlainCharge<'a>) -> Option<K>,
    ) -> Option<Asked<'a, K>> {
        let mut asked = Asked { once: SmallVec::new(), places: SmallVec::new() };
        // A few are looked through; of many, whoever asks may bring very many.
        let mut known = (MemoryStore::LIMITS_MAX < charges.len()).then(HashMap::new);
        for charge in charges {
            let (limit, key, cost) = (charge.limit, key_of(charge)?, charge.cost);
            let next = asked.once.len();
            let place = if let Some(known) = &mut known {
                *known.entry((limit.name(), key)).or_insert(next)
            } else {
                let is_same = |other: &Once<'_, K>| other.key == key && other.limit.is(limit);
                asked.once.iter().position(is_same).unwrap_or(next)
            };
            if place == next {
                asked.once.push(Once { limit, key, cost });
            }
            asked.once[place].cost = asked.once[place].cost.max(cost);
            asked.places.push(place);
        }
        Some(asked)
    }
}

/// Whether the parts are short enough for a store to make a key of them at once. Of longer ones it
/// is made piece by piece: clients write them, and there is no error to get out of a limit by.
#[inline]
pub(super) fn fits(key: &[&[u8]]) -> bool {
    let bytes = key.iter().fold(0, |sum: usize, part| sum.saturating_add(part.len()));
    bytes <= PIECE_BYTES_MAX
}

/// Bytes of parts that are taken at once: less than what stores take, for the marks between them.
pub(super) const PIECE_BYTES_MAX: usize = 4_000;
