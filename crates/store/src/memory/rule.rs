//! The rules of a store: which policy a state lives under, and which it lived under before.

use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use tidegate_core::{Policy, State, Tick};

use crate::sync::{AtomicBool, Ordering, PoisonError, RwLock};

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
    life: Arc<Life>,
}

/// Alive for as long as somebody may ask by an id.
#[derive(Debug, Default)]
struct Life {
    /// Whether the rule has become another one.
    changed: AtomicBool,
}

/// What a rule was until its policy was changed.
#[derive(Clone, Debug)]
pub(super) struct Before {
    pub(super) id: RuleId,
    pub(super) policy: Policy,
    pub(super) until: Tick,
    /// Keeps the id from being given to another rule.
    #[expect(dead_code, reason = "held, not read")]
    life: Arc<Life>,
}

/// Names a rule in a tag. Zero names none, so that no tag is zero.
pub(super) type RuleId = u16;

/// All rules by their id, those of the past included.
#[derive(Debug, Default)]
pub(super) struct Book {
    entries: Vec<Entry>,
    /// Ids that nobody asks by and no state is written under.
    free: Vec<RuleId>,
}

#[derive(Debug)]
struct Entry {
    policy: Policy,
    /// What the rule has become, if its policy was changed: the latest, or one that was changed
    /// itself so often that it has lost sight of this one.
    next: Option<Arc<Rule>>,
    life: Weak<Life>,
}

impl Rule {
    fn new(id: RuleId, policy: Policy) -> Rule {
        let table = table_of(&policy);
        Rule { id, policy, table, before: None, moved_from: [false; 3], life: Arc::default() }
    }

    /// What this rule was before its quota changed, latest first.
    pub(super) fn before(&self) -> &[Before] {
        self.before.as_deref().unwrap_or_default()
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The policy under which states of this rule are written under `id`.
    pub(super) fn policy_of(&self, id: RuleId) -> Option<Policy> {
        let before = || self.before().iter().find(|before| before.id == id);
        if id == self.id { Some(self.policy) } else { before().map(|before| before.policy) }
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

    /// Whether the rule has become another one.
    #[inline]
    pub(super) fn is_changed(&self) -> bool {
        self.life.changed.load(Ordering::Acquire)
    }

    /// Makes `next` what this rule becomes from `now` on.
    fn becomes(&self, mut next: Rule, now: Tick) -> Rule {
        let (id, policy, life) = (self.id, self.policy, Arc::clone(&self.life));
        let old = Before { id, policy, until: now, life };
        let others = self.before().iter().filter(|before| before.id != next.id);
        let kept = others.take(Rule::CHANGES_MAX - 1).cloned();
        let before: Arc<[Before]> = std::iter::once(old).chain(kept).collect();
        for table in before.iter().map(|before| table_of(&before.policy)) {
            next.moved_from[table] |= table != next.table;
        }
        next.before = Some(before);
        next
    }

    /// How many changes of a quota are remembered. States that nobody has asked about since the
    /// one before count as fresh.
    const CHANGES_MAX: usize = 256;
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
    /// Writes `policy` down and names it; `None` if there is no id left.
    pub(super) fn add(&mut self, policy: Policy) -> Option<Rule> {
        let id = match RuleId::try_from(self.entries.len() + 1) {
            Ok(id) => id,
            Err(_) => self.free.pop()?,
        };
        let rule = Rule::new(id, policy);
        let entry = Entry { policy, next: None, life: Arc::downgrade(&rule.life) };
        match self.entries.get_mut(usize::from(id) - 1) {
            Some(free) => *free = entry,
            None => self.entries.push(entry),
        }
        Some(rule)
    }

    /// Changes the policy of `rule` from `now` on, and writes down what it has become; `None` if
    /// there is no id left.
    pub(super) fn change(&mut self, rule: &Rule, policy: Policy, now: Tick) -> Option<Rule> {
        let rule = self.latest(rule).map_or_else(|| rule.clone(), |latest| (*latest).clone());
        if rule.policy == policy {
            return Some(rule);
        }
        let next = Arc::new(rule.becomes(self.add(policy)?, now));
        self.lead_to(&next);
        rule.life.changed.store(true, Ordering::Release);
        Some((*next).clone())
    }

    /// The same for a quota that comes and goes: a policy that the rule has had goes on by its id,
    /// so that no number of changes uses up ids, or loses sight of a state.
    pub(super) fn swing(&mut self, rule: &Rule, policy: Policy, now: Tick) -> Option<Rule> {
        let rule = self.latest(rule).map_or_else(|| rule.clone(), |latest| (*latest).clone());
        let had = rule.before().iter().find(|before| before.policy == policy);
        let Some(id) = had.map(|before| before.id) else { return self.change(&rule, policy, now) };
        let next = Arc::new(rule.becomes(Rule::new(id, policy), now));
        self.lead_to(&next);
        if let Some(entry) = self.entries.get_mut(usize::from(id) - 1) {
            entry.life = Arc::downgrade(&next.life);
            // Whoever asks by what it was then finds what it is now, by the same id.
            entry.next = Some(Arc::clone(&next));
        }
        rule.life.changed.store(true, Ordering::Release);
        Some((*next).clone())
    }

    /// Has all that a rule was lead to what it is.
    fn lead_to(&mut self, next: &Arc<Rule>) {
        for id in next.before().iter().map(|before| before.id) {
            if let Some(entry) = self.entries.get_mut(usize::from(id) - 1) {
                entry.next = Some(Arc::clone(next));
            }
        }
    }

    /// What `rule` has become, if it was changed.
    pub(super) fn latest(&self, rule: &Rule) -> Option<Arc<Rule>> {
        self.latest_of(rule.id).cloned()
    }

    /// What the rule of `id` has become, if it was changed.
    pub(super) fn latest_of(&self, id: RuleId) -> Option<&Arc<Rule>> {
        let mut latest = self.entry(id)?.next.as_ref()?;
        while let Some(next) = self.entry(latest.id).and_then(|entry| entry.next.as_ref())
            && !Arc::ptr_eq(next, latest)
        {
            latest = next;
        }
        Some(latest)
    }

    /// The policy of `id`.
    pub(super) fn policy(&self, id: RuleId) -> Option<&Policy> {
        Some(&self.entry(id)?.policy)
    }

    /// The ids that nobody asks by any more.
    ///
    /// First every changed rule is told what it is by now, so that none keeps alive what lies
    /// between.
    pub(super) fn unasked(&mut self) -> HashSet<RuleId> {
        for index in 0..self.entries.len() {
            if let Some(next) = self.entries[index].next.clone() {
                let latest = self.latest(&next).unwrap_or(next);
                self.entries[index].next = Some(latest);
            }
        }
        let unasked = |(_, entry): &(RuleId, &Entry)| entry.life.strong_count() == 0;
        (1..=RuleId::MAX).zip(&self.entries).filter(unasked).map(|(id, _)| id).collect()
    }

    /// Gives ids free: nobody asks by them, and no state is written under them.
    pub(super) fn free(&mut self, ids: impl Iterator<Item = RuleId>) {
        self.free = ids.collect();
    }

    fn entry(&self, id: RuleId) -> Option<&Entry> {
        self.entries.get(usize::from(id).checked_sub(1)?)
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

/// The book, open for reading.
pub(super) fn read(book: &RwLock<Book>) -> impl Deref<Target = Book> {
    book.read().unwrap_or_else(PoisonError::into_inner)
}
