//! Snapshots: the states of a [`MemoryStore`] as bytes, and back.
//!
//! A file is a mark, a version and blocks, each with its length and checksum; the last one has a
//! checksum over all that is before it. Whatever is cut off, flipped or moved is noticed, and a
//! store is only handed out once the last byte has been checked. Nothing here touches a store:
//! `memory/export.rs` and `memory/restore.rs` do.

mod block;
mod bytes;
mod error;
mod header;
mod policy;
mod states;

use tidegate_core::Tick;

use crate::memory::{MemoryStore, Rule};

pub use self::error::SnapshotError;

pub(crate) use self::block::{Block, BlockReader, BlockWriter};
pub(crate) use self::header::{Declared, Footer, Header};
pub(crate) use self::states::{Entry, StatesWriter, read_states};

/// A rule to be exported, by a name under which it is found again.
#[derive(Clone, Copy, Debug)]
pub struct NamedRule<'a> {
    /// The name. Each is given once.
    pub name: &'a str,
    /// The name of its limit, if it is a quota of a limit of another name; empty for most. Rules
    /// of one limit share the states of their keys.
    pub limit: &'a str,
    /// The rule.
    pub rule: &'a Rule,
}

/// What was exported.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Exported {
    /// How long the snapshot is.
    pub bytes: u64,
    /// How many states are in it.
    pub states: u64,
    /// Of each rule, in the order in which they were given, how many states still owed something.
    pub owing: Vec<u64>,
}

/// A store with the states of a snapshot.
#[derive(Debug)]
pub struct Restored {
    /// The store.
    pub store: MemoryStore,
    /// When the snapshot was taken, by the clock of that time.
    pub at: Tick,
    /// How many states were in it.
    pub states: u64,
    /// The rules of its states. What nobody keeps is forgotten.
    pub rules: Vec<RestoredRule>,
}

/// A rule of a snapshot. [`MemoryStore::change`] makes it what it is to be from now on.
#[derive(Clone, Debug)]
pub struct RestoredRule {
    /// The name under which it was exported.
    pub name: String,
    /// The name of its limit, as it was exported; empty for most.
    pub limit: String,
    /// The rule, under the policy that it had.
    pub rule: Rule,
}
