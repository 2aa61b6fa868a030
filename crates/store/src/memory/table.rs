//! The states of one size: shards by the first bits of the key's hash, each behind its lock.

use tidegate_core::Tick;

use super::limit_table::LimitTable;
use super::lock::{Guard, Lock};
use super::prefetch::prefetch;
use super::rule::RuleId;
use super::shard::Shard;
use super::slot_key::SlotKey;
use super::slots::home_among;
use super::stats::MemoryStats;
use crate::key::Key;
use crate::sync::{AtomicUsize, Ordering};

/// Shards of states that are all of one size.
#[derive(Debug)]
pub(super) struct Table {
    shards: Box<[Guarded]>,
    /// Where each shard's slots are, for those who want to be early.
    hints: Box<[Hint]>,
    /// How many bits of a hash choose the shard; at least one.
    bits: u32,
    /// Words of a slot.
    stride: usize,
}

/// A shard behind its lock, in a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Guarded(Lock<Shard>);

#[cfg(not(loom))]
const _: () = assert!(size_of::<Guarded>() == 64);

/// Where the slots of a shard begin, and how many there are.
#[derive(Debug)]
struct Hint {
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
    pub(super) fn slot_key(self, rule: RuleId) -> SlotKey {
        SlotKey::new(self.hash, rule)
    }
}

impl Table {
    /// A table of states of `words` words, of at most `keys_max` keys in `2^bits` shards.
    pub(super) fn new(words: usize, bits: u32, keys_max: usize) -> Table {
        let count = 1_usize << bits;
        let shard = |index| Guarded(Lock::new(Shard::new(index, words, keys_max / count)));
        let hint = || Hint { address: AtomicUsize::new(0), slots: AtomicUsize::new(0) };
        Table {
            shards: (0..count).map(shard).collect(),
            hints: std::iter::repeat_with(hint).take(count).collect(),
            bits,
            stride: 1 + words.max(1),
        }
    }

    /// How many bits of a hash choose the shard.
    pub(super) fn bits(&self) -> u32 {
        self.bits
    }

    #[inline]
    pub(super) fn place(&self, key: Key) -> Place {
        let hash = key.hash();
        // Of 64 bits one to sixteen choose the shard: a shift that never wraps.
        let shard = hash.wrapping_shr(64 - self.bits);
        let shard = usize::try_from(shard).expect("fewer shards than addresses");
        Place { shard, hash: hash.wrapping_shl(self.bits) }
    }

    #[inline]
    pub(super) fn lock(&self, shard: usize) -> Guard<'_, Shard> {
        self.shards[shard].0.lock()
    }

    /// As `lock`, unless another thread is in the shard.
    #[inline]
    pub(super) fn try_lock(&self, shard: usize) -> Option<Guard<'_, Shard>> {
        self.shards[shard].0.try_lock()
    }

    /// Notes where the slots of `shard` are, after they may have grown. Four hints share a line, so
    /// what is as it was is not written.
    pub(super) fn note(&self, index: usize, shard: &Shard) {
        let Hint { address, slots } = &self.hints[index];
        for (hint, now) in [(address, shard.slots().address()), (slots, shard.slots().len())] {
            if hint.load(Ordering::Relaxed) != now {
                hint.store(now, Ordering::Relaxed);
            }
        }
    }

    /// Asks for the lock of the key's shard, and for the slot that the key would like to have.
    #[inline]
    pub(super) fn prefetch(&self, place: Place, rule: RuleId) {
        prefetch(std::ptr::from_ref(&self.shards[place.shard]).addr());
        let hint = &self.hints[place.shard];
        let index = home_among(place.slot_key(rule).0, hint.slots.load(Ordering::Relaxed));
        let slot = index * self.stride * size_of::<u64>();
        let address = hint.address.load(Ordering::Relaxed).wrapping_add(slot);
        prefetch(address);
        // Two or three slots are looked at: from the second half of a line on, the next one too.
        if address % 64 >= 32 {
            prefetch(address.wrapping_add(64));
        }
    }

    /// The latest tick by which anything may have been forgotten, in any shard.
    pub(super) fn swept_at(&self) -> Tick {
        let all = (0..self.shards.len()).map(|index| self.lock(index).swept_at());
        all.max().unwrap_or_default()
    }

    /// Notes that something was forgotten by `now`, in whatever shard.
    pub(super) fn forgets_by(&self, now: Tick) {
        (0..self.shards.len()).for_each(|index| self.lock(index).forgets_by(now));
    }

    /// Sweeps a little of a shard, unless somebody is in it.
    pub(super) fn sweep(&self, index: usize, now: Tick, limit_table: &LimitTable) {
        if let Some(mut shard) = self.try_lock(index % self.shards.len()) {
            shard.sweep(now, limit_table);
        }
    }

    /// What the table holds, and what has left it; one shard is looked at after the other.
    pub(super) fn stats(&self) -> MemoryStats {
        let per_shard = size_of::<Guarded>() + size_of::<Hint>();
        let stats = (0..self.shards.len()).map(|index| {
            let shard = self.lock(index);
            MemoryStats {
                keys: shard.slots().live(),
                groups: shard.rest.groups.live(),
                bytes: per_shard + shard.bytes(),
                crowded: shard.rest.crowded,
                forgotten: shard.rest.forgotten,
            }
        });
        stats.fold(MemoryStats::default(), MemoryStats::and)
    }

    /// How many states are kept.
    pub(super) fn live(&self) -> usize {
        (0..self.shards.len()).map(|index| self.lock(index).slots().live()).sum()
    }
}
