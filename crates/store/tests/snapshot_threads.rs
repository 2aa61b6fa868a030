//! Snapshots that are taken while others decide: nobody is held back, and nothing is lost.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tidegate_core::{Kind, Policy, Quota, Tick};
use tidegate_sim::rng::Rng;
use tidegate_store::{MemoryStore, NamedRule, Rule};

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);
const KEYS: u32 = 3_000;

fn export(store: &MemoryStore, rule: &Rule) -> Vec<u8> {
    let mut bytes = Vec::new();
    let named = [NamedRule { name: "rule", limit: "", rule }];
    store.export(&named, NOW, &mut bytes).unwrap();
    bytes
}

/// Asks about every key whenever something is written: it would wait for ever for a lock that is
/// held meanwhile.
struct Asks {
    store: Arc<MemoryStore>,
    rule: Rule,
    written: usize,
}

impl Write for Asks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for id in 0..KEYS {
            self.store.decide(&self.rule, self.store.key(id).unwrap(), NOW, 1);
        }
        self.written += 1;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn no_lock_is_held_while_anything_is_written() {
    for kind in [Kind::TokenBucket, Kind::SlidingWindow, Kind::SlidingLog] {
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            let store = Arc::new(MemoryStore::with_keys_max(1 << 16));
            let rule = store.rule(Policy::new(kind, Quota::per_hour(1_000)).unwrap()).unwrap();
            let mut out = Asks { store: Arc::clone(&store), rule: rule.clone(), written: 0 };
            out.write_all(b"once").unwrap();
            let named = [NamedRule { name: "rule", limit: "", rule: &rule }];
            store.export(&named, NOW, &mut out).unwrap();
            done.send(out.written).unwrap();
        });
        let written = is_done.recv_timeout(Duration::from_mins(1));
        assert!(6 < written.expect("a lock was held while something was written"));
    }
}

#[test]
fn a_snapshot_taken_under_load_knows_all_that_passed_before_it() {
    const LIMIT: u32 = 40;
    for kind in Kind::ALL {
        let store = MemoryStore::with_keys_max(1 << 14);
        let rule = store.rule(Policy::new(kind, Quota::per_hour(LIMIT)).unwrap()).unwrap();
        let passed: Vec<AtomicU32> = (0..KEYS).map(|_| AtomicU32::new(0)).collect();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            for seed in 0..2 {
                let (store, rule, passed, stop) = (&store, &rule, &passed, &stop);
                scope.spawn(move || {
                    let mut rng = Rng::new(seed);
                    while !stop.load(Ordering::Relaxed) {
                        let id = rng.below_u32(KEYS);
                        let key = store.key(id).unwrap();
                        if store.decide(rule, key, NOW, 1).verdict.passes() {
                            passed[id as usize].fetch_add(1, Ordering::SeqCst);
                        }
                    }
                });
            }
            for _ in 0..20 {
                let read = || passed.iter().map(|it| it.load(Ordering::SeqCst)).collect();
                let before: Vec<u32> = read();
                let bytes = export(&store, &rule);
                // A thread that is just counting had decided before.
                let after: Vec<u32> = read();
                check(&bytes, &before, &after, LIMIT);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

/// After a restart at most that passes again which passed since the snapshot was begun.
fn check(bytes: &[u8], before: &[u32], after: &[u32], limit: u32) {
    let restored = MemoryStore::restore(&mut &*bytes, 1 << 14).unwrap();
    let Some(known) = restored.rules.first() else { return };
    for (id, (before, after)) in (0..KEYS).zip(before.iter().zip(after)) {
        let key = restored.store.key(id).unwrap();
        let left = restored.store.peek(&known.rule, key, NOW, 0).remaining;
        assert!(left <= limit - before, "key {id}: {before} passed before, {left} are left");
        // Two threads may each have decided once and not counted it yet.
        assert!(limit <= left + after + 2, "key {id}: {after} passed, only {left} are left");
    }
}

/// A change of quota moves keys from table to table when they are next asked about: a snapshot
/// that is taken meanwhile finds each in one of them.
#[test]
fn a_key_that_moves_while_a_snapshot_is_taken_is_in_it() {
    const KEYS: u32 = 200;
    let quota = Quota::per_hour(10);
    for round in 0..8 {
        let store = MemoryStore::with_keys_max(1 << 12);
        let kinds = [Kind::TokenBucket, Kind::FixedWindow, Kind::SlidingLog];
        let policy = |turn: usize| Policy::new(kinds[turn % 3], quota).unwrap();
        let first = store.rule(policy(round)).unwrap();
        for id in 0..KEYS {
            store.decide(&first, store.key(id).unwrap(), NOW, 7);
        }
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut rule = first.clone();
                for turn in 0..200 {
                    rule = store.change(&rule, policy(turn), NOW).unwrap();
                    for id in 0..KEYS {
                        store.peek(&rule, store.key(id).unwrap(), NOW, 0);
                    }
                }
                stop.store(true, Ordering::Relaxed);
            });
            while !stop.load(Ordering::Relaxed) {
                let bytes = export(&store, &first);
                let restored = MemoryStore::restore(&mut &bytes[..], 1 << 12).unwrap();
                for id in 0..KEYS {
                    let key = restored.store.key(id).unwrap();
                    let left = restored.store.peek(&restored.rules[0].rule, key, NOW, 0).remaining;
                    assert_eq!(left, 3, "key {id} was given back what it had consumed");
                }
            }
        });
    }
}
