//! The short way for several limits: a few of them, states of one word, keys that are known, and
//! all let the request pass. Whatever is not so takes the long way, and nothing has happened.
//!
//! It is written out for one limit, for two, and so on, so that its loops are unrolled.

use tidegate_core::{Decision, Receipt, Tick, Verdict};

use super::lock::Guard;
use super::shard::Shard;
use super::slot_key::SlotKey;
use super::{Charge, MemoryStore};

/// Where a limit's state is.
#[derive(Clone, Copy)]
struct Spot {
    slot_key: SlotKey,
    shard: usize,
}

/// What a limit says, and the state that it leaves.
#[derive(Clone, Copy)]
struct Said {
    decision: Decision,
    /// Which slot of the shard the state is in.
    slot: usize,
    word: u64,
}

/// The shards that are locked, each by the first limit that needs it.
type Locked<'a, const N: usize> = [Option<Guard<'a, Shard>>; N];

impl MemoryStore {
    /// Decides as [`MemoryStore::decide_all`] does, if it is that simple; `None` if it is not.
    /// More than four limits never are.
    #[inline]
    pub(super) fn decide_few<'c>(
        &self,
        charges: &[impl AsRef<Charge<'c>>],
        now: Tick,
        each: &mut impl FnMut(Decision, Option<Receipt>),
    ) -> Option<Verdict> {
        match charges {
            [a] => self.decide_exactly([a].map(AsRef::as_ref), now, each),
            [a, b] => self.decide_exactly([a, b].map(AsRef::as_ref), now, each),
            [a, b, c] => self.decide_exactly([a, b, c].map(AsRef::as_ref), now, each),
            [a, b, c, d] => self.decide_exactly([a, b, c, d].map(AsRef::as_ref), now, each),
            _ => None,
        }
    }

    #[inline]
    fn decide_exactly<const N: usize>(
        &self,
        charges: [&Charge<'_>; N],
        now: Tick,
        each: &mut impl FnMut(Decision, Option<Receipt>),
    ) -> Option<Verdict> {
        let spots = self.spots(charges)?;
        let (mut locked, held) = self.lock_each(spots);
        let nothing = Decision::of_no_limit(Verdict::Allow);
        let mut said = [Said { decision: nothing, slot: 0, word: 0 }; N];
        let mut together = Verdict::Allow;
        for at in 0..N {
            let Charge { rule, cost, .. } = charges[at];
            if rule.is_changed() {
                return None;
            }
            let (slot, mut word) =
                locked[held[at]].as_ref()?.slots().word_at(spots[at].slot_key)?;
            let decision = rule.policy.decide_only_word(&mut word, now, *cost)?;
            if decision.verdict != Verdict::Allow {
                together = together.and(decision.verdict);
            }
            said[at] = Said { decision, slot, word };
        }
        if !together.passes() {
            return None;
        }
        for at in 0..N {
            let Said { slot, word, .. } = said[at];
            locked[held[at]].as_mut()?.slots_mut().set_word(slot, word);
        }
        let mut due = None;
        for shard in locked.iter_mut().flatten() {
            due = shard.counts_call().or(due);
        }
        // No lock is held any more: `each` may ask again.
        drop(locked);
        for at in 0..N {
            let (Charge { rule, cost, .. }, Said { decision, word, .. }) = (charges[at], said[at]);
            each(decision, Some(rule.policy.receipt_of_word(word, now, *cost)));
        }
        if let Some(index) = due {
            self.sweep(index, now);
        }
        Some(together)
    }

    /// Where the states are; `None` if that is not simple.
    #[inline]
    fn spots<const N: usize>(&self, charges: [&Charge<'_>; N]) -> Option<[Spot; N]> {
        if charges.iter().any(|charge| charge.rule.table != 0) {
            return None;
        }
        let spots = charges.map(|charge| {
            let place = self.tables[0].place(charge.key);
            Spot { slot_key: place.slot_key(charge.rule.id), shard: place.shard }
        });
        // One state twice cannot be judged as two.
        let is_twice = |at: usize| {
            let known = |other: &Spot| {
                other.slot_key == spots[at].slot_key && other.shard == spots[at].shard
            };
            spots[..at].iter().any(known)
        };
        (!(1..N).any(is_twice)).then_some(spots)
    }

    /// Locks the shards, each once. Says by which of the limits that of each was locked.
    #[inline]
    fn lock_each<const N: usize>(&self, spots: [Spot; N]) -> (Locked<'_, N>, [usize; N]) {
        let first = |at: usize| (0..at).find(|&other| spots[other].shard == spots[at].shard);
        let held = std::array::from_fn(|at| first(at).unwrap_or(at));
        let locked = self.lock_at_once(spots, held);
        (locked.unwrap_or_else(|| self.lock_in_order(spots, held)), held)
    }

    /// Locks them if nobody else has one: then their order makes no difference.
    #[inline]
    fn lock_at_once<const N: usize>(
        &self,
        spots: [Spot; N],
        held: [usize; N],
    ) -> Option<Locked<'_, N>> {
        let mut locked = [const { None }; N];
        for at in 0..N {
            if held[at] == at {
                locked[at] = Some(self.tables[0].try_lock(spots[at].shard)?);
            }
        }
        Some(locked)
    }

    /// Locks them in the order that everybody keeps who waits.
    #[cold]
    #[inline(never)]
    fn lock_in_order<const N: usize>(&self, spots: [Spot; N], held: [usize; N]) -> Locked<'_, N> {
        let mut order: [usize; N] = std::array::from_fn(|at| at);
        order.sort_unstable_by_key(|&at| spots[at].shard);
        let mut locked = [const { None }; N];
        for at in order {
            if held[at] == at {
                locked[at] = Some(self.tables[0].lock(spots[at].shard));
            }
        }
        locked
    }
}
