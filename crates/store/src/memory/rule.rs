//! The rules of a store: which policy a state lives under, and which it lived under before.
//!
//! A rule is told what it has become by its lineage, not by its id: so an id can be another rule's
//! as soon as no state is written under it, however long somebody still holds the old rule.

use std::fmt;

use tidegate_core::{Change, Policy, State, Tick};

use super::origin::Origin;
use crate::sync::{Arc, AtomicBool, Ordering, PoisonError, RwLock, Weak};

/// A policy that a store keeps states for.
///
/// Made by [`MemoryStore::rule`](super::MemoryStore::rule), and only good for that store.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) id: RuleId,
    pub(super) policy: Policy,
    /// Which table keeps its states.
    pub(super) table: usize,
    /// What this rule was before its quota changed, latest first; nothing for most.
    pub(super) before: Option<Arc<[Before]>>,
    /// Which of the tables keep states from before.
    pub(super) moved_from: [bool; 3],
    /// Other rules that its keys had before it; nothing for most.
    pub(super) origins: Option<Arc<[Origin]>>,
    pub(super) life: Arc<Life>,
    /// Nothing in the one that a lineage holds: otherwise neither would ever be dropped.
    pub(super) lineage: Option<Arc<Lineage>>,
}

/// A rule from one change of its policy to the next.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// Whether the rule has become another one: nothing is written under its id any more.
    changed: AtomicBool,
    /// Whether nothing that is written under its id is its own: the id may be another rule's.
    void: AtomicBool,
}

/// What a rule is by now, for all who hold what it was.
#[derive(Debug)]
pub(super) struct Lineage {
    present: RwLock<Arc<Rule>>,
    /// Those that have this one as an origin, as far as they are known.
    heirs: RwLock<Vec<Weak<Lineage>>>,
}

/// What a rule was until its policy was changed.
#[derive(Clone, Debug)]
pub(super) struct Before {
    id: RuleId,
    pub(super) policy: Policy,
    pub(super) until: Tick,
    /// How it became what it was next.
    change: Change,
    life: Arc<Life>,
}

/// Names a rule in a tag. Zero names none, so that no tag is zero.
pub(super) type RuleId = u16;

impl Rule {
    /// A rule that has no past and no lineage yet.
    pub(super) fn new(id: RuleId, policy: Policy) -> Rule {
        Rule {
            id,
            policy,
            table: table_of(&policy),
            before: None,
            moved_from: [false; 3],
            origins: None,
            life: Arc::default(),
            lineage: None,
        }
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What this rule was before its quota changed, latest first, as far as states may still be
    /// written under it.
    pub(super) fn before(&self) -> impl Iterator<Item = &Before> {
        self.before.iter().flat_map(|before| before.iter()).filter(|it| !it.life.is_void())
    }

    /// The ids under which its states are written.
    pub(super) fn ids(&self) -> impl Iterator<Item = RuleId> {
        self.before().map(|before| before.id).chain([self.id])
    }

    /// What it was when its states were written under `id`.
    pub(super) fn was(&self, id: RuleId) -> Option<&Before> {
        self.before().find(|before| before.id == id)
    }

    /// The policy under which states of this rule are written under `id`.
    pub(super) fn policy_of(&self, id: RuleId) -> Option<Policy> {
        if id == self.id { Some(self.policy) } else { self.was(id).map(|before| before.policy) }
    }

    /// Brings a state that was written under `id` up to this rule's policy, change by change.
    pub(super) fn carry(&self, id: RuleId, state: &mut State) {
        let Some(before) = &self.before else { return };
        let is_it = |before: &Before| before.id == id && !before.life.is_void();
        let Some(start) = before.iter().position(is_it) else { return };
        for index in (0..=start).rev() {
            let old = &before[index];
            let new = index.checked_sub(1).map_or(&self.policy, |next| &before[next].policy);
            old.change.carry((&old.policy, new), state, old.until);
        }
    }

    /// How many of `cells` that were charged by `old`, which is this rule by now, are given back.
    pub(super) fn worth(&self, old: &Rule, cells: u32) -> u32 {
        let before = self.before.as_deref().unwrap_or_default();
        let start = before.iter().position(|before| before.id == old.id);
        let Some(start) = start.filter(|_| !Arc::ptr_eq(&self.life, &old.life)) else {
            return cells;
        };
        self.policy.worth(before[..=start].iter().rev().map(|it| (&it.policy, it.change)), cells)
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

    /// When it became what it is, if it was something else before.
    pub(super) fn changed_at(&self) -> Option<Tick> {
        self.before.as_ref()?.first().map(|before| before.until)
    }

    /// Whether it was changed so often that its states have to be carried over first: a change
    /// more, and some would be lost sight of.
    pub(super) fn has_long_past(&self) -> bool {
        Rule::CHANGES_MAX <= self.before().count()
    }

    /// Makes `next` what this rule becomes from `now` on.
    pub(super) fn becomes(&self, mut next: Rule, (change, now): (Change, Tick)) -> Rule {
        let (id, policy, life) = (self.id, self.policy, Arc::clone(&self.life));
        let old = Before { id, policy, until: now, change, life };
        let others = self.before().filter(|before| before.id != next.id).cloned();
        let before: Arc<[Before]> = std::iter::once(old).chain(others).collect();
        for table in before.iter().map(|before| table_of(&before.policy)) {
            next.moved_from[table] |= table != next.table;
        }
        next.before = Some(before);
        next.origins = next.origins.or_else(|| self.origins_with(&[], now));
        next
    }

    /// What those are by now that have this one as an origin.
    pub(super) fn heirs(&self) -> Vec<Rule> {
        let Some(lineage) = &self.lineage else { return Vec::new() };
        let heirs = lineage.heirs.read().unwrap_or_else(PoisonError::into_inner);
        heirs.iter().filter_map(Weak::upgrade).map(Lineage::rule).collect()
    }

    /// The origins that it has and still needs at `now`, and `more` of them.
    pub(super) fn origins_with(&self, more: &[Rule], now: Tick) -> Option<Arc<[Origin]>> {
        let had = self.origins.iter().flat_map(|origins| origins.iter());
        let had = had.filter(|it| it.is_open(now) && !more.iter().any(|new| it.is_of(new)));
        let new = more.iter().filter_map(|source| Origin::new(source, &self.policy, now));
        let origins: Arc<[Origin]> = had.cloned().chain(new).collect();
        (!origins.is_empty()).then_some(origins)
    }

    /// How many changes of a quota are remembered for states that nobody has asked about since.
    const CHANGES_MAX: usize = 256;
}

impl Life {
    /// Nobody writes under its id from now on, who looks at this while a shard is locked.
    pub(super) fn ends(&self) {
        self.changed.store(true, Ordering::Release);
    }

    /// Gives up the id, under which nothing is written any more.
    pub(super) fn gives_up_id(&self) {
        self.void.store(true, Ordering::Release);
    }

    fn is_void(&self) -> bool {
        self.void.load(Ordering::Acquire)
    }
}

impl Lineage {
    /// The most that are asked whether they still need what is to be forgotten.
    const HEIRS_MAX: usize = 64;

    pub(super) fn new(first: Rule) -> Lineage {
        Lineage { present: RwLock::new(Arc::new(first)), heirs: RwLock::default() }
    }

    /// The rule as it is by now.
    pub(super) fn rule(lineage: Arc<Lineage>) -> Rule {
        let present = (*lineage.present()).clone();
        Rule { lineage: Some(lineage), ..present }
    }

    pub(super) fn present(&self) -> Arc<Rule> {
        Arc::clone(&self.present.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn has_heirs(&self) -> bool {
        !self.heirs.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Notes one that has this one as an origin from `now` on. Of many only some are known: for
    /// those beyond, what is paid here is forgotten, though they might still owe it.
    pub(super) fn add_heir(&self, heir: &Arc<Lineage>) {
        let mut heirs = self.heirs.write().unwrap_or_else(PoisonError::into_inner);
        let heir = Arc::downgrade(heir);
        heirs.retain(|it| 0 < it.strong_count() && !it.ptr_eq(&heir));
        if heirs.len() < Lineage::HEIRS_MAX {
            heirs.push(heir);
        }
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
