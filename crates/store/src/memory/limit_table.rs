//! All rules of a store by their ids: what states are written under, and which ids are free.

use std::collections::HashMap;
use std::iter::repeat;
use std::ops::Deref;

use tidegate_core::{Applied, Policy, State, Tick};

use super::rule::{Life, Limit, Lineage, Rule, RuleId, mark};
use crate::sync::{Arc, PoisonError, RwLock, Weak};

/// All rules by their ids, those of the past included.
#[derive(Debug, Default)]
pub(super) struct LimitTable {
    entries: Vec<Entry>,
    /// Ids that nobody writes by and no state is written under.
    free: Vec<RuleId>,
    /// How often anything was written down or given up.
    version: u64,
    /// The latest tick of a change.
    changed_at: Tick,
}

#[derive(Debug)]
struct Entry {
    applied: Applied,
    life: Weak<Life>,
    lineage: Weak<Lineage>,
    limit: Arc<Limit>,
    /// Whether this is what the rule is by now.
    is_present: bool,
    /// The id that the rule had before, or zero: under which policies it was.
    previous: RuleId,
}

/// A rule that is wanted: a new one, or what another becomes.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// What it is from now on.
    pub policy: Policy,
    /// What that is a part of; the policy itself if all of it is given out.
    pub whole: Policy,
    /// What it was until now: what was consumed is kept.
    pub before: Option<&'a Rule>,
    /// The number of its limit: rules of one number are quotas of one limit, so a key has one state
    /// under all of them, and takes it along from one to another.
    pub limit: usize,
    /// Other rules that are quotas of that limit from now on, and are not wanted any more.
    pub others: &'a [Rule],
}

/// A rule that is about to become another.
#[derive(Debug)]
pub(super) struct Turn {
    id: RuleId,
    life: Arc<Life>,
    lineage: Arc<Lineage>,
    next: Rule,
    now: Tick,
}

/// Limits by numbers that a caller gives them.
pub(super) type Limits = HashMap<usize, Vec<Arc<Limit>>>;

/// What becomes of the states under an id that is to be given up.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    /// The id is in use.
    Stays,
    /// Nobody can ask about them any more.
    Dropped,
    /// They are carried to this rule.
    GoTo(Arc<Rule>),
}

impl Wanted<'_> {
    pub(super) fn applied(&self) -> Applied {
        Applied { policy: self.policy, whole: self.whole }
    }
}

impl LimitTable {
    /// Changes the policy of `rule` at a tick, and writes down what it has become; `None` if there
    /// is no id left. A policy that it has had goes on under the id that it had.
    pub(super) fn change(&mut self, rule: &Rule, applied: Applied, now: Tick) -> Option<Rule> {
        let rule = present(rule);
        let limit = self.entry(rule.id).map(|entry| Arc::clone(&entry.limit))?;
        let mut turns = Vec::new();
        let next = self.become_of(&rule, applied, &limit, (now, &mut turns));
        self.turn(turns);
        next
    }

    /// A rule that is wanted, as a quota of `limit`; `None` if there is no id left. One that was
    /// something before goes on as that until its turn.
    pub(super) fn put(
        &mut self,
        wanted: &Wanted<'_>,
        limit: &Arc<Limit>,
        (now, turns): (Tick, &mut Vec<Turn>),
    ) -> Option<Rule> {
        match wanted.before.map(present) {
            Some(before) => self.become_of(&before, wanted.applied(), limit, (now, turns)),
            None => self.begin(wanted.applied(), limit),
        }
    }

    /// The limits of what is wanted as they are until now, by their numbers.
    pub(super) fn limits(&self, wanted: &[Wanted<'_>]) -> Limits {
        let mut limits = Limits::new();
        for it in wanted {
            let known = limits.entry(it.limit).or_default();
            for rule in it.before.into_iter().chain(it.others).map(present) {
                // A rule may not know yet that its limit has become one with another.
                let own = self.entry(rule.id).map(|entry| &entry.limit);
                for limit in own.into_iter().chain([&rule.limit]) {
                    if !known.iter().any(|it| Arc::ptr_eq(it, limit)) {
                        known.push(Arc::clone(limit));
                    }
                }
            }
        }
        limits
    }

    /// The limits of what is wanted from now on, by their numbers: one for each, the first of those
    /// that it has been.
    pub(super) fn merged(
        &mut self,
        wanted: &[Wanted<'_>],
        limits: &Limits,
    ) -> HashMap<usize, Arc<Limit>> {
        let one = |limits: &[Arc<Limit>]| limits.first().cloned().unwrap_or_default();
        let merged: HashMap<usize, Arc<Limit>> =
            limits.iter().map(|(number, limits)| (*number, one(limits))).collect();
        let known = limits.iter().flat_map(|(number, limits)| limits.iter().zip(repeat(*number)));
        let known: HashMap<_, usize> =
            known.map(|(it, number)| (Arc::as_ptr(it), number)).collect();
        // How many rules each has had, and their marks.
        let mut counted: HashMap<usize, (usize, usize)> = HashMap::new();
        let mut count = |number, mark| {
            let (rules, marks) = counted.entry(number).or_default();
            (*rules, *marks) = (*rules + 1, *marks | mark);
        };
        for (id, entry) in (1..=RuleId::MAX).zip(&mut self.entries) {
            if let Some(number) = known.get(&Arc::as_ptr(&entry.limit)) {
                count(*number, mark(id, &entry.applied.policy));
                entry.limit = Arc::clone(&merged[number]);
            }
        }
        for it in wanted.iter().filter(|it| it.before.is_none()) {
            // Whose id is not known yet: `begin` adds it.
            count(it.limit, mark(0, &it.policy));
        }
        for (number, (_, marks)) in counted.iter().filter(|(_, (rules, _))| 1 < *rules) {
            // Rules that are held by others still know the limit that they had.
            for limit in limits[number].iter().chain([&merged[number]]) {
                limit.spreads_to(*marks);
            }
        }
        merged
    }

    /// How many more ids there are.
    pub(super) fn room(&self) -> usize {
        usize::from(RuleId::MAX) - self.entries.len() + self.free.len()
    }

    /// Whether states under both ids are states of one limit.
    pub(super) fn are_of_one_limit(&self, one: RuleId, other: RuleId) -> bool {
        let limits = self.entry(one).zip(self.entry(other));
        limits.is_some_and(|(one, other)| Arc::ptr_eq(&one.limit, &other.limit))
    }

    /// Takes over a state that is written under one id to be written under another.
    pub(super) fn carry(&self, (from, to): (RuleId, RuleId), state: &mut State, now: Tick) {
        if let Some((from, to)) = self.entry(from).zip(self.entry(to)) {
            to.applied.carry(&from.applied, state, now);
        }
    }

    /// Whether `state`, which is written under `id`, was fresh by a tick, and has not been asked
    /// about since.
    pub(super) fn is_fresh(&self, id: RuleId, state: &State, by: Tick) -> bool {
        // A list that owes nothing any more knows when it was last asked about.
        let is_past = state.seen().is_none_or(|(latest, _)| latest <= by);
        is_past && self.policy(id).is_some_and(|policy| policy.is_fresh(state, by))
    }

    /// The policy of `id`.
    pub(super) fn policy(&self, id: RuleId) -> Option<&Policy> {
        Some(&self.entry(id)?.applied.policy)
    }

    /// Changes whenever anything was written down or given up.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The latest tick of a change.
    pub(super) fn changed_at(&self) -> Tick {
        self.changed_at
    }

    /// For every id the place in `rules` of the rule that its states belong to, if one does: of
    /// that rule, or otherwise of the first that is of its limit.
    pub(super) fn places(&self, rules: &[Rule]) -> Vec<Option<usize>> {
        let (mut by_lineage, mut by_limit) = (HashMap::new(), HashMap::new());
        for (place, rule) in rules.iter().enumerate() {
            if let Some(entry) = self.entry(present(rule).id) {
                by_lineage.insert(entry.lineage.as_ptr(), place);
                by_limit.entry(Arc::as_ptr(&entry.limit)).or_insert(place);
            }
        }
        let place = |entry: &Entry| {
            let own = by_lineage.get(&entry.lineage.as_ptr());
            own.or_else(|| by_limit.get(&Arc::as_ptr(&entry.limit))).copied()
        };
        std::iter::once(None).chain(self.entries.iter().map(place)).collect()
    }

    /// By id, what becomes of the states under it if all ids are given up that nobody can write
    /// under any more.
    pub(super) fn fates(&self) -> Vec<Fate> {
        let is_past = |entry: &Entry| !entry.is_present || entry.life.strong_count() == 0;
        let mut by_limit = HashMap::new();
        for entry in self.entries.iter().filter(|entry| !is_past(entry)) {
            let limit = by_limit.entry(Arc::as_ptr(&entry.limit));
            limit.or_insert_with(|| entry.lineage.upgrade().map(|it| it.present()));
        }
        let fate = |entry: &Entry| {
            if !is_past(entry) {
                return Fate::Stays;
            }
            let own = entry.lineage.upgrade().map(|lineage| lineage.present());
            let other = || by_limit.get(&Arc::as_ptr(&entry.limit)).cloned().flatten();
            own.or_else(other).map_or(Fate::Dropped, Fate::GoTo)
        };
        std::iter::once(Fate::Dropped).chain(self.entries.iter().map(fate)).collect()
    }

    /// Gives up ids that nobody can write under, and no state is written under any more.
    pub(super) fn give_up(&mut self, fates: &[Fate]) {
        let ids = (0..=RuleId::MAX).zip(fates).skip(1);
        let free = ids.filter(|(_, fate)| !matches!(fate, Fate::Stays));
        self.free = free.map(|(id, _)| id).collect();
        for &id in &self.free {
            let entry = &mut self.entries[usize::from(id) - 1];
            // Of no rule and no limit any more.
            (entry.lineage, entry.limit, entry.previous) = (Weak::new(), Arc::default(), 0);
        }
        self.version += 1;
    }

    /// An id that is not in use.
    fn unused_id(&mut self) -> Option<RuleId> {
        match RuleId::try_from(self.entries.len() + 1) {
            Ok(id) => Some(id),
            Err(_) => self.free.pop(),
        }
    }

    /// Writes a new rule down and names it; `None` if there is no id left.
    pub(super) fn begin(&mut self, applied: Applied, limit: &Arc<Limit>) -> Option<Rule> {
        let first = Rule::new(self.unused_id()?, applied, Arc::clone(limit));
        if limit.marks() != 0 {
            limit.spreads_to(mark(first.id, &first.policy));
        }
        let lineage = Arc::new(Lineage::new(first.clone()));
        self.write_down(&first, &lineage, 0);
        Some(Rule { lineage: Some(lineage), ..first })
    }

    /// What `rule`, which is a present one, becomes as a quota of `limit`.
    fn become_of(
        &mut self,
        rule: &Rule,
        applied: Applied,
        limit: &Arc<Limit>,
        (now, turns): (Tick, &mut Vec<Turn>),
    ) -> Option<Rule> {
        let is_its = Arc::ptr_eq(&rule.limit, limit);
        if is_its && rule.policy == applied.policy {
            let entry = self.entries.get_mut(usize::from(rule.id) - 1)?;
            entry.applied = applied;
            return Some(rule.clone());
        }
        let had = if is_its { self.take_had(rule.id, &applied.policy) } else { None };
        let id = had.or_else(|| self.unused_id())?;
        let lineage = rule.lineage.clone()?;
        let next = Rule::new(id, applied, Arc::clone(limit));
        let marks = [rule, &next].map(|it| it.limit.marks() | mark(it.id, &it.policy));
        limit.spreads_to(marks[0] | marks[1]);
        self.write_down(&next, &lineage, rule.id);
        let (id, life) = (rule.id, Arc::clone(&rule.life));
        turns.push(Turn { id, life, lineage: Arc::clone(&lineage), next: next.clone(), now });
        Some(Rule { lineage: Some(lineage), ..next })
    }

    /// Has rules become what they are to be.
    pub(super) fn turn(&mut self, turns: Vec<Turn>) {
        for Turn { id, life, lineage, next, now } in turns {
            if let Some(entry) = self.entries.get_mut(usize::from(id) - 1) {
                entry.is_present = false;
            }
            self.changed_at = self.changed_at.max(now);
            lineage.leads_to(next);
            life.ends();
        }
    }

    /// An id under which the rule of `id` had `policy` a few changes ago.
    fn take_had(&mut self, id: RuleId, policy: &Policy) -> Option<RuleId> {
        let lineage = self.entry(id)?.lineage.as_ptr();
        let mut later = id;
        for _ in 0..LOOKED_BACK_MAX {
            let had = self.entry(later)?.previous;
            let entry = self.entry(had).filter(|entry| entry.lineage.as_ptr() == lineage)?;
            let previous = entry.previous;
            if entry.applied.policy == *policy {
                self.entries[usize::from(later) - 1].previous = previous;
                return Some(had);
            }
            later = had;
        }
        None
    }

    fn write_down(&mut self, rule: &Rule, lineage: &Arc<Lineage>, previous: RuleId) {
        let (life, lineage) = (Arc::downgrade(&rule.life), Arc::downgrade(lineage));
        let (applied, limit) = (rule.applied(), Arc::clone(&rule.limit));
        let entry = Entry { applied, life, lineage, limit, is_present: true, previous };
        match self.entries.get_mut(usize::from(rule.id) - 1) {
            Some(free) => *free = entry,
            None => self.entries.push(entry),
        }
        self.version += 1;
    }

    fn entry(&self, id: RuleId) -> Option<&Entry> {
        self.entries.get(usize::from(id).checked_sub(1)?)
    }
}

/// How many policies of a rule are looked at for one that it has again: of a quota that comes and
/// goes, as with the load.
const LOOKED_BACK_MAX: usize = 256;

/// How many ids are needed for what is wanted.
pub(super) fn needed(wanted: &[Wanted<'_>], limits: &Limits) -> usize {
    let needs_id = |it: &&Wanted<'_>| {
        let is_merged = 1 < limits[&it.limit].len();
        it.before.is_none_or(|old| is_merged || present(old).policy != it.policy)
    };
    wanted.iter().filter(needs_id).count()
}

/// What `rule` is by now.
fn present(rule: &Rule) -> Rule {
    let latest = rule.latest().map(|latest| (*latest).clone());
    Rule { lineage: rule.lineage.clone(), ..latest.unwrap_or_else(|| rule.clone()) }
}

/// The book, open for reading.
pub(super) fn read(limit_table: &RwLock<LimitTable>) -> impl Deref<Target = LimitTable> {
    limit_table.read().unwrap_or_else(PoisonError::into_inner)
}
