//! What is asked where several plain limits judge together: each place once.

use smallvec::SmallVec;

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

impl<'a, K: Eq> Asked<'a, K> {
    /// Nothing if a key is too long.
    pub(super) fn new(
        charges: &[PlainCharge<'a>],
        key_of: impl Fn(&PlainCharge<'a>) -> Option<K>,
    ) -> Option<Asked<'a, K>> {
        let mut asked = Asked { once: SmallVec::new(), places: SmallVec::new() };
        for charge in charges {
            let (limit, key, cost) = (charge.limit, key_of(charge)?, charge.cost);
            let is_same = |other: &Once<'_, K>| other.key == key && other.limit.is(limit);
            let place = asked.once.iter().position(is_same).unwrap_or_else(|| {
                asked.once.push(Once { limit, key, cost });
                asked.once.len() - 1
            });
            asked.once[place].cost = asked.once[place].cost.max(cost);
            asked.places.push(place);
        }
        Some(asked)
    }
}

/// Whether a key is short enough to be counted, here and in Redis alike.
#[inline]
pub(super) fn fits(key: &[&[u8]]) -> bool {
    let bytes = key.iter().fold(0, |sum: usize, part| sum.saturating_add(part.len()));
    bytes <= PlainCharge::KEY_BYTES_MAX
}
