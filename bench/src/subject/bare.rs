//! The least that our own usual case can cost: one probe of a table, one decision of the core, one
//! store. The same hash, the same clock and the same arithmetic as ours, and no lock, no growth, no
//! forgetting: two threads on one key would lose charges.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use ::tidegate::{Clock as _, Kind, Policy, Quota, Span, SystemClock};
use foldhash::quality::RandomState;

use super::{Contender, Subject};
use crate::key::Key;
use crate::setting::{Form, Setting};
use crate::workload::Field;

pub(super) const CONTENDER: Contender = Contender {
    decides: |workload| workload.field == Field::Usual,
    memory_keys: 0,
    ..Contender::new("bare table (no lock, no limiter)", make)
};

/// Each slot holds a hash and a state. A hash of zero is vacant.
struct Bare<F> {
    slots: Vec<[AtomicU64; 2]>,
    hasher: RandomState,
    clock: SystemClock,
    policy: Policy,
    hash: F,
}

impl<F: Fn(&RandomState, &Key) -> u64 + Send + Sync> Subject for Bare<F> {
    #[inline]
    fn decide(&self, key: &Key) -> bool {
        let hash = (self.hash)(&self.hasher, key).max(1);
        let scaled = u128::from(hash) * self.slots.len() as u128;
        let mut slot = usize::try_from(scaled >> 64).expect("below the length of the table");
        loop {
            let [tag, word] = &self.slots[slot];
            let here = tag.load(Ordering::Relaxed);
            let claim = || tag.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed);
            if here == hash || here == 0 && claim().is_ok() {
                let mut state = word.load(Ordering::Relaxed);
                let decision = self.policy.decide_word(&mut state, self.clock.now(), 1);
                word.store(state, Ordering::Relaxed);
                return decision.verdict.passes();
            }
            slot = if slot + 1 == self.slots.len() { 0 } else { slot + 1 };
        }
    }
}

fn make(setting: &Setting) -> Box<dyn Subject> {
    match setting.form {
        Form::Text => Box::new(bare(setting, |hasher, key: &Key| hasher.hash_one(&key.0))),
        Form::Number => Box::new(bare(setting, |hasher, key: &Key| hasher.hash_one(key.1))),
    }
}

fn bare<F: Fn(&RandomState, &Key) -> u64>(setting: &Setting, hash: F) -> Bare<F> {
    // Half full.
    let slots = 2 * setting.keys.max(32);
    let quota = Quota::new(1, Span::from(setting.quota.per)).burst(setting.quota.burst);
    Bare {
        slots: (0..slots).map(|_| [0, 0].map(AtomicU64::new)).collect(),
        hasher: RandomState::default(),
        clock: SystemClock::new(),
        policy: Policy::new(Kind::Gcra, quota).expect("every quota of the range is accepted"),
        hash,
    }
}
