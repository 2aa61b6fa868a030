//! Names rules, and makes room for more names by carrying over what is written under old ones.
//!
//! A rule that was changed leaves states behind under the id that it had. Each is carried over
//! when somebody asks about its key. When ids run short, or a rule was changed so often that it
//! would lose sight of its past, all of them are, shard by shard; then those ids are free.

use std::ops::DerefMut;

use tidegate_core::{Change, Policy, State, Tick};

use super::MemoryStore;
use super::book::{Book, Wanted, read};
use super::rule::{Rule, TooManyRules};
use super::shard::Shard;
use super::tag::{Tag, rule_of};
use crate::sync::{Arc, PoisonError, lock};

impl MemoryStore {
    /// Keeps states for `policy` from now on, until the rule is dropped.
    pub fn rule(&self, policy: Policy) -> Result<Rule, TooManyRules> {
        self.named(|book| book.add(policy))
    }

    /// The rule that `rule` becomes under another policy: what was consumed until `now` is kept.
    ///
    /// Nothing stops: a key is carried over when it is next asked about, and all keys are, a shard
    /// at a time, once in a few hundred changes. Whoever still asks by the old rule is answered by
    /// the new one.
    pub fn change(&self, rule: &Rule, policy: Policy, now: Tick) -> Result<Rule, TooManyRules> {
        self.named(|book| book.change(rule, policy, (Change::Quota, now)))
    }

    /// The same for a quota that comes and goes, such as one that follows the load. A rule with a
    /// few policies uses up nothing, however often they alternate.
    ///
    /// For a key that nobody asked about between a policy and its return, it is as if that had
    /// never gone.
    pub fn swing(
        &self,
        rule: &Rule,
        policy: Policy,
        (change, now): (Change, Tick),
    ) -> Result<Rule, TooManyRules> {
        self.named(|book| book.swing(rule, policy, (change, now)))
    }

    /// All rules that are wanted, in their order; those that were something before are changed as
    /// [`MemoryStore::swing`] does. If there is no room for all of them, nothing has happened.
    ///
    /// As long as all rules that there will be, and one more, have a name each, there is room.
    #[expect(clippy::missing_panics_doc, reason = "what it expects is made sure of before")]
    pub fn put(&self, wanted: &[Wanted<'_>], now: Tick) -> Result<Vec<Rule>, TooManyRules> {
        let _one_by_one = lock(&self.naming);
        if !self.has_room(wanted) {
            return Err(TooManyRules);
        }
        let mut book = self.write();
        let mut rules = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let mut rule = book.put(wanted, now);
            if rule.is_none() {
                drop(book);
                self.collect();
                book = self.write();
                rule = book.put(wanted, now);
            }
            rules.push(rule.expect("each change gives up an id for the one that it gets"));
        }
        Ok(rules)
    }

    fn named(&self, name: impl Fn(&mut Book) -> Option<Rule>) -> Result<Rule, TooManyRules> {
        let _one_by_one = lock(&self.naming);
        let named = name(&mut self.write());
        if let Some(rule) = named {
            return Ok(rule);
        }
        self.collect();
        name(&mut self.write()).ok_or(TooManyRules)
    }

    /// Whether there are ids for all that are wanted; those that can be given up are, if need be.
    fn has_room(&self, wanted: &[Wanted<'_>]) -> bool {
        let changes = |it: &&Wanted<'_>| {
            let is_other = |old: &Rule| self.policy(old) != it.policy;
            !it.besides.is_empty() || it.before.is_none_or(is_other)
        };
        let needed = wanted.iter().filter(changes).count();
        if needed <= read(&self.book).room() {
            return true;
        }
        self.collect();
        // However many change: the first of them needs an id, and the others get what it gives up.
        let new = wanted.iter().filter(|it| it.before.is_none()).count();
        needed.min(new + 1) <= read(&self.book).room()
    }

    /// Carries over every state of a rule that was changed, and gives up the ids of before. States
    /// of rules that nobody holds any more are dropped: nobody can ask about them.
    fn collect(&self) {
        let past = read(&self.book).past();
        for shard in 0..self.tables[0].shards() {
            self.carry_all(shard, &past);
        }
        self.write().give_up(&past);
    }

    /// The shards of the three sizes are held together: a change of quota can move a key from one
    /// to another, and nobody is to find it in neither.
    fn carry_all(&self, shard: usize, past: &[bool]) {
        let mut shards = [0, 1, 2].map(|table: usize| self.tables[table].lock(shard));
        let book = read(&self.book);
        for from in 0..shards.len() {
            for (tag, latest, state) in shards[from].take_past(past, &book) {
                shards[latest.table].adopt(tag, &latest.policy, state);
            }
            let is_past = |id| past.get(usize::from(id)) == Some(&true);
            for group in shards[from].rest.groups.take_past(is_past) {
                let id = rule_of(group.tag.0);
                if let (Some(policy), Some(latest)) = (book.policy(id), book.latest_of(id)) {
                    let (groups, group) =
                        (&mut shards[latest.table].rest.groups, group.carried(policy, &latest));
                    groups.fold_group(group, &latest.policy, &book);
                }
            }
        }
        for (table, held) in self.tables.iter().zip(&shards) {
            table.note(shard, held);
        }
    }

    fn write(&self) -> impl DerefMut<Target = Book> {
        self.book.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    /// Takes out all that is written under ids of the past: where it belongs now, and as what.
    fn take_past(&mut self, past: &[bool], book: &Book) -> Vec<(Tag, Arc<Rule>, State)> {
        let mut taken = Vec::new();
        let mut index = 0;
        while index < self.slots().len() {
            let tag = Tag(self.slots().tag(index));
            let id = rule_of(tag.0);
            let policy = book.policy(id).filter(|_| past.get(usize::from(id)) == Some(&true));
            let Some(policy) = policy else {
                index += 1;
                continue;
            };
            let mut state = self.take(index, policy);
            // The next one may have moved here.
            self.remove(index);
            if let Some(latest) = book.latest_of(id) {
                latest.carry(id, &mut state);
                taken.push((tag.under(latest.id), latest, state));
            }
        }
        taken
    }
}
