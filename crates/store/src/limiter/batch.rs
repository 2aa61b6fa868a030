//! Many requests in one call.

use std::hash::Hash;

use arrayvec::ArrayVec;
use tidegate_core::Decision;

use super::Limiter;
use super::ask::{Ask, never};
use super::rule::Scope;
use crate::memory::{Charge, MemoryStore};

pub(super) fn decide<K: Hash>(
    limiter: &Limiter,
    keys: impl IntoIterator<Item = K>,
    mut each: impl FnMut(Decision),
) {
    let now = limiter.now();
    let [only] = &*limiter.rules.each else {
        for key in keys {
            let ask = Ask::new(limiter, limiter.store.key(key));
            each(ask.charged(now).0.decision());
        }
        return;
    };
    let rule = &*only.present();
    let mut charges: ArrayVec<Charge<'_>, { MemoryStore::BATCH }> = ArrayVec::new();
    for key in keys {
        let key = match only.scope() {
            Scope::Each => limiter.store.key(key),
            Scope::All => limiter.store.key(()),
        };
        if charges.is_full() || key.is_err() {
            limiter.store.decide_prefetched(&charges, now, &mut each);
            charges.clear();
        }
        match key {
            // Asked for as soon as it is known, while the next key is being hashed.
            Ok(key) => {
                let charge = Charge { rule, key, cost: 1 };
                limiter.store.prefetch(&charge);
                charges.push(charge);
            }
            Err(_) => each(never()),
        }
    }
    limiter.store.decide_prefetched(&charges, now, &mut each);
}
