//! What a snapshot says beside its states: at the start, of each rule, and at the end.

use tidegate_core::{Policy, Tick};

use super::bytes::{Bytes, put_text};
use super::policy::{put_policy, read_policy};
use crate::key::Seed;

/// How every snapshot starts.
pub(super) const MAGIC: &[u8; 8] = b"TIDEGATE";

/// The version of the format. Another one is refused.
pub(super) const VERSION: u32 = 1;

/// The first block: under what keys are known.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) struct Header {
    /// When it was begun.
    pub(crate) at: Tick,
    pub(crate) seed: Seed,
    /// What one key hashes to under that seed.
    pub(crate) sample: u64,
    /// How many bits of a hash chose the shard.
    pub(crate) shard_bits: u32,
    /// How many bits of a hash are in the snapshot.
    pub(crate) hash_bits: u32,
    /// How many keys the store was for, of each size.
    pub(crate) keys_max: u64,
}

/// A rule, before its first state. Another one of the same name says that it was changed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Declared<'a> {
    pub(crate) name: &'a str,
    /// The name of the limit that it is a quota of; empty if that is its own.
    pub(crate) limit: &'a str,
    pub(crate) policy: Policy,
}

/// The last block: what had to come before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Footer {
    pub(crate) rules: u64,
    pub(crate) states: u64,
    /// By which tick each table had forgotten something.
    pub(crate) swept_at: [Tick; 3],
    /// The checksum of all that is before.
    pub(crate) sum: u32,
}

impl Header {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let Seed([a, b]) = self.seed;
        let mut bytes = Vec::new();
        for word in [self.at.get(), a, b, self.sample, self.keys_max] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.shard_bits.to_le_bytes());
        bytes.extend(self.hash_bits.to_le_bytes());
        bytes
    }

    pub(crate) fn read(content: &[u8]) -> Option<Header> {
        let mut bytes = Bytes(content);
        let at = bytes.tick()?;
        let (seed, sample) = (Seed([bytes.u64()?, bytes.u64()?]), bytes.u64()?);
        let (keys_max, shard_bits, hash_bits) = (bytes.u64()?, bytes.u32()?, bytes.u32()?);
        let is_whole = bytes.is_empty()
            && (1..=16).contains(&shard_bits)
            && (shard_bits + 1..=u64::BITS).contains(&hash_bits);
        is_whole.then_some(Header { at, seed, sample, shard_bits, hash_bits, keys_max })
    }
}

impl Declared<'_> {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_text(self.name, &mut bytes);
        put_text(self.limit, &mut bytes);
        put_policy(&self.policy, &mut bytes);
        bytes
    }

    pub(crate) fn read(content: &[u8]) -> Option<Declared<'_>> {
        let mut bytes = Bytes(content);
        let (name, limit) = (bytes.text()?, bytes.text()?);
        let policy = read_policy(&mut bytes)?;
        bytes.is_empty().then_some(Declared { name, limit, policy })
    }
}

impl Footer {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let [a, b, c] = self.swept_at.map(Tick::get);
        let mut bytes = Vec::new();
        for word in [self.rules, self.states, a, b, c] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.sum.to_le_bytes());
        bytes
    }

    pub(crate) fn read(content: &[u8]) -> Option<Footer> {
        let mut bytes = Bytes(content);
        let (rules, states) = (bytes.u64()?, bytes.u64()?);
        let swept_at = [bytes.tick()?, bytes.tick()?, bytes.tick()?];
        let sum = bytes.u32()?;
        bytes.is_empty().then_some(Footer { rules, states, swept_at, sum })
    }
}
