//! The short way for several limits: a few of them, states of one word, keys that are known, and
//! all let the request pass. Whatever is not so takes the long way, and nothing has happened.

use arrayvec::ArrayVec;
use tidegate_core::{Decision, Receipt, Tick, Verdict};

use super::lock::Guard;
use super::shard::Shard;
use super::tag::Tag;
use super::{Charge, MemoryStore};

/// More than this many limits take the long way.
const FEW: usize = 4;

impl MemoryStore {
    /// Decides as [`MemoryStore::decide_all`] does, if it is that simple; `None` if it is not.
    pub(super) fn decide_few(
        &self,
        charges: &[Charge<'_>],
        now: Tick,
        each: &mut impl FnMut(Decision, Option<Receipt>),
    ) -> Option<Verdict> {
        if FEW < charges.len() || charges.iter().any(|charge| charge.rule.table != 0) {
            return None;
        }
        let table = &self.tables[0];
        let mut places: ArrayVec<(usize, Tag), FEW> = ArrayVec::new();
        for charge in charges {
            let place = table.place(charge.key);
            let place = (place.shard, place.tag(charge.rule.id));
            // One state twice cannot be judged as two.
            if places.contains(&place) {
                return None;
            }
            places.push(place);
        }
        let mut order: ArrayVec<usize, FEW> = places.iter().map(|(shard, _)| *shard).collect();
        order.sort_unstable();
        let mut locked: ArrayVec<(usize, Guard<'_, Shard>), FEW> = ArrayVec::new();
        for shard in order {
            if locked.last().is_none_or(|(last, _)| *last != shard) {
                locked.push((shard, table.lock(shard)));
            }
        }
        if charges.iter().any(|charge| charge.rule.is_changed()) {
            return None;
        }
        let mut answers: ArrayVec<(Decision, u64), FEW> = ArrayVec::new();
        let mut together = Verdict::Allow;
        for (charge, (shard, tag)) in charges.iter().zip(&places) {
            let mut word = *word_of(&mut locked, *shard, *tag)?;
            let decision = charge.rule.policy.decide_word(&mut word, now, charge.cost);
            together = together.and(decision.verdict);
            answers.push((decision, word));
        }
        if !together.passes() {
            return None;
        }
        for ((shard, tag), (_, charged)) in places.iter().zip(&answers) {
            *word_of(&mut locked, *shard, *tag)? = *charged;
        }
        let due = locked.iter_mut().any(|(_, shard)| shard.counts_call());
        // No lock is held any more: whoever is called may ask again.
        drop(locked);
        for ((decision, word), charge) in answers.into_iter().zip(charges) {
            each(decision, Some(charge.rule.policy.receipt_of_word(word, now, charge.cost)));
        }
        if due {
            self.sweep(now);
        }
        Some(together)
    }
}

#[inline]
fn word_of<'s>(
    locked: &'s mut ArrayVec<(usize, Guard<'_, Shard>), FEW>,
    shard: usize,
    tag: Tag,
) -> Option<&'s mut u64> {
    locked.iter_mut().find(|(held, _)| *held == shard)?.1.word_of(tag)
}
