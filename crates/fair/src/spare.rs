//! Places that are given out without the queue's lock, while there are more than enough.
//!
//! Every group of threads has some in advance. Whoever finds no room takes all of them back first:
//! so nobody waits for a place that is free, and no more are out than there are. One who takes such
//! a place leaves no trace in the order: while nobody waits, a flow owes its last request at most.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tidegate_store::apart::{GROUPS, group};

use crate::resource::Resource;
use crate::shared::Shared;

/// What each group of threads has in advance.
#[derive(Debug)]
pub(crate) struct Spares([Arc<Spare>; GROUPS]);

/// What one group has. Everything is in one word: whether it may have any, how many are free, and
/// how many were taken since the queue last heard of it.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Spare {
    word: AtomicU64,
    queue: Weak<Shared>,
}

const OPEN: u64 = 1 << 63;
const FREE: u64 = 1 << 32;
const TAKEN: u64 = 1;

/// After so many the queue is asked, so that it knows how long places are held.
const TAKEN_MAX: u64 = 15;

/// What a group gives back: how many were free, and how many were taken.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Returned {
    pub(crate) free: u32,
    pub(crate) taken: u64,
}

/// What a queue knows of the places that it gave in advance.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// Those that are free, and those that somebody has.
    places: u64,
    /// Whether any group may have some.
    is_open: bool,
}

impl Given {
    /// Gives this thread's group some if there are plenty, or takes all of them back; says how many
    /// were taken of which the queue had not heard. For a request that starts while nobody waits.
    pub(crate) fn more(&mut self, spares: &Spares, resource: &mut Resource) -> u64 {
        let spare = spares.mine();
        let Some(places) = resource.spare(spare.free()) else {
            return self.take_back(spares, resource).unwrap_or_default();
        };
        self.is_open = true;
        self.places += u64::from(places);
        spare.add(places)
    }

    /// Takes back all that are free, and says how many were taken of which the queue had not heard.
    pub(crate) fn take_back(&mut self, spares: &Spares, resource: &mut Resource) -> Option<u64> {
        if !std::mem::take(&mut self.is_open) {
            return None;
        }
        let Returned { free, taken } = spares.close();
        self.places = self.places.saturating_sub(free.into());
        resource.unspare(free);
        Some(taken)
    }

    /// Somebody gave its place back to the queue.
    pub(crate) fn one_came_back(&mut self) {
        self.places = self.places.saturating_sub(1);
    }

    /// Whether anybody has one.
    pub(crate) fn is_any_out(&self, spares: &Spares) -> bool {
        let free = || if self.is_open { spares.read().free } else { 0 };
        0 < self.places && u64::from(free()) < self.places
    }
}

impl Spares {
    pub(crate) fn new(queue: &Weak<Shared>) -> Spares {
        Spares(
            [(); GROUPS]
                .map(|()| Arc::new(Spare { word: AtomicU64::new(0), queue: queue.clone() })),
        )
    }

    /// Those of this thread.
    #[inline]
    pub(crate) fn mine(&self) -> &Arc<Spare> {
        &self.0[group()]
    }

    /// Takes everything back, and lets nobody have any until there are more.
    pub(crate) fn close(&self) -> Returned {
        self.sum(|spare| spare.word.swap(0, Ordering::AcqRel))
    }

    /// How many are free and how many were taken, as far as others leave it at that.
    pub(crate) fn read(&self) -> Returned {
        self.sum(|spare| spare.word.load(Ordering::Acquire))
    }

    fn sum(&self, word: impl Fn(&Spare) -> u64) -> Returned {
        self.0.iter().fold(Returned::default(), |sum, spare| {
            let word = word(spare);
            Returned { free: sum.free + free(word), taken: sum.taken + taken(word) }
        })
    }
}

impl Spare {
    /// Takes a place, if one is free and the queue need not be asked.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        let next = |word| {
            let may = 0 < free(word) && taken(word) < TAKEN_MAX;
            may.then(|| word - FREE + TAKEN)
        };
        self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).is_ok()
    }

    /// Gives a place back; `false` if the queue wants to have it.
    #[inline]
    pub(crate) fn give(&self) -> bool {
        let next = |word| (word & OPEN != 0).then(|| word + FREE);
        self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next).is_ok()
    }

    /// Adds places, and says how many were taken since it was last asked.
    pub(crate) fn add(&self, places: u32) -> u64 {
        let next = |word: u64| Some((word - taken(word) + FREE * u64::from(places)) | OPEN);
        match self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next) {
            Ok(before) | Err(before) => taken(before),
        }
    }

    /// How many are free.
    pub(crate) fn free(&self) -> u32 {
        free(self.word.load(Ordering::Relaxed))
    }

    /// The queue that they are of, while anybody has it.
    pub(crate) fn queue(&self) -> Option<Arc<Shared>> {
        self.queue.upgrade()
    }
}

fn free(word: u64) -> u32 {
    ((word & !OPEN) >> 32) as u32
}

fn taken(word: u64) -> u64 {
    word & (FREE - 1)
}
