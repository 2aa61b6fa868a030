//! Several limits at once: all of them pass, or none is charged.

use arrayvec::ArrayVec;
use tidegate_core::{Decision, Limit, Receipt, Refused, Span, State, Tick, Verdict, decide_all};

use super::one::{Held, Where};
use super::shard::Shard;
use super::slot_key::SlotKey;
use super::{Charge, MemoryStore, Rule};
use crate::sync::Arc;

const LIMITS_MAX: usize = MemoryStore::LIMITS_MAX;

/// What each limit said, and the receipt of what it charged.
type Answers = ArrayVec<(Decision, Option<Receipt>), LIMITS_MAX>;

/// The shards of all limits: each may have states in all three tables.
const SHARDS_MAX: usize = 3 * LIMITS_MAX;

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

    /// Decides as [`MemoryStore::decide_all`] does, unless one of the rules has become another one:
    /// then nothing has happened, and there is no answer.
    pub fn decide_all_unchanged<'c>(
        &self,
        charges: &[impl AsRef<Charge<'c>>],
        now: Tick,
        mut each: impl FnMut(Decision, Option<Receipt>),
    ) -> Option<Verdict> {
        if LIMITS_MAX < charges.len() {
            return Some(Verdict::Never);
        }
        if let Some(verdict) = self.decide_few(charges, now, &mut each) {
            return Some(verdict);
        }
        let charges: ArrayVec<Charge<'_>, LIMITS_MAX> =
            charges.iter().map(|it| *it.as_ref()).collect();
        loop {
            if let Some((verdict, answers)) = self.try_decide_all(&charges, now) {
                answers.into_iter().for_each(|(answer, receipt)| each(answer, receipt));
                return Some(verdict);
            }
            if charges.iter().any(|charge| charge.rule.is_changed()) {
                return None;
            }
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
                // No lock is held any more: `each` may ask again.
                answers.into_iter().for_each(|(answer, receipt)| each(answer, receipt));
                return verdict;
            }
        }
    }

    /// As `decide_many`, by rules that are the present ones; `None` if one of them is not any more.
    fn try_decide_all(&self, charges: &[Charge<'_>], now: Tick) -> Option<(Verdict, Answers)> {
        let keys = charges.iter().map(|charge| (charge.rule, charge.key));
        let mut held: Held<'_, SHARDS_MAX> = self.hold(keys);
        let is_enough = |it: &Charge<'_>| held.is_enough(it.rule, self.place_of(it).0.1);
        if !charges.iter().all(is_enough) {
            return None;
        }
        let taken = charges.iter().map(|charge| {
            let (at, slot_key) = self.place_of(charge);
            held.bring(charge.rule, self.tables[at.0].place(charge.key), now, &self.limit_table);
            held.shard(at).take_out(charge.rule, slot_key)
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
            && let Err((index, retry_after)) = self.find_room(&mut held, charges, &known, now)
        {
            verdict = Verdict::Deny { retry_after };
            answers.iter_mut().for_each(|(_, receipt)| *receipt = None);
            answers[index].0 = Decision { verdict, remaining: 0, ..answers[index].0 };
        }
        for (((charge, state), known), (answer, _)) in
            charges.iter().zip(states).zip(known).zip(&answers)
        {
            let (at, slot_key) = self.place_of(charge);
            let shard = held.shard(at);
            let is_charged = verdict.passes() || (is_refused && charges_for(charge, answer));
            let changed = is_charged && 0 < charge.cost;
            // A list was moved out, and goes back in any case.
            if known && (changed || charge.rule.policy.words() == 0) {
                shard.give_back(charge.rule, slot_key, state);
            } else if changed {
                shard.add_owing(charge.rule, slot_key, state, now, &self.limit_table);
            }
        }
        let due = held.each().filter_map(Shard::counts_call).last();
        self.let_go(held);
        if let Some(index) = due {
            self.sweep(index, now);
        }
        Some((verdict, answers))
    }

    fn place_of(&self, charge: &Charge<'_>) -> (Where, SlotKey) {
        let table = charge.rule.table;
        let place = self.tables[table].place(charge.key);
        ((table, place.shard), place.slot_key(charge.rule.id))
    }

    /// Finds room for every key that is new, or a group; if there is neither, says for which, and
    /// how long it takes until there might be.
    fn find_room(
        &self,
        held: &mut Held<'_, SHARDS_MAX>,
        charges: &[Charge<'_>],
        known: &[bool],
        now: Tick,
    ) -> Result<(), (usize, Span)> {
        let is_new = |index: usize| !known[index] && 0 < charges[index].cost;
        for index in (0..charges.len()).filter(|&index| is_new(index)) {
            let (at, slot_key) = self.place_of(&charges[index]);
            let here = |&other: &usize| is_new(other) && self.place_of(&charges[other]).0 == at;
            let count = (0..charges.len()).filter(here).count();
            let (shard, rule) = (held.shard(at), charges[index].rule);
            if shard.make_room(now, count, &self.limit_table) {
                continue;
            }
            if !shard.can_fold(rule, slot_key) {
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
