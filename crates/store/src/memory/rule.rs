//! The rules of a store: by which policy a key is judged, and which limit its state belongs to.
//!
//! A limit has one policy for most keys, and may have others for single ones; over time all of them
//! may change. A rule is one of these policies, with an id under which states are written. Rules of
//! one limit share states: a key is found under any of their ids, see `limit_table.rs`.
//!
//! A rule that was changed leads to what it has become by its lineage, not by its id: so an id can
//! be another rule's as soon as no state is written under it, however long the old rule is held.

use std::fmt;

use tidegate_core::{Applied, Policy};

use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering, PoisonError, RwLock};

/// A policy that a store keeps states for.
///
/// Made by [`MemoryStore::rule`](super::MemoryStore::rule), and only good for that store.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) id: RuleId,
    pub(super) policy: Policy,
    /// Which table keeps its states.
    pub(super) table: usize,
    pub(super) life: Arc<Life>,
    /// Nothing in the one that a lineage holds: otherwise neither would ever be dropped.
    pub(super) lineage: Option<Arc<Lineage>>,
    pub(super) limit: Arc<Limit>,
    /// What its policy is a part of.
    pub(super) whole: Policy,
}

/// A limit: what the rules have in common that are quotas of it.
#[derive(Debug, Default)]
pub(super) struct Limit {
    /// Where its keys may have states, as [`mark`] says of each of its rules; nothing for a limit
    /// that never had more than one.
    marks: AtomicUsize,
}

/// A rule from one change of its policy to the next.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// Whether the rule has become another one: nothing is written under its id any more.
    changed: AtomicBool,
}

/// What a rule is by now, for all who hold what it was.
#[derive(Debug)]
pub(super) struct Lineage {
    present: RwLock<Arc<Rule>>,
}

/// Names a rule in a tag. Zero names none, so that no tag is zero.
pub(super) type RuleId = u16;

impl Rule {
    /// A rule that has no lineage yet.
    pub(super) fn new(id: RuleId, applied: Applied, limit: Arc<Limit>) -> Rule {
        let Applied { policy, whole } = applied;
        let table = table_of(&policy);
        Rule { id, policy, table, life: Arc::default(), lineage: None, limit, whole }
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The policy, and what it is a part of.
    pub(super) fn applied(&self) -> Applied {
        Applied { policy: self.policy, whole: self.whole }
    }

    /// The tables in which its keys may have states, in ascending order.
    pub(super) fn tables(&self) -> impl Iterator<Item = usize> + use<> {
        let all = self.limit.marks() | 1 << self.table;
        (0..TABLES).filter(move |table| all & 1 << table != 0)
    }

    /// Whether a key may have a state under another rule of its limit.
    pub(super) fn shares_states(&self) -> bool {
        self.limit.marks() != 0
    }

    /// Whether another id may be of its limit: a sieve, so that few have to look it up.
    pub(super) fn may_share_with(&self, id: RuleId) -> bool {
        id != self.id && self.limit.marks() & mark_of_id(id) != 0
    }

    /// Whether the rule has become another one.
    #[inline]
    pub(super) fn is_changed(&self) -> bool {
        self.life.changed.load(Ordering::Acquire)
    }

    /// What it has become, if it was changed.
    pub(super) fn latest(&self) -> Option<Arc<Rule>> {
        let lineage = self.lineage.as_ref().filter(|_| self.is_changed())?;
        Some(lineage.present())
    }
}

impl Limit {
    /// Notes that it has several rules from now on, with these marks.
    pub(super) fn spreads_to(&self, marks: usize) {
        self.marks.fetch_or(marks, Ordering::Release);
    }

    pub(super) fn marks(&self) -> usize {
        self.marks.load(Ordering::Acquire)
    }
}

/// Where a rule has states: a bit for the table, and one that it shares with a few other ids.
pub(super) fn mark(id: RuleId, policy: &Policy) -> usize {
    1 << table_of(policy) | mark_of_id(id)
}

fn mark_of_id(id: RuleId) -> usize {
    1 << (TABLES + usize::from(id) % (usize::BITS as usize - TABLES))
}

/// Tables of a store.
const TABLES: usize = 3;

impl Life {
    /// Nobody writes under its id from now on, who looks at this while a shard is locked.
    pub(super) fn ends(&self) {
        self.changed.store(true, Ordering::Release);
    }
}

impl Lineage {
    pub(super) fn new(first: Rule) -> Lineage {
        Lineage { present: RwLock::new(Arc::new(first)) }
    }

    /// The rule as it is by now.
    pub(super) fn present(&self) -> Arc<Rule> {
        Arc::clone(&self.present.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has all that the rule was lead to what it is.
    pub(super) fn leads_to(&self, next: Rule) {
        *self.present.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }
}

/// Which table keeps the states of `policy`: that of one word, of two, or of lists.
fn table_of(policy: &Policy) -> usize {
    match policy.words() {
        1 => 0,
        2 => 1,
        _ => 2,
    }
}

/// More rules than a store can name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TooManyRules;

impl fmt::Display for TooManyRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store has at most 65,535 rules: drop some, or use several stores")
    }
}

impl std::error::Error for TooManyRules {}
