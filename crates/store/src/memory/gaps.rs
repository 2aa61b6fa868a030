//! Slots of queues that were given back while others stood behind them.
//!
//! Such a slot stays empty, because those behind it have been told when to start. Once they have
//! left too, it is the last one, and comes back after all.

use std::collections::{BTreeMap, HashMap};

use tidegate_core::{Policy, Receipt, State, Tick};

use super::slot_key::SlotKey;
use crate::sync::{Mutex, lock};

/// All empty slots. Locked only with the shard of a key, and after it.
#[derive(Debug, Default)]
pub(super) struct Gaps(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    /// The cells of each slot, by its end.
    by_tag: HashMap<u64, BTreeMap<Tick, u32>>,
    slots: usize,
    /// No slot ends before this tick: nobody needs to look for one.
    full_until: Tick,
}

impl Gaps {
    /// Slots that are remembered, some 4 MiB of them; one more stays empty until its time has come,
    /// and was paid for by the request that left it.
    const MAX: usize = 16_384;

    /// Remembers the slot of `receipt`, which stays empty for now.
    pub(super) fn open(&self, slot_key: SlotKey, now: Tick, receipt: &Receipt) {
        let mut open = lock(&self.0);
        if now < receipt.at() && open.has_room(now) {
            let slots = open.by_tag.entry(slot_key.0).or_default();
            let is_new = slots.insert(receipt.at(), receipt.cost()).is_none();
            open.slots += usize::from(is_new);
        }
    }

    /// Gives back the empty slots that nobody stands behind any more.
    pub(super) fn close(&self, policy: &Policy, slot_key: SlotKey, now: Tick, state: &mut State) {
        let mut open = lock(&self.0);
        let Open { by_tag, slots, .. } = &mut *open;
        let Some(empty) = by_tag.get_mut(&slot_key.0) else { return };
        while let Some(last) = empty.last_entry() {
            let receipt = Receipt::new(*last.key(), *last.get());
            let ends = policy.forget_at(state);
            if receipt.at() < ends {
                break;
            }
            last.remove();
            *slots -= 1;
            // One that ends later is not of this queue any more.
            if receipt.at() == ends {
                policy.refund(state, now, receipt);
            }
        }
        if empty.is_empty() {
            by_tag.remove(&slot_key.0);
        }
    }

    /// Forgets those of a key that is forgotten.
    pub(super) fn forget(&self, slot_key: SlotKey) {
        let mut open = lock(&self.0);
        let forgotten = open.by_tag.remove(&slot_key.0).map_or(0, |slots| slots.len());
        open.slots -= forgotten;
    }
}

impl Open {
    /// Whether there is room for one more, without those whose time has come.
    fn has_room(&mut self, now: Tick) -> bool {
        if Gaps::MAX <= self.slots && self.full_until <= now {
            self.by_tag.retain(|_, slots| {
                slots.retain(|ends, _| now < *ends);
                !slots.is_empty()
            });
            self.slots = self.by_tag.values().map(BTreeMap::len).sum();
            let firsts = self.by_tag.values().filter_map(|slots| slots.keys().next());
            self.full_until = firsts.min().copied().unwrap_or_default();
        }
        self.slots < Gaps::MAX
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn there_are_only_so_many_and_those_of_the_past_make_room() {
        let (gaps, receipt) = (Gaps::default(), |at| Receipt::new(Tick::from_micros(at), 1));
        let open = |slot_key: u64, now: u64| {
            gaps.open(SlotKey(slot_key), Tick::from_micros(now), &receipt(slot_key + 10));
            lock(&gaps.0).slots
        };
        assert_eq!(open(0, 10), 0, "its time has come");
        let max = Gaps::MAX as u64;
        assert_eq!((1..=max).map(|slot_key| open(slot_key, 0)).max(), Some(Gaps::MAX));
        assert_eq!(open(max + 1, 0), Gaps::MAX);
        assert_eq!(open(max + 2, 14), Gaps::MAX - 3, "four have passed, one came");
    }
}
