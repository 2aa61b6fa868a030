//! A law: no decision writes a line of the cache that a decision on another shard writes.
//!
//! Two threads that write one line wait for each other, however different their keys are. Whatever
//! is counted here goes through the crate's `sync`; what is behind a lock is in its shard's lines.

use std::collections::HashMap;

use tidegate_core::{Kind, Policy, Quota, Span, Tick};

use super::{MemoryStore, Rule};
use crate::key::Key;
use crate::sync::counted::lines_written;

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

/// What a sweep writes elsewhere: a lock in each of three tables, and that of the book. There is
/// one sweep in 256 decisions.
const SWEEP: usize = 8;

/// What a shard that grows writes to hints, which are four to a line.
const GROWTH: usize = 4;

/// Writes to lines that other shards write more, in 256 decisions.
fn foreign_writes(
    store: &MemoryStore,
    rule: &Rule,
    requests: impl Iterator<Item = (Key, Tick)>,
) -> usize {
    let mut lines: HashMap<usize, HashMap<usize, usize>> = HashMap::new();
    let mut decisions = 0;
    for (key, now) in requests {
        let shard = store.tables[rule.table].place(key).shard;
        for line in lines_written(|| _ = store.decide(rule, key, now, 1)) {
            *lines.entry(line).or_default().entry(shard).or_default() += 1;
        }
        decisions += 1;
    }
    let foreign = |by: &HashMap<usize, usize>| {
        by.values().sum::<usize>() - by.values().max().copied().unwrap_or_default()
    };
    lines.values().map(foreign).sum::<usize>() * 256 / decisions
}

/// Every algorithm, and a bucket whose states take two words.
fn policies(quota: Quota, wide: Quota) -> impl Iterator<Item = Policy> {
    let made = |kind, quota| Policy::new(kind, quota).expect("a quota that is accepted");
    let all = Kind::ALL.into_iter().map(move |kind| made(kind, quota));
    all.chain([made(Kind::Gcra, wide)])
}

fn check(
    (quota, wide): (Quota, Quota),
    (keys_max, most): (usize, usize),
    requests: impl Fn(&MemoryStore) -> Vec<(Key, Tick)>,
) {
    for policy in policies(quota, wide) {
        let store = MemoryStore::with_keys_max(keys_max);
        let rule = store.rule(policy).expect("the first rule");
        let requests = requests(&store);
        let foreign = foreign_writes(&store, &rule, requests.into_iter());
        assert!(foreign <= most, "{policy:?}: {foreign} writes in 256 decisions");
    }
}

/// A quota for each of the policies, of which debts last.
const LASTING: (Quota, Quota) = (Quota::per_day(900), Quota::per_day(1_000_003));

fn key(store: &MemoryStore, id: u64) -> Key {
    store.key(id).expect("a short key")
}

#[test]
fn keys_that_are_known_share_no_line_with_other_shards() {
    check(LASTING, (1 << 16, SWEEP), |store| {
        (0..120_000).map(|step| (key(store, step % 2_000), NOW)).collect()
    });
}

#[test]
fn new_keys_share_no_line_with_other_shards() {
    check(LASTING, (1 << 16, SWEEP + GROWTH), |store| {
        (0..50_000).map(|step| (key(store, step), NOW)).collect()
    });
}

#[test]
fn keys_that_are_fresh_again_share_no_line_with_other_shards() {
    let brief = (Quota::per_second(900), Quota::per_second(1_000_003));
    check(brief, (1 << 16, SWEEP), |store| {
        let at = |step: u64| NOW.after(Span::from_micros(step * 1_000));
        (0..120_000).map(|step| (key(store, step % 4_000), at(step))).collect()
    });
}

/// Most of them find no room: they are judged in groups, or refused.
#[test]
fn keys_beyond_the_cap_share_no_line_with_other_shards() {
    check(LASTING, (1 << 13, SWEEP + GROWTH), |store| {
        let at = |step: u64| NOW.after(Span::from_micros(step * 100));
        (0..80_000).map(|step| (key(store, step), at(step))).collect()
    });
}
