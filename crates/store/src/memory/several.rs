//! Decisions that need more than one shard: several limits at once, and rules that moved.

use std::sync::Arc;

use arrayvec::ArrayVec;
use tidegate_core::{Decision, Limit, Receipt, Span, State, Tick, Verdict, decide_all};

use super::lock::Guard;
use super::rule::{Before, Book, read, table_of};
use super::shard::Shard;
use super::{Charge, MemoryStore, Rule};
use crate::key::Key;

const LIMITS_MAX: usize = MemoryStore::LIMITS_MAX;

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
    /// If all pass, so are the receipts to refund them by.
    /// Each rule is named at most once for a key. More than [`MemoryStore::LIMITS_MAX`] limits are
    /// never let pass.
    pub fn decide_all(
        &self,
        charges: &[Charge<'_>],
        now: Tick,
        mut each: impl FnMut(Decision, Option<Receipt>),
    ) -> Verdict {
        if LIMITS_MAX < charges.len() {
            return Verdict::Never;
        }
        for charge in charges {
            self.bring_over(charge.rule, charge.key);
        }
        let mut locked = self.lock_together(charges);
        let book = read(&self.book);
        if charges.iter().any(|charge| book.latest(charge.rule).is_some()) {
            drop((book, locked));
            return self.decide_all_latest(charges, now, &mut each);
        }
        let load = |charge| self.load(&mut locked, charge);
        let mut states: ArrayVec<State, LIMITS_MAX> = charges.iter().map(load).collect();
        let limits = charges.iter().zip(&mut states);
        let mut limits: ArrayVec<Limit<'_>, LIMITS_MAX> = limits
            .map(|(charge, state)| Limit::new(&charge.rule.policy, state, charge.cost))
            .collect();
        if let Err(retry_after) = self.prepare(&mut locked, charges, now, &book) {
            return Verdict::Deny { retry_after };
        }
        let verdict = decide_all(&mut limits, now);
        for limit in &mut limits {
            if let Some(answer) = limit.answer() {
                each(answer, limit.take_receipt());
            }
        }
        drop(limits);
        if verdict.passes() {
            for (charge, state) in charges.iter().zip(states).filter(|(it, _)| 0 < it.cost) {
                self.keep(&mut locked, charge, state, now, &book);
            }
        }
        verdict
    }

    /// The same by what the rules have become.
    fn decide_all_latest(
        &self,
        charges: &[Charge<'_>],
        now: Tick,
        each: &mut dyn FnMut(Decision, Option<Receipt>),
    ) -> Verdict {
        let latest: ArrayVec<Arc<Rule>, LIMITS_MAX> =
            charges.iter().map(|charge| self.latest(charge.rule)).collect();
        let charges: ArrayVec<Charge<'_>, LIMITS_MAX> =
            charges.iter().zip(&latest).map(|(charge, rule)| Charge { rule, ..*charge }).collect();
        self.decide_all(&charges, now, each)
    }

    /// Moves what is known of `key` from the table of an earlier policy to that of the present one.
    ///
    /// A change of quota can change how many words a state takes. Both shards are held meanwhile,
    /// so that nobody finds the key in neither.
    pub(super) fn bring_over(&self, rule: &Rule, key: Key) {
        let to = rule.table;
        for from in 0..self.tables.len() {
            let left = |before: &Before| table_of(&before.policy) == from;
            if from == to || !rule.before().iter().any(left) {
                continue;
            }
            let (low, high) = (from.min(to), from.max(to));
            let place = self.tables[low].place(key);
            let mut low_shard = self.tables[low].lock(place.shard);
            let mut high_shard = self.tables[high].lock(place.shard);
            let (old, new) = if low == from {
                (&mut low_shard, &mut high_shard)
            } else {
                (&mut high_shard, &mut low_shard)
            };
            new.inherit(old, rule, place.tag(rule.id));
            self.tables[to].note(place.shard, new);
        }
    }

    /// Locks every shard that `charges` need, in one order for everybody: nobody waits in a circle.
    fn lock_together(&self, charges: &[Charge<'_>]) -> Locked<'_> {
        let mut wanted: ArrayVec<Where, LIMITS_MAX> =
            charges.iter().map(|charge| self.place_of(charge)).collect();
        wanted.sort_unstable();
        let mut shards: ArrayVec<(Where, Guard<'_, Shard>), LIMITS_MAX> = ArrayVec::new();
        for at in wanted {
            if shards.last().is_none_or(|&(last, _)| last != at) {
                shards.push((at, self.tables[at.0].lock(at.1)));
            }
        }
        Locked { shards }
    }

    fn place_of(&self, charge: &Charge<'_>) -> Where {
        let table = charge.rule.table;
        (table, self.tables[table].place(charge.key).shard)
    }

    fn load(&self, locked: &mut Locked<'_>, charge: &Charge<'_>) -> State {
        let (at @ (table, _), rule) = (self.place_of(charge), charge.rule);
        let tag = self.tables[table].place(charge.key).tag(rule.id);
        locked.shard(at).load(rule, tag)
    }

    /// Sees to it that every state can be kept; if one cannot, says how long it takes until it can.
    fn prepare(
        &self,
        locked: &mut Locked<'_>,
        charges: &[Charge<'_>],
        now: Tick,
        book: &Book,
    ) -> Result<(), Span> {
        for charge in charges.iter().filter(|charge| 0 < charge.cost) {
            let at = self.place_of(charge);
            let tag = self.tables[at.0].place(charge.key).tag(charge.rule.id);
            let here = |other: &&Charge<'_>| self.place_of(other) == at;
            let most = charges.iter().filter(here).count();
            locked.shard(at).prepare(charge.rule, tag, now, most, book)?;
        }
        Ok(())
    }

    fn keep(
        &self,
        locked: &mut Locked<'_>,
        charge: &Charge<'_>,
        state: State,
        now: Tick,
        book: &Book,
    ) {
        let at @ (table, index) = self.place_of(charge);
        let tag = self.tables[table].place(charge.key).tag(charge.rule.id);
        let shard = locked.shard(at);
        shard.keep(charge.rule, tag, state, now, book);
        self.tables[table].note(index, shard);
    }
}

impl Locked<'_> {
    fn shard(&mut self, at: Where) -> &mut Shard {
        let held = self.shards.iter_mut().find(|(held, _)| *held == at);
        &mut held.expect("locked at the start").1
    }
}
