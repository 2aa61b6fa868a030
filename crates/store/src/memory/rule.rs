//! The rules of a store: which policy a state lives under, and which it lived under before.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Policy, State, Tick};

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

/// The policies of all rules by their id, those of the past included.
#[derive(Debug, Default)]
pub(super) struct Book {
    policies: Vec<Policy>,
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
        self.policies.push(policy);
        RuleId::try_from(self.policies.len()).map_err(|_| TooManyRules)
    }

    /// The policy of `id`.
    pub(super) fn policy(&self, id: RuleId) -> Option<&Policy> {
        self.policies.get(usize::from(id).checked_sub(1)?)
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
