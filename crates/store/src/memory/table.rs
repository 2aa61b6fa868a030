//! The states of one size: shards by the first bits of the key's hash, each behind its lock.

use tidegate_core::Tick;

use super::book::{Book, read};
use super::lock::{Guard, Lock};
use super::prefetch::prefetch;
use super::rule::RuleId;
use super::shard::Shard;
use super::slots::home_among;
use super::stats::MemoryStats;
use super::tag::Tag;
use crate::key::Key;
use crate::sync::{AtomicU64, AtomicUsize, Ordering, RwLock};

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
    /// Which shard is swept next.
    next_swept: AtomicUsize,
    /// The latest tick by which anything may have been forgotten.
    swept_at: AtomicU64,
    /// States that made room at the cap, and those that were fresh. Whoever drops one has just
    /// written to `swept_at` beside them, so that counting is as good as free.
    evicted: AtomicU64,
    forgotten: AtomicU64,
}

/// A shard behind its lock, in a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Guarded(Lock<Shard>);

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
    pub(super) fn tag(self, rule: RuleId) -> Tag {
        Tag::new(self.hash, rule)
    }
}

impl Table {
    /// A table of states of `words` words, of at most `keys_max` keys in `2^bits` shards.
    pub(super) fn new(words: usize, bits: u32, keys_max: usize) -> Table {
        let count = 1_usize << bits;
        let shard = || Guarded(Lock::new(Shard::new(words, keys_max / count)));
        let hint = || Hint { address: AtomicUsize::new(0), slots: AtomicUsize::new(0) };
        Table {
            shards: std::iter::repeat_with(shard).take(count).collect(),
            hints: std::iter::repeat_with(hint).take(count).collect(),
            bits,
            stride: 1 + words.max(1),
            next_swept: AtomicUsize::new(0),
            swept_at: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
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

    /// The same, unless somebody else is in it.
    #[inline]
    pub(super) fn try_lock(&self, shard: usize) -> Option<Guard<'_, Shard>> {
        self.shards[shard].0.try_lock()
    }

    /// Notes where the slots of `shard` are, after they may have grown.
    pub(super) fn note(&self, index: usize, shard: &Shard) {
        let hint = &self.hints[index];
        hint.address.store(shard.slots().address(), Ordering::Relaxed);
        hint.slots.store(shard.slots().len(), Ordering::Relaxed);
    }

    /// Asks for the lock of the key's shard, and for the slot that the key would like to have.
    #[inline]
    pub(super) fn prefetch(&self, place: Place, rule: RuleId) {
        prefetch(std::ptr::from_ref(&self.shards[place.shard]).addr());
        let hint = &self.hints[place.shard];
        let index = home_among(place.tag(rule).0, hint.slots.load(Ordering::Relaxed));
        let slot = index * self.stride * size_of::<u64>();
        let address = hint.address.load(Ordering::Relaxed).wrapping_add(slot);
        prefetch(address);
        // Two or three slots are looked at: from the second half of a line on, the next one too.
        if address % 64 >= 32 {
            prefetch(address.wrapping_add(64));
        }
    }

    /// No key that is not known is judged by an earlier tick: it may have been forgotten by then.
    pub(super) fn swept_at(&self) -> Tick {
        Tick::from_micros(self.swept_at.load(Ordering::Acquire))
    }

    /// Notes that something may be forgotten by `now`, before it is.
    pub(super) fn forgets_by(&self, now: Tick) {
        self.swept_at.fetch_max(now.get(), Ordering::AcqRel);
    }

    /// Sweeps a little of the next shard, unless somebody is in it.
    pub(super) fn sweep(&self, now: Tick, book: &RwLock<Book>) {
        self.forgets_by(now);
        let index = self.next_swept.fetch_add(1, Ordering::Relaxed) % self.shards.len();
        if let Some(mut shard) = self.try_lock(index) {
            let forgotten = shard.sweep(now, &read(book));
            self.counts(0, forgotten);
        }
    }

    /// Counts states that are gone.
    pub(super) fn counts(&self, evicted: usize, forgotten: usize) {
        for (count, more) in [(&self.evicted, evicted), (&self.forgotten, forgotten)] {
            if 0 < more {
                count.fetch_add(more as u64, Ordering::Relaxed);
            }
        }
    }

    /// What the table holds, and what has left it; one shard is looked at after the other.
    pub(super) fn stats(&self) -> MemoryStats {
        let per_shard = size_of::<Guarded>() + size_of::<Hint>();
        let mut stats = MemoryStats {
            keys: 0,
            bytes: self.shards.len() * per_shard,
            evictions: self.evicted.load(Ordering::Relaxed),
            forgotten: self.forgotten.load(Ordering::Relaxed),
        };
        for index in 0..self.shards.len() {
            let shard = self.lock(index);
            stats.keys += shard.slots().live();
            stats.bytes += shard.bytes();
        }
        stats
    }

    /// How many states are kept.
    pub(super) fn live(&self) -> usize {
        (0..self.shards.len()).map(|index| self.lock(index).slots().live()).sum()
    }
}
