//! The rules of a store: which policy a state lives under, and which it lived under before.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tidegate_core::{Policy, State, Tick};

use crate::sync::{PoisonError, RwLock};

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
}

/// What a rule was until its policy was changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) id: RuleId,
    pub(super) policy: Policy,
    pub(super) until: Tick,
}

/// Names a rule in a tag. Zero names none, so that no tag is zero.
pub(super) type RuleId = u16;

/// All rules by their id, those of the past included.
#[derive(Debug, Default)]
pub(super) struct Book {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    policy: Policy,
    /// What the rule has become, if its policy was changed.
    next: Option<Arc<Rule>>,
}

impl Rule {
    pub(super) fn new(id: RuleId, policy: Policy) -> Rule {
        Rule { id, policy, table: table_of(&policy), before: None }
    }

    /// What this rule was before its quota changed, latest first.
    pub(super) fn before(&self) -> &[Before] {
        self.before.as_deref().unwrap_or_default()
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether states that were written under `id` are this rule's.
    pub(super) fn inherits(&self, id: RuleId) -> bool {
        self.before().iter().any(|before| before.id == id)
    }

    /// Brings a state that was written under `id` up to this rule's policy, change by change.
    pub(super) fn carry(&self, id: RuleId, state: &mut State) {
        let Some(start) = self.before().iter().position(|before| before.id == id) else { return };
        for index in (0..=start).rev() {
            let old = &self.before()[index];
            let new = index.checked_sub(1).map_or(&self.policy, |next| &self.before()[next].policy);
            new.carry(&old.policy, state, old.until);
        }
    }

    /// The rule that this one becomes under `policy` from `now` on.
    pub(super) fn becomes(&self, id: RuleId, policy: Policy, now: Tick) -> Rule {
        let old = Before { id: self.id, policy: self.policy, until: now };
        let kept = self.before().iter().take(Rule::CHANGES_MAX - 1).copied();
        let before = std::iter::once(old).chain(kept).collect();
        Rule { before: Some(before), ..Rule::new(id, policy) }
    }

    /// How many changes of a quota are remembered. States that nobody has asked about since the
    /// one before count as fresh.
    const CHANGES_MAX: usize = 64;
}

/// Which table keeps the states of `policy`: that of one word, of two, or of lists.
pub(super) fn table_of(policy: &Policy) -> usize {
    match policy.words() {
        1 => 0,
        2 => 1,
        _ => 2,
    }
}

impl Book {
    /// Writes `policy` down and names it.
    pub(super) fn add(&mut self, policy: Policy) -> Result<RuleId, TooManyRules> {
        let id = RuleId::try_from(self.entries.len() + 1).map_err(|_| TooManyRules)?;
        self.entries.push(Entry { policy, next: None });
        Ok(id)
    }

    /// Changes the policy of `rule` from `now` on, and writes down what it has become.
    pub(super) fn change(
        &mut self,
        rule: &Rule,
        policy: Policy,
        now: Tick,
    ) -> Result<Rule, TooManyRules> {
        let rule = self.latest(rule).map_or_else(|| rule.clone(), |latest| (*latest).clone());
        let next = rule.becomes(self.add(policy)?, policy, now);
        if let Some(entry) = self.entries.get_mut(usize::from(rule.id) - 1) {
            entry.next = Some(Arc::new(next.clone()));
        }
        Ok(next)
    }

    /// What `rule` has become, if it was changed.
    pub(super) fn latest(&self, rule: &Rule) -> Option<Arc<Rule>> {
        let mut latest = self.entry(rule.id)?.next.as_ref()?;
        while let Some(next) = self.entry(latest.id).and_then(|entry| entry.next.as_ref()) {
            latest = next;
        }
        Some(Arc::clone(latest))
    }

    /// The policy of `id`.
    pub(super) fn policy(&self, id: RuleId) -> Option<&Policy> {
        Some(&self.entry(id)?.policy)
    }

    fn entry(&self, id: RuleId) -> Option<&Entry> {
        self.entries.get(usize::from(id).checked_sub(1)?)
    }
}

/// More rules, or more changes of rules, than a store can name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TooManyRules;

impl fmt::Display for TooManyRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("more than 65,535 rules and changes of rules: make a new store")
    }
}

impl std::error::Error for TooManyRules {}

/// The book, open for reading.
pub(super) fn read(book: &RwLock<Book>) -> impl Deref<Target = Book> {
    book.read().unwrap_or_else(PoisonError::into_inner)
}
