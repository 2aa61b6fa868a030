//! Decisions that need more than one shard: several limits at once, and rules that moved.

use arrayvec::ArrayVec;
use tidegate_core::{Decision, Limit, Receipt, Refused, Span, State, Tick, Verdict, decide_all};

use super::book::{Book, read};
use super::lock::Guard;
use super::shard::Shard;
use super::tag::Tag;
use super::{Charge, MemoryStore, Rule};
use crate::key::Key;
use crate::sync::{Arc, RwLock};

const LIMITS_MAX: usize = MemoryStore::LIMITS_MAX;

/// What each limit said, and the receipt of what it charged.
type Answers = ArrayVec<(Decision, Option<Receipt>), LIMITS_MAX>;

/// Which shard of which table.
type Where = (usize, usize);

/// Shards that are locked together, in ascending order.
struct Locked<'a> {
    shards: ArrayVec<(Where, Guard<'a, Shard>), LIMITS_MAX>,
}

impl MemoryStore {
    /// Decides one request by several limits: it passes all of them, or is charged to none.
    ///
    /// Each limit's own answer is given to `each`, in order; one that does not pass was violated.
    /// If all pass, so are the receipts to refund them by. Each rule is named at most once for a
    /// key. More than [`MemoryStore::LIMITS_MAX`] limits are never let pass.
    pub fn decide_all<'c>(
        &self,
        charges: &[impl AsRef<Charge<'c>>],
        now: Tick,
        mut each: impl FnMut(Decision, Option<Receipt>),
    ) -> Verdict {
        if LIMITS_MAX < charges.len() {
            return Verdict::Never;
        }
        match self.decide_few(charges, now, &mut each) {
            Some(verdict) => verdict,
            None => self.decide_many(&mut charges.iter().map(AsRef::as_ref), now, &mut each),
        }
    }

    /// The long way, which needs much room: kept out of the short one.
    #[cold]
    #[inline(never)]
    fn decide_many(
        &self,
        charges: &mut dyn Iterator<Item = &Charge<'_>>,
        now: Tick,
        each: &mut dyn FnMut(Decision, Option<Receipt>),
    ) -> Verdict {
        let charges: ArrayVec<Charge<'_>, LIMITS_MAX> = charges.copied().collect();
        loop {
            let latest: ArrayVec<Option<Arc<Rule>>, LIMITS_MAX> =
                charges.iter().map(|charge| charge.rule.latest()).collect();
            let present = charges.iter().zip(&latest).map(|(charge, latest)| Charge {
                rule: latest.as_deref().unwrap_or(charge.rule),
                ..*charge
            });
            let present: ArrayVec<Charge<'_>, LIMITS_MAX> = present.collect();
            if let Some((verdict, answers)) = self.try_decide_all(&present, now) {
                // No lock is held any more: whoever is called may ask again.
                answers.into_iter().for_each(|(answer, receipt)| each(answer, receipt));
                return verdict;
            }
        }
    }

    /// The same by rules that are the present ones; `None` if one of them is not any more.
    fn try_decide_all(&self, charges: &[Charge<'_>], now: Tick) -> Option<(Verdict, Answers)> {
        for charge in charges {
            self.bring_over(charge.rule, charge.key);
        }
        let mut locked = self.lock_together(charges);
        if charges.iter().any(|charge| charge.rule.is_changed()) {
            return None;
        }
        let taken = charges.iter().map(|charge| {
            let (at, tag) = self.place_of(charge);
            locked.shard(at).take_out(charge.rule, tag)
        });
        let (mut states, known): (ArrayVec<State, LIMITS_MAX>, ArrayVec<bool, LIMITS_MAX>) =
            taken.unzip();
        let limits = charges.iter().zip(&mut states);
        let mut limits: ArrayVec<Limit<'_>, LIMITS_MAX> = limits
            .map(|(charge, state)| Limit::new(&charge.rule.policy, state, charge.cost))
            .collect();
        let mut verdict = decide_all(&mut limits, now);
        let is_refused = !verdict.passes();
        let mut answers: Answers = limits
            .iter_mut()
            .filter_map(|limit| limit.answer().map(|answer| (answer, limit.take_receipt())))
            .collect();
        drop(limits);
        if verdict.passes()
            && let Err((index, retry_after)) = self.find_room(&mut locked, charges, &known, now)
        {
            verdict = Verdict::Deny { retry_after };
            answers.iter_mut().for_each(|(_, receipt)| *receipt = None);
            answers[index].0 = Decision { verdict, remaining: 0, ..answers[index].0 };
        }
        for (((charge, state), known), (answer, _)) in
            charges.iter().zip(states).zip(known).zip(&answers)
        {
            let (at, tag) = self.place_of(charge);
            let shard = locked.shard(at);
            let is_charged = verdict.passes() || (is_refused && charges_for(charge, answer));
            let changed = is_charged && 0 < charge.cost;
            // A list was moved out, and goes back in any case.
            if known && (changed || charge.rule.policy.words() == 0) {
                shard.give_back(charge.rule, tag, state);
            } else if changed {
                shard.add_owing(charge.rule, tag, state, now, &self.book);
                self.tables[at.0].note(at.1, shard);
            }
        }
        let due = locked.shards.iter_mut().filter_map(|(_, shard)| shard.counts_call()).last();
        drop(locked);
        if let Some(index) = due {
            self.sweep(index, now);
        }
        Some((verdict, answers))
    }

    /// Moves what is known of `key` from the table of an earlier policy to that of the present one.
    ///
    /// A change of quota can change how many words a state takes. Both shards are held meanwhile,
    /// so that nobody finds the key in neither.
    #[inline]
    pub(super) fn bring_over(&self, rule: &Rule, key: Key) {
        if rule.origins.is_some() {
            self.bring_copies(rule, key);
        }
        self.bring_moved(rule, key);
    }

    #[inline]
    pub(super) fn bring_moved(&self, rule: &Rule, key: Key) {
        if rule.before.is_some() {
            for from in (0..self.tables.len()).filter(|&from| rule.moved_from[from]) {
                self.bring_from(from, rule, key);
            }
        }
    }

    fn bring_from(&self, from: usize, rule: &Rule, key: Key) {
        let to = rule.table;
        let place = self.tables[to].place(key);
        let low = self.tables[from.min(to)].lock(place.shard);
        let high = self.tables[from.max(to)].lock(place.shard);
        // Changed since: whatever is carried to it now would be lost sight of.
        if rule.is_changed() {
            return;
        }
        let (mut old, mut new) = if from < to { (low, high) } else { (high, low) };
        new.inherit(&mut old, rule, place.tag(rule.id), &self.book);
        self.tables[to].note(place.shard, &new);
    }

    /// Locks every shard that `charges` need, in one order for everybody: nobody waits in a circle.
    fn lock_together(&self, charges: &[Charge<'_>]) -> Locked<'_> {
        let mut wanted: ArrayVec<Where, LIMITS_MAX> =
            charges.iter().map(|charge| self.place_of(charge).0).collect();
        wanted.sort_unstable();
        let mut shards: ArrayVec<(Where, Guard<'_, Shard>), LIMITS_MAX> = ArrayVec::new();
        for at in wanted {
            if shards.last().is_none_or(|&(last, _)| last != at) {
                shards.push((at, self.tables[at.0].lock(at.1)));
            }
        }
        Locked { shards }
    }

    fn place_of(&self, charge: &Charge<'_>) -> (Where, Tag) {
        let table = charge.rule.table;
        let place = self.tables[table].place(charge.key);
        ((table, place.shard), place.tag(charge.rule.id))
    }

    /// Finds room for every key that is new, or a group; if there is neither, says for which, and
    /// how long it takes until there might be.
    fn find_room(
        &self,
        locked: &mut Locked<'_>,
        charges: &[Charge<'_>],
        known: &[bool],
        now: Tick,
    ) -> Result<(), (usize, Span)> {
        let is_new = |index: usize| !known[index] && 0 < charges[index].cost;
        for index in (0..charges.len()).filter(|&index| is_new(index)) {
            let (at, tag) = self.place_of(&charges[index]);
            let here = |&other: &usize| is_new(other) && self.place_of(&charges[other]).0 == at;
            let count = (0..charges.len()).filter(here).count();
            let (shard, rule) = (locked.shard(at), charges[index].rule);
            if shard.make_room(now, count, &self.book) {
                continue;
            }
            if !shard.can_fold(rule, tag) {
                return Err((index, shard.room_in(now)));
            }
        }
        Ok(())
    }
}

/// Whether a limit has charged what it refused.
fn charges_for(charge: &Charge<'_>, answer: &Decision) -> bool {
    charge.rule.policy.refused() == Refused::Charge && !answer.verdict.passes()
}

impl Shard {
    /// Takes over what `old` knows of a key, and of its group, from before its rule moved here.
    fn inherit(&mut self, old: &mut Shard, rule: &Rule, tag: Tag, book: &RwLock<Book>) {
        while let Some(state) = old.take_inherited(rule, tag) {
            self.adopt(tag, &rule.policy, state);
        }
        while let Some(group) = old.rest.groups.take_inherited(rule, tag) {
            self.rest.groups.fold_group(group, &rule.policy, &read(book));
        }
    }
}

impl Locked<'_> {
    fn shard(&mut self, at: Where) -> &mut Shard {
        let held = self.shards.iter_mut().find(|(held, _)| *held == at);
        &mut held.expect("locked at the start").1
    }
}
