//! Which lane holds which slot: one small number for each, read without a lock.

use std::sync::atomic::{AtomicU16, Ordering};

use super::script::SLOTS;

/// Which lane holds which slot.
#[derive(Debug)]
pub(super) struct Slots(Box<[AtomicU16]>);

impl Slots {
    pub(super) fn new() -> Slots {
        Slots((0..SLOTS).map(|_| AtomicU16::new(0)).collect())
    }

    pub(super) fn lane_of(&self, slot: u16) -> usize {
        usize::from(self.0[usize::from(slot % SLOTS)].load(Ordering::Relaxed))
    }

    /// Whether this changed anything.
    pub(super) fn set(&self, slot: u16, lane: usize) -> bool {
        let lane = u16::try_from(lane).unwrap_or(0);
        self.0[usize::from(slot % SLOTS)].swap(lane, Ordering::Relaxed) != lane
    }

    pub(super) fn holds_any(&self, lane: usize) -> bool {
        self.0.iter().any(|slot| usize::from(slot.load(Ordering::Relaxed)) == lane)
    }
}
