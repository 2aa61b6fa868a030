//! All rules of a store by their ids, and which ids are free.

use std::ops::Deref;

use tidegate_core::{Change, Policy, State, Tick};

use super::rule::{Life, Lineage, Rule, RuleId};
use crate::sync::{Arc, PoisonError, RwLock, Weak};

/// All rules by their ids, those of the past included.
#[derive(Debug, Default)]
pub(super) struct Book {
    entries: Vec<Entry>,
    /// Ids that nobody writes by and no state is written under.
    free: Vec<RuleId>,
    /// How often ids were given up.
    collected: u64,
}

#[derive(Debug)]
struct Entry {
    policy: Policy,
    life: Weak<Life>,
    lineage: Weak<Lineage>,
    /// Whether this is what the rule is by now.
    is_present: bool,
    /// Whether it ever had others that have it as an origin.
    has_heirs: bool,
}

/// A rule that is wanted: a new one, or what another becomes.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// What it is from now on.
    pub policy: Policy,
    /// What it was until now: what was consumed is kept.
    pub before: Option<&'a Rule>,
    /// How it becomes what is wanted.
    pub change: Change,
    /// Other rules that its keys had until now, which may go on: of what a key has consumed under
    /// them and under this one, the most counts. It is looked up when the key is first asked about,
    /// as long as somebody holds those rules.
    pub besides: &'a [Rule],
}

impl Book {
    /// Writes `policy` down and names it; `None` if there is no id left.
    pub(super) fn add(&mut self, policy: Policy) -> Option<Rule> {
        let first = Rule::new(self.unused_id()?, policy);
        Some(self.begin(first))
    }

    /// Changes the policy of `rule` from a tick on, and writes down what it has become; `None` if
    /// there is no id left, or its past is too long.
    pub(super) fn change(
        &mut self,
        rule: &Rule,
        policy: Policy,
        how: (Change, Tick),
    ) -> Option<Rule> {
        let rule = present(rule);
        if rule.policy == policy {
            return Some(rule);
        }
        if rule.has_long_past() {
            return None;
        }
        let id = self.unused_id()?;
        self.succeed(&rule, Rule::new(id, policy), how)
    }

    /// The same for a quota that comes and goes: a policy that the rule has had goes on by its id,
    /// so that no number of changes uses up ids.
    pub(super) fn swing(
        &mut self,
        rule: &Rule,
        policy: Policy,
        how: (Change, Tick),
    ) -> Option<Rule> {
        let rule = present(rule);
        let had = rule.ids().find(|&id| id != rule.id && rule.policy_of(id) == Some(policy));
        // Keys that were asked about when it had that id may have to be looked up elsewhere since.
        match had.filter(|_| rule.policy != policy && rule.origins.is_none()) {
            Some(id) => self.succeed(&rule, Rule::new(id, policy), how),
            None => self.change(&rule, policy, how),
        }
    }

    /// A rule that is wanted; `None` as for [`Book::change`].
    pub(super) fn put(&mut self, wanted: &Wanted<'_>, now: Tick) -> Option<Rule> {
        if !wanted.besides.is_empty() {
            return self.put_besides(wanted, now);
        }
        match wanted.before {
            Some(before) => self.swing(before, wanted.policy, (wanted.change, now)),
            None => self.add(wanted.policy),
        }
    }

    /// The same for one that has origins. It gets an id of its own in any case, by which it can be
    /// told which keys have been asked about since.
    fn put_besides(&mut self, wanted: &Wanted<'_>, now: Tick) -> Option<Rule> {
        let before = wanted.before.map(present);
        if before.as_ref().is_some_and(Rule::has_long_past) {
            return None;
        }
        let mut next = Rule::new(self.unused_id()?, wanted.policy);
        next.origins = before.as_ref().unwrap_or(&next).origins_with(wanted.besides, now);
        let made = match before {
            Some(before) => self.succeed(&before, next, (wanted.change, now))?,
            None => self.begin(next),
        };
        let lineages = wanted.besides.iter().filter_map(|source| source.lineage.as_ref());
        for (source, heir) in lineages.flat_map(|it| made.lineage.iter().map(move |own| (it, own)))
        {
            source.add_heir(heir);
        }
        for id in wanted.besides.iter().map(present).flat_map(|it| it.ids().collect::<Vec<_>>()) {
            if let Some(entry) = self.entries.get_mut(usize::from(id) - 1) {
                entry.has_heirs = true;
            }
        }
        Some(made)
    }

    /// How many more ids there are.
    pub(super) fn room(&self) -> usize {
        usize::from(RuleId::MAX) - self.entries.len() + self.free.len()
    }

    /// What the rule of `id` has become, if it was changed and somebody holds it.
    pub(super) fn latest_of(&self, id: RuleId) -> Option<Arc<Rule>> {
        let entry = self.entry(id).filter(|entry| !entry.is_present)?;
        Some(entry.lineage.upgrade()?.present())
    }

    /// What the rule of `id` is by now, if somebody holds it.
    pub(super) fn rule_of(&self, id: RuleId) -> Option<Rule> {
        self.entry(id)?.lineage.upgrade().map(Lineage::rule)
    }

    /// Whether a rule that has that of `id` as an origin would still owe something for `state`:
    /// then it is not to be forgotten, though its own rule would.
    fn is_owed_elsewhere(&self, id: RuleId, state: &State, now: Tick) -> bool {
        // Asked of every state that is forgotten: who has no heirs is not even counted as held.
        let entry = self.entry(id).filter(|entry| entry.has_heirs);
        let Some(source) = entry.and_then(|it| it.lineage.upgrade()).map(Lineage::rule) else {
            return false;
        };
        source.heirs().iter().any(|heir| {
            let copy = heir.copy_from(&source, state, now);
            copy.is_some_and(|copy| !heir.policy.is_fresh(&copy, now))
        })
    }

    /// Whether `state`, which is written under `id`, was fresh by a tick, and has not been asked
    /// about since.
    pub(super) fn is_fresh(&self, id: RuleId, state: &State, by: Tick) -> bool {
        let seen = |policy: &Policy, state: &State| {
            // A list that owes nothing any more knows when it was last asked about.
            let is_past = state.seen().is_none_or(|(latest, _)| latest <= by);
            is_past && policy.is_fresh(state, by) && !self.is_owed_elsewhere(id, state, by)
        };
        self.seen_by(id, state, seen).unwrap_or(false)
    }

    /// What the policy of `id` says of `state`.
    ///
    /// A state from before a change of quota is seen as what it would be carried over to: under the
    /// old policy alone it might be forgotten too soon.
    pub(super) fn seen_by<T>(
        &self,
        id: RuleId,
        state: &State,
        see: impl Fn(&Policy, &State) -> T,
    ) -> Option<T> {
        let policy = self.policy(id)?;
        let Some(latest) = self.latest_of(id) else { return Some(see(policy, state)) };
        let mut carried = state.clone();
        latest.carry(id, &mut carried);
        Some(see(&latest.policy, &carried))
    }

    /// The policy of `id`.
    pub(super) fn policy(&self, id: RuleId) -> Option<&Policy> {
        Some(&self.entry(id)?.policy)
    }

    /// By id, whether nobody can write under it any more; that of no rule comes first.
    pub(super) fn past(&self) -> Vec<bool> {
        let is_past = |entry: &Entry| !entry.is_present || entry.life.strong_count() == 0;
        std::iter::once(false).chain(self.entries.iter().map(is_past)).collect()
    }

    /// Gives up ids that nobody can write under, and no state is written under any more.
    pub(super) fn give_up(&mut self, past: &[bool]) {
        let ids = (0..=RuleId::MAX).zip(past).filter(|(_, is_past)| **is_past);
        self.free = ids.map(|(id, _)| id).collect();
        for &id in &self.free {
            let life = self.entries[usize::from(id) - 1].life.upgrade();
            life.inspect(|life| life.gives_up_id());
        }
        self.collected += 1;
    }

    /// How often ids were given up: as long as this is the same, each is whose it was.
    pub(super) fn collected(&self) -> u64 {
        self.collected
    }

    /// An id that is not in use.
    fn unused_id(&mut self) -> Option<RuleId> {
        match RuleId::try_from(self.entries.len() + 1) {
            Ok(id) => Some(id),
            Err(_) => self.free.pop(),
        }
    }

    /// Begins a lineage.
    fn begin(&mut self, first: Rule) -> Rule {
        let lineage = Arc::new(Lineage::new(first.clone()));
        self.write_down(&first, &lineage);
        Rule { lineage: Some(lineage), ..first }
    }

    /// Makes `next` what `rule` has become, for all who hold it.
    fn succeed(&mut self, rule: &Rule, next: Rule, how: (Change, Tick)) -> Option<Rule> {
        let lineage = rule.lineage.clone()?;
        let next = rule.becomes(next, how);
        self.write_down(&next, &lineage);
        if let Some(entry) = self.entries.get_mut(usize::from(rule.id) - 1) {
            entry.is_present = false;
        }
        lineage.leads_to(next.clone());
        rule.life.ends();
        Some(Rule { lineage: Some(lineage), ..next })
    }

    fn write_down(&mut self, rule: &Rule, lineage: &Arc<Lineage>) {
        let has_heirs = lineage.has_heirs();
        let (life, lineage) = (Arc::downgrade(&rule.life), Arc::downgrade(lineage));
        let entry = Entry { policy: rule.policy, life, lineage, is_present: true, has_heirs };
        match self.entries.get_mut(usize::from(rule.id) - 1) {
            Some(free) => *free = entry,
            None => self.entries.push(entry),
        }
    }

    fn entry(&self, id: RuleId) -> Option<&Entry> {
        self.entries.get(usize::from(id).checked_sub(1)?)
    }
}

/// What `rule` is by now.
fn present(rule: &Rule) -> Rule {
    let latest = rule.latest().map(|latest| (*latest).clone());
    Rule { lineage: rule.lineage.clone(), ..latest.unwrap_or_else(|| rule.clone()) }
}

/// The book, open for reading.
pub(super) fn read(book: &RwLock<Book>) -> impl Deref<Target = Book> {
    book.read().unwrap_or_else(PoisonError::into_inner)
}
