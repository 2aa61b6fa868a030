//! The least that a keyed count can cost: one probe of a table of 8-byte words and one
//! compare-and-store. No clock, no refill, no growth: it is a floor, not a limiter.

use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use std::hash::BuildHasher;

use super::{Contender, Subject};
use crate::key::Key;
use crate::setting::Setting;
use crate::tape::{BATCH, Tape};

pub(super) const CONTENDER: Contender = Contender::new("floor (no clock, no limiter)", make);

/// Each word holds a fingerprint in its upper half and a count in its lower. Zero is vacant.
struct Floor {
    words: Vec<AtomicU64>,
    hasher: RandomState,
    burst: u64,
}

impl Subject for Floor {
    #[inline]
    fn decide(&self, key: &Key) -> bool {
        self.charge(self.hash(&key.0))
    }

    /// Hashes and loads the whole batch before it stores anything, so that the cache misses of
    /// the batch overlap.
    fn play_batches(&self, tape: &Tape<'_>) -> u64 {
        tape.batches(|keys| {
            let mut hashes = [0; BATCH];
            let mut touched = 0;
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = self.hash(&key.0);
                touched |= self.words[self.home(*hash)].load(Ordering::Relaxed);
            }
            std::hint::black_box(touched);
            hashes[..keys.len()].iter().map(|&hash| u64::from(self.charge(hash))).sum()
        })
    }
}

impl Floor {
    #[inline]
    fn hash(&self, key: &str) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The upper bits choose the slot: a multiplication, where a remainder would divide.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        let scaled = u128::from(hash) * self.words.len() as u128;
        usize::try_from(scaled >> 64).expect("below the length of the table")
    }

    #[inline]
    fn charge(&self, hash: u64) -> bool {
        let fingerprint = (hash << FINGERPRINT_SHIFT).max(1 << FINGERPRINT_SHIFT);
        let mut slot = self.home(hash);
        loop {
            let word = self.words[slot].load(Ordering::Relaxed);
            let ours = word & FINGERPRINT_MASK == fingerprint;
            if word != 0 && !ours {
                slot = if slot + 1 == self.words.len() { 0 } else { slot + 1 };
                continue;
            }
            if ours && word & !FINGERPRINT_MASK >= self.burst {
                return false;
            }
            let charged = if ours { word + 1 } else { fingerprint + 1 };
            let stored = self.words[slot].compare_exchange_weak(
                word,
                charged,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if stored.is_ok() {
                return true;
            }
        }
    }
}

fn make(setting: &Setting) -> Box<dyn Subject> {
    // Half full: short probes, and 16 bytes a key.
    let slots = 2 * setting.keys.max(32);
    Box::new(Floor {
        words: (0..slots).map(|_| AtomicU64::new(0)).collect(),
        hasher: RandomState::default(),
        burst: u64::from(setting.quota.burst),
    })
}

const FINGERPRINT_SHIFT: u32 = 32;
const FINGERPRINT_MASK: u64 = u64::MAX << FINGERPRINT_SHIFT;
