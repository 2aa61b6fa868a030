//! A snapshot that is not what was written is refused: never a panic, and never half of it.
//!
//! `cargo xtask fuzz snapshot` does the same with coverage to guide it; its seeds run here.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use tidegate_core::{Kind, Policy, Quota, Tick};
use tidegate_sim::rng::Rng;
use tidegate_store::{MemoryStore, NamedRule, SnapshotError};

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

/// A snapshot with states of every kind, crowds among them.
fn small() -> Vec<u8> {
    let store = MemoryStore::with_keys_max(8);
    let mut rules = Vec::new();
    for kind in Kind::ALL {
        let rule = store.rule(Policy::new(kind, Quota::per_hour(10)).unwrap()).unwrap();
        for id in 0..5_u32 {
            store.decide(&rule, store.key(id).unwrap(), NOW, 1 + id);
        }
        rules.push((kind.name(), rule));
    }
    let boundaries = [0, NOW.get() + 5, NOW.get() + 9].map(Tick::from_micros);
    rules.push(("calendar", store.rule(Policy::calendar(9, boundaries).unwrap()).unwrap()));
    store.decide(&rules[8].1, store.key("ada").unwrap(), NOW, 3);
    let named = rules.iter().map(|(name, rule)| NamedRule { name, limit: "other", rule });
    let mut bytes = Vec::new();
    store.export(&named.collect::<Vec<_>>(), NOW, &mut bytes).unwrap();
    bytes
}

fn refused(bytes: &[u8]) -> SnapshotError {
    let error = MemoryStore::restore(&mut &*bytes, 64).expect_err("it was accepted");
    assert!(error.is_damaged(), "{error}");
    error
}

/// Asks a store that was made of anything at all.
fn asked(bytes: &[u8]) -> Result<(), SnapshotError> {
    let restored = MemoryStore::restore(&mut &*bytes, 64)?;
    for rule in &restored.rules {
        for id in 0..5_u32 {
            let key = restored.store.key(id).unwrap();
            for now in [Tick::default(), NOW, Tick::MAX] {
                restored.store.decide(&rule.rule, key, now, id);
            }
        }
        let policy = Policy::token_bucket(Quota::per_second(3)).unwrap();
        let changed = restored.store.change(&rule.rule, policy, NOW).unwrap();
        restored.store.decide(&changed, restored.store.key(1).unwrap(), NOW, 1);
    }
    let rules = restored.rules.iter();
    let named = rules.map(|it| NamedRule { name: &it.name, limit: &it.limit, rule: &it.rule });
    let mut again = Vec::new();
    restored.store.export(&named.collect::<Vec<_>>(), NOW, &mut again).unwrap();
    MemoryStore::restore(&mut &again[..], 64).expect("what we wrote ourselves");
    Ok(())
}

/// Writes every checksum anew, so that what was changed is believed.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let mut at = 12;
    while let Some(start) = bytes.get(at..at + 5) {
        let length = u32::from_le_bytes(start[1..].try_into().unwrap()) as usize;
        let (end, is_last) = (at + 5 + length, start[0] == 4);
        if bytes.len() < end + 4 {
            break;
        }
        if is_last && 4 <= length {
            let sum = crc32fast::hash(&bytes[..at]);
            bytes[end - 4..end].copy_from_slice(&sum.to_le_bytes());
        }
        let own = crc32fast::hash(&bytes[at..end]);
        bytes[end..end + 4].copy_from_slice(&own.to_le_bytes());
        at = end + 4;
    }
    bytes
}

/// Where blocks begin, and where the last one ends.
fn edges(bytes: &[u8]) -> Vec<usize> {
    let mut edges = vec![12];
    while let Some(length) = bytes.get(edges[edges.len() - 1] + 1..).and_then(|it| it.get(..4)) {
        let length = u32::from_le_bytes(length.try_into().unwrap()) as usize;
        edges.push(edges[edges.len() - 1] + 9 + length);
    }
    edges
}

#[test]
fn a_whole_snapshot_is_accepted() {
    let bytes = small();
    asked(&bytes).unwrap();
    assert_eq!(sealed(bytes.clone()), bytes);
}

#[test]
fn a_snapshot_that_is_cut_off_anywhere_is_refused() {
    let bytes = small();
    for length in 0..bytes.len() {
        let error = refused(&bytes[..length]);
        let message = error.to_string();
        let expected = format!("the snapshot is damaged at byte {}: it ends too early", {
            let SnapshotError::Damaged { at, .. } = error else { panic!("{message}") };
            assert!(at <= length as u64, "noticed after the end");
            at
        });
        assert_eq!(message, expected);
    }
}

#[test]
fn a_snapshot_with_a_single_bit_flipped_is_refused() {
    let mut bytes = small();
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        refused(&bytes);
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    asked(&bytes).unwrap();
}

#[test]
fn blocks_that_are_left_out_repeated_or_moved_are_refused() {
    // How keys fall on shards is chance.
    let has_many = |bytes: &Vec<u8>| 11 < edges(bytes).len();
    let bytes = std::iter::repeat_with(small).find(has_many).unwrap();
    let edges = edges(&bytes);
    let blocks: Vec<&[u8]> = edges.windows(2).map(|it| &bytes[it[0]..it[1]]).collect();
    assert!(10 < blocks.len());
    let file = |blocks: &[&[u8]]| [&bytes[..12], &blocks.concat()].concat();
    assert_eq!(file(&blocks), bytes);
    for index in 0..blocks.len() {
        let mut left_out = blocks.clone();
        left_out.remove(index);
        refused(&file(&left_out));
        let mut repeated = blocks.clone();
        repeated.insert(index, blocks[index]);
        refused(&file(&repeated));
        let mut moved = blocks.clone();
        moved.swap(index, (index + 1) % blocks.len());
        refused(&file(&moved));
    }
    refused(&[&bytes[..], b"\n"].concat());
}

#[test]
fn what_is_wrong_is_said() {
    let bytes = small();
    let mut newer = bytes.clone();
    newer[8] = 2;
    assert_eq!(
        refused(&newer).to_string(),
        "the snapshot is of format 2, and this version reads format 1: start the version that \
         wrote it, or put the file aside"
    );
    let text = refused(b"rules: [{ name: per-client }]").to_string();
    assert_eq!(text, "the file is not a snapshot of Tidegate");
    assert_eq!(refused(b"").to_string(), "the snapshot is damaged at byte 0: it ends too early");
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let at = bytes.len();
    let message = format!("the snapshot is damaged at byte {at}: a checksum does not match");
    assert_eq!(refused(&flipped).to_string(), message);
    // The sample of the seed's hashes, after the tick and the seed.
    let mut hashed = bytes;
    hashed[12 + 5 + 24] ^= 1;
    assert!(matches!(refused(&sealed(hashed)), SnapshotError::Hashing));
}

/// Lengths and counts that nothing is behind take no memory, and no time.
#[test]
fn absurd_counts_are_refused() {
    let bytes = small();
    let edges = edges(&bytes);
    for &edge in &edges[..edges.len() - 1] {
        for at in edge + 1..edge + 30 {
            let mut absurd = bytes.clone();
            let Some(count) = absurd.get_mut(at..at + 4) else { continue };
            count.fill(0xFF);
            drop(asked(&sealed(absurd)));
        }
    }
}

/// Files with the right checksums and any content: refused, or good to ask.
#[test]
fn forged_snapshots_never_panic() {
    let (bytes, mut rng) = (small(), Rng::new(5));
    let mut accepted = 0;
    for _ in 0..30_000 {
        let mut forged = bytes.clone();
        for _ in 0..=rng.below(3) {
            let at = usize::try_from(rng.below(forged.len() as u64)).unwrap();
            let word = [0, 1, 0x7F, 0xFF, 0x80][usize::try_from(rng.below(5)).unwrap()];
            forged[at] = word;
            if rng.one_in(4) {
                let end = (at + 1 + usize::try_from(rng.below(8)).unwrap()).min(forged.len());
                forged[at..end].fill(word);
            }
        }
        accepted += u32::from(asked(&sealed(forged)).is_ok());
    }
    assert!(1_000 < accepted, "{accepted} accepted: nothing was tried");
}

#[test]
fn every_seed_of_the_fuzzer_is_answered() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/snapshot");
    let (mut seeds, mut accepted) = (0, 0);
    for seed in fs::read_dir(&folder).unwrap() {
        let bytes = fs::read(seed.unwrap().path()).unwrap();
        drop(asked(&bytes));
        accepted += u32::from(asked(&sealed(bytes)).is_ok());
        seeds += 1;
    }
    assert!(3 <= seeds && 1 <= accepted, "{seeds} seeds, {accepted} of them snapshots");
}
