//! The states of one size: shards by the first bits of the key's hash, each behind its lock.

use tidegate_core::Tick;

use super::prefetch::prefetch;
use super::rule::{Book, RuleId, read};
use super::shard::{Shard, Tag};
use super::slots::home;
use crate::key::Key;
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, RwLock, lock, try_lock};

/// Shards of states that are all of one size.
#[derive(Debug)]
pub(super) struct Table {
    shards: Box<[Guarded]>,
    /// How many bits of a hash choose the shard.
    bits: u32,
    /// Words of a slot.
    stride: usize,
    /// Which shard is swept next.
    next_swept: AtomicUsize,
}

/// A shard behind its lock, and where its slots are, for those who want to be early.
#[derive(Debug)]
#[repr(align(128))]
struct Guarded {
    shard: Mutex<Shard>,
    address: AtomicUsize,
    slots: AtomicUsize,
}

/// Which shard a key belongs to, and the rest of its hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) shard: usize,
    hash: u64,
}

impl Place {
    /// What the key is known by there, under `rule`.
    #[inline]
    pub(super) fn tag(self, rule: RuleId) -> Tag {
        Tag::new(self.hash, rule)
    }
}

impl Table {
    /// A table of states of `words` words, of at most `keys_max` keys in `2^bits` shards.
    pub(super) fn new(words: usize, bits: u32, keys_max: usize) -> Table {
        let count = 1_usize << bits;
        let shard = || Guarded {
            shard: Mutex::new(Shard::new(words, keys_max / count)),
            address: AtomicUsize::new(0),
            slots: AtomicUsize::new(0),
        };
        let shards = std::iter::repeat_with(shard).take(count).collect();
        Table { shards, bits, stride: 1 + words.max(1), next_swept: AtomicUsize::new(0) }
    }

    #[inline]
    pub(super) fn place(&self, key: Key) -> Place {
        let hash = key.hash();
        let shard = hash.checked_shr(64 - self.bits).unwrap_or(0);
        let shard = usize::try_from(shard).expect("fewer shards than addresses");
        Place { shard, hash: hash << self.bits }
    }

    #[inline]
    pub(super) fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        lock(&self.shards[shard].shard)
    }

    /// Notes where the slots of `shard` are, after they may have moved.
    #[inline]
    pub(super) fn note(&self, index: usize, shard: &Shard) {
        let guarded = &self.shards[index];
        if guarded.slots.load(Ordering::Relaxed) != shard.slots().len() {
            guarded.address.store(shard.slots().address(), Ordering::Relaxed);
            guarded.slots.store(shard.slots().len(), Ordering::Relaxed);
        }
    }

    /// Asks for the lock of the key's shard.
    #[inline]
    pub(super) fn prefetch_lock(&self, place: Place) {
        prefetch(std::ptr::from_ref(&self.shards[place.shard]).addr());
    }

    /// Asks for the slot that the key would like to have.
    #[inline]
    pub(super) fn prefetch_slot(&self, place: Place, rule: RuleId) {
        let guarded = &self.shards[place.shard];
        let slots = guarded.slots.load(Ordering::Relaxed);
        let index = home(place.tag(rule).0, slots);
        let slot = index * self.stride * size_of::<u64>();
        let address = guarded.address.load(Ordering::Relaxed).wrapping_add(slot);
        prefetch(address);
        prefetch(address.wrapping_add(64));
    }

    /// Sweeps a little of the next shard, unless somebody is in it.
    pub(super) fn sweep(&self, now: Tick, book: &RwLock<Book>) {
        let index = self.next_swept.fetch_add(1, Ordering::Relaxed) % self.shards.len();
        if let Some(mut shard) = try_lock(&self.shards[index].shard) {
            shard.sweep(now, &read(book));
        }
    }

    /// How many states are kept.
    pub(super) fn live(&self) -> usize {
        (0..self.shards.len()).map(|index| self.lock(index).slots().live()).sum()
    }
}
