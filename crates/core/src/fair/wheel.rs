//! Deadlines on wheels: 64 slots to a turn, every wheel 64 times as slow as the one before.
//!
//! Adding and taking out are constant time wherever a deadline is, and nothing is left behind by a
//! request that leaves early. A deadline comes down a wheel when its slot begins, one at a time.

use crate::tick::Tick;

use super::bags::{Bags, Moved};
use super::shelves::NONE;

const SLOTS: usize = 64;
/// 2^54 ticks: more than there are.
const WHEELS: usize = 9;

/// The bag of every slot.
#[derive(Clone, Debug)]
pub(super) struct Wheel {
    bags: [[u32; SLOTS]; WHEELS],
    pool: Bags,
    used: [u64; WHEELS],
    /// Everything before has been seen to.
    at: u64,
}

/// Where a deadline is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Slot {
    wheel: u8,
    slot: u8,
}

impl Wheel {
    pub(super) fn new() -> Wheel {
        Wheel { bags: [[NONE; SLOTS]; WHEELS], pool: Bags::new(), used: [0; WHEELS], at: 0 }
    }

    /// The slot of `deadline`: on the fastest wheel whose turn it is in.
    #[expect(clippy::cast_possible_truncation, reason = "nine wheels, 64 slots")]
    pub(super) fn slot(&self, deadline: Tick) -> Slot {
        let deadline = deadline.get().max(self.at);
        let wheel = ((self.at ^ deadline) | 63).ilog2() / 6;
        Slot { wheel: wheel as u8, slot: ((deadline >> (6 * wheel)) & 63) as u8 }
    }

    /// Some request in a slot that is not empty.
    pub(super) fn any(&self, Slot { wheel, slot }: Slot) -> Option<u32> {
        self.pool.any(self.bags[usize::from(wheel)][usize::from(slot)])
    }

    /// Puts a request in, and says at which place of its slot it is.
    pub(super) fn put_in(&mut self, Slot { wheel, slot }: Slot, request: u32) -> u32 {
        self.used[usize::from(wheel)] |= 1 << slot;
        let bag = &mut self.bags[usize::from(wheel)][usize::from(slot)];
        self.pool.put_in(bag, request)
    }

    /// Takes out the request at a place, and says who is there instead.
    pub(super) fn take_out(&mut self, Slot { wheel, slot }: Slot, place: u32) -> Option<Moved> {
        let bag = &mut self.bags[usize::from(wheel)][usize::from(slot)];
        let moved = self.pool.take_out(bag, place);
        if *bag == NONE {
            self.used[usize::from(wheel)] &= !(1 << slot);
        }
        moved
    }

    /// When something is next to be done: no later than the first deadline.
    pub(super) fn next(&self) -> Option<Tick> {
        self.soonest().map(|(_, begins)| Tick::from_micros(begins))
    }

    /// Goes on to `now`, but no further than the first slot that begins until then. Everything in
    /// that slot is due, if it is of the fastest wheel, or belongs on a faster one.
    pub(super) fn go_on(&mut self, now: Tick) -> Option<Slot> {
        match self.soonest() {
            Some((slot, begins)) if begins <= now.get() => {
                self.at = self.at.max(begins);
                Some(slot)
            }
            _ => {
                self.at = self.at.max(now.get());
                None
            }
        }
    }

    /// The slot that begins first; of several, that of the slowest wheel, so that whatever comes
    /// down from it is there in time.
    fn soonest(&self) -> Option<(Slot, u64)> {
        let wheels = (0_u8..9).zip(self.used).rev().filter(|(_, used)| *used != 0);
        let first = wheels.map(|(wheel, used)| {
            // What is on a wheel is in this turn of it.
            let slot = used.trailing_zeros();
            let shift = 6 * u32::from(wheel);
            let turn = (self.at >> shift) & !63;
            let begins = (turn | u64::from(slot)) << shift;
            (Slot { wheel, slot: slot.to_le_bytes()[0] }, begins)
        });
        first.min_by_key(|(_, begins)| *begins)
    }
}

impl Slot {
    /// Whether what is in it is due when it begins.
    pub(super) fn is_due(self) -> bool {
        self.wheel == 0
    }
}
