//! The decisions that one thread makes in one timed run: keys, in the order they come in.
//!
//! The keys lie in memory in that order and are read from first to last, as a server reads
//! them from its socket. An index into a table of keys would add two cache misses to every
//! decision: at a million keys that was most of the time of the sketch, which keeps none.

use crate::key::Key;

/// A sequence of keys made before the timer starts, played once per lap.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tape<'a> {
    keys: &'a [Key],
    laps: u64,
}

impl<'a> Tape<'a> {
    pub(crate) fn new(keys: &'a [Key], laps: u64) -> Self {
        assert!(!keys.is_empty() && laps > 0, "a tape has at least one decision");
        Self { keys, laps }
    }

    pub(crate) fn decisions(&self) -> u64 {
        self.laps * self.keys.len() as u64
    }

    /// About one part in `divisor` of this tape.
    pub(crate) fn thinned(&self, divisor: u64) -> Self {
        if self.laps >= divisor {
            return Self { laps: self.laps / divisor, ..*self };
        }
        let divisor = usize::try_from(divisor).expect("a small number");
        let length = (self.keys.len() / divisor).max(1);
        Self { keys: &self.keys[..length], ..*self }
    }

    /// Calls `decide` with every key in order; returns how many were admitted.
    #[inline]
    pub(crate) fn each(&self, mut decide: impl FnMut(&Key) -> bool) -> u64 {
        let mut admitted = 0;
        for _ in 0..self.laps {
            for key in self.keys {
                admitted += u64::from(decide(key));
            }
        }
        admitted
    }

    /// Calls `decide` with [`BATCH`] keys at a time (the last batch may be shorter).
    #[inline]
    pub(crate) fn batches(&self, mut decide: impl FnMut(&[&Key]) -> u64) -> u64 {
        let mut admitted = 0;
        let mut batch = [&self.keys[0]; BATCH];
        for _ in 0..self.laps {
            for keys in self.keys.chunks(BATCH) {
                for (place, key) in batch.iter_mut().zip(keys) {
                    *place = key;
                }
                admitted += decide(&batch[..keys.len()]);
            }
        }
        admitted
    }
}

/// Decisions in one call of a subject that takes several.
pub(crate) const BATCH: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hand_over_the_same_keys_as_single_decisions() {
        let keys: Vec<Key> = (0..100).map(Key::numbered).collect();
        let tape = Tape::new(&keys, 2);
        let mut single = Vec::new();
        let mut batched = Vec::new();
        tape.each(|key| {
            single.push(key.0.clone());
            true
        });
        let admitted = tape.batches(|keys| {
            batched.extend(keys.iter().map(|key| key.0.clone()));
            keys.len() as u64
        });
        assert_eq!(single, batched);
        assert_eq!(admitted, tape.decisions());
    }

    #[test]
    fn a_thinned_tape_drops_laps_first_and_then_draws() {
        let keys: Vec<Key> = (0..64).map(Key::numbered).collect();
        assert_eq!(Tape::new(&keys, 8).thinned(4).decisions(), 2 * 64);
        assert_eq!(Tape::new(&keys, 1).thinned(4).decisions(), 16);
    }
}
