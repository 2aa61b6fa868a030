//! Any bytes as a snapshot: they are refused, or give a store that decides and can be saved again.
//!
//! Checksums would stop every change, so the same bytes are tried with their checksums put right;
//! `crates/store` runs the seeds of the corpus in the same way.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_core::{Policy, Quota, Tick};
use tidegate_store::{MemoryStore, NamedRule};

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);
const KEYS_MAX: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    ask(bytes);
    ask(&sealed(bytes.to_vec()));
});

fn ask(mut bytes: &[u8]) {
    let restored = match MemoryStore::restore(&mut bytes, KEYS_MAX) {
        Ok(restored) => restored,
        Err(error) => {
            assert!(error.is_damaged(), "bytes in memory can be read: {error}");
            return;
        }
    };
    let store = &restored.store;
    for rule in restored.rules.iter().take(16) {
        let other = Policy::token_bucket(Quota::per_second(3)).expect("a quota");
        for id in 0..4_u32 {
            let key = store.key(id).expect("a short key");
            for now in [Tick::default(), NOW, Tick::MAX] {
                store.decide(&rule.rule, key, now, id);
            }
        }
        let changed = store.change(&rule.rule, other, NOW).expect("few rules");
        store.decide(&changed, store.key(1).expect("a short key"), NOW, 1);
    }
    let rules = restored.rules.iter();
    let named = rules.map(|it| NamedRule { name: &it.name, limit: &it.limit, rule: &it.rule });
    let mut again = Vec::new();
    store.export(&named.collect::<Vec<_>>(), NOW, &mut again).expect("memory to write to");
    MemoryStore::restore(&mut &again[..], KEYS_MAX).expect("what was written just now");
}

/// Writes every checksum anew, so that what was changed is believed.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut at = 12;
    while let Some(&[kind, a, b, c, d]) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let end = at + 5 + length;
        if bytes.len() < end + 4 {
            break;
        }
        if kind == 4 && 4 <= length {
            let sum = crc32fast::hash(&bytes[..at]);
            bytes[end - 4..end].copy_from_slice(&sum.to_le_bytes());
        }
        let own = crc32fast::hash(&bytes[at..end]);
        bytes[end..end + 4].copy_from_slice(&own.to_le_bytes());
        at = end + 4;
    }
    bytes
}
