//! What is asked where several plain limits judge together: each place once.

use std::collections::HashMap;

use smallvec::SmallVec;
use tidegate_store::{MemoryStore, StoreKey};

use super::{AdhocCharge, AdhocLimit};

/// Each limit once for a key, with the highest cost.
pub(super) struct Asked<'a> {
    pub(super) once: SmallVec<[Once<'a>; 4]>,
    /// For each charge, which of them it is.
    pub(super) places: SmallVec<[usize; 4]>,
}

pub(super) struct Once<'a> {
    pub(super) limit: &'a AdhocLimit,
    pub(super) key: StoreKey,
    pub(super) cost: u32,
}

impl<'a> Asked<'a> {
    /// Nothing if the store makes no key of one.
    pub(super) fn new(
        charges: &[AdhocCharge<'a>],
        key_of: impl Fn(&AdhocCharge<'a>) -> Option<StoreKey>,
    ) -> Option<Asked<'a>> {
        let mut asked = Asked { once: SmallVec::new(), places: SmallVec::new() };
        // A few are looked through; of many, a caller may bring very many.
        let mut known = (MemoryStore::LIMITS_MAX < charges.len()).then(HashMap::new);
        for charge in charges {
            let (limit, key, cost) = (charge.limit, key_of(charge)?, charge.cost);
            let next = asked.once.len();
            let place = if let Some(known) = &mut known {
                *known.entry((limit.name(), key.clone())).or_insert(next)
            } else {
                let is_same = |other: &Once<'_>| other.key == key && other.limit.is(limit);
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
