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

/// A limit, where its state is, and what it says.
struct Spot {
    shard: usize,
    tag: Tag,
    /// Which slot of the shard the state is in.
    slot: usize,
    decision: Decision,
    charged: u64,
}

type Locked<'a> = ArrayVec<(usize, Guard<'a, Shard>), FEW>;

impl MemoryStore {
    /// Decides as [`MemoryStore::decide_all`] does, if it is that simple; `None` if it is not.
    #[inline]
    pub(super) fn decide_few(
        &self,
        charges: &[Charge<'_>],
        now: Tick,
        each: &mut impl FnMut(Decision, Option<Receipt>),
    ) -> Option<Verdict> {
        let mut spots = self.spots(charges)?;
        let mut locked = self.lock_few(&spots);
        let mut together = Verdict::Allow;
        for (spot, Charge { rule, cost, .. }) in spots.iter_mut().zip(charges) {
            if rule.is_changed() {
                return None;
            }
            let shard = held(&mut locked, spot.shard)?;
            (spot.slot, spot.charged) = shard.slots().word_at(spot.tag)?;
            spot.decision = rule.policy.decide_word(&mut spot.charged, now, *cost);
            if spot.decision.verdict != Verdict::Allow {
                together = together.and(spot.decision.verdict);
            }
        }
        if !together.passes() {
            return None;
        }
        for spot in &spots {
            held(&mut locked, spot.shard)?.slots_mut().set_word(spot.slot, spot.charged);
        }
        let mut due = false;
        for (_, shard) in &mut locked {
            due |= shard.counts_call();
        }
        // No lock is held any more: whoever is called may ask again.
        drop(locked);
        for (spot, Charge { rule, cost, .. }) in spots.iter().zip(charges) {
            let receipt = rule.policy.receipt_of_word(spot.charged, now, *cost);
            each(spot.decision, Some(receipt));
        }
        if due {
            self.sweep(now);
        }
        Some(together)
    }

    /// Where the states are; `None` if that is not simple.
    #[inline]
    fn spots(&self, charges: &[Charge<'_>]) -> Option<ArrayVec<Spot, FEW>> {
        let mut spots: ArrayVec<Spot, FEW> = ArrayVec::new();
        for charge in charges {
            if charge.rule.table != 0 {
                return None;
            }
            let place = self.tables[0].place(charge.key);
            let (shard, tag) = (place.shard, place.tag(charge.rule.id));
            // One state twice cannot be judged as two.
            if spots.iter().any(|other| other.tag == tag && other.shard == shard) {
                return None;
            }
            let spot = Spot {
                shard,
                tag,
                slot: 0,
                decision: Decision::of_no_limit(Verdict::Allow),
                charged: 0,
            };
            spots.try_push(spot).ok()?;
        }
        Some(spots)
    }

    /// Locks the shards, each once, in the order that everybody keeps.
    #[inline]
    fn lock_few(&self, spots: &[Spot]) -> Locked<'_> {
        let mut locked = Locked::new();
        let mut next = spots.iter().map(|spot| spot.shard).min();
        while let Some(shard) = next {
            locked.push((shard, self.tables[0].lock(shard)));
            let behind = spots.iter().map(|spot| spot.shard).filter(|other| shard < *other);
            next = behind.min();
        }
        locked
    }
}

#[inline]
fn held<'l>(locked: &'l mut Locked<'_>, shard: usize) -> Option<&'l mut Shard> {
    locked.iter_mut().find(|(held, _)| *held == shard).map(|(_, shard)| &mut **shard)
}
