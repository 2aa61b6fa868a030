//! The store in this process, as those who decide by any store see it.

use std::collections::HashMap;
use std::sync::Arc;

use arrayvec::ArrayVec;
use smallvec::SmallVec;
use tidegate_core::{Decision, Kind, Receipt, Shape, Tick, Verdict};

use super::{Charge, MemoryStore, Rule, Wanted};
use crate::by::By;
use crate::clock::Clock;
use crate::key::Key;
use crate::later::{Later, Work, at_once};
use crate::stats::StoreStats;
use crate::store::{
    AtOnce, Charged, Judgment, KeyForm, Left, LimitCharge, MemoryCharge, Place, PreparedLimits,
    Standing, Store, StoreFailure, StoreKey, StoreLimit, Verb, WantedLimit,
};

/// The receipts of a charge.
type Receipts = SmallVec<[Receipt; 1]>;

impl Store for MemoryStore {
    fn answers_at_once(&self) -> bool {
        true
    }

    fn memory(&self) -> Option<&MemoryStore> {
        Some(self)
    }

    fn key_form(&self) -> KeyForm<'_> {
        KeyForm::Hash(&self.keys)
    }

    fn prepare(
        &self,
        wanted: &[WantedLimit<'_>],
        now: Tick,
    ) -> Result<PreparedLimits<'_>, StoreFailure> {
        let others = |it: &WantedLimit<'_>| it.others.iter().filter_map(rule).cloned().collect();
        let others: Vec<Vec<Rule>> = wanted.iter().map(others).collect();
        let mut numbers = HashMap::new();
        let wanted = wanted.iter().zip(&others).map(|(it, others)| {
            let next = numbers.len();
            Wanted {
                policy: it.policy,
                whole: it.whole,
                before: it.before.and_then(rule),
                limit: *numbers.entry(&*it.limit).or_insert(next),
                others,
            }
        });
        let prepared = MemoryStore::prepare(self, &wanted.collect::<Vec<_>>(), now);
        let prepared = prepared.map_err(|error| StoreFailure::new(error.to_string()))?;
        let limits = prepared.rules().iter().cloned().map(StoreLimit::Memory).collect();
        Ok(PreparedLimits::new(limits, || drop(prepared.commit())))
    }

    fn judge(&self, charges: &[LimitCharge<'_>], verb: Verb, now: Tick) -> Later<Judgment> {
        let Some(here) = in_memory(charges) else {
            return Later::Ready(Judgment::never(charges));
        };
        let mut limits = SmallVec::new();
        let mut each = |decision, charged| limits.push((decision, charged));
        let verdict = match verb {
            Verb::Decide => {
                self.decide_all(&here, now, |it, receipt| each(it, Charged::of(receipt)))
            }
            Verb::Peek => self.peek_all(&here, now, &mut each),
        };
        Later::Ready(Judgment { verdict, by: By::Store, limits })
    }

    fn judge_at_once(
        &self,
        charges: &[LimitCharge<'_>],
        verb: Verb,
        now: Tick,
        each: &mut dyn FnMut(Decision, Charged),
    ) -> AtOnce {
        let Some(here) = in_memory(charges) else { return AtOnce::Later };
        let verdict = match verb {
            Verb::Decide => self.decide_all_unchanged(&here, now, |decision, receipt| {
                each(decision, Charged::of(receipt));
            }),
            Verb::Peek => Some(self.peek_all(&here, now, each)),
        };
        verdict.map_or(AtOnce::Changed, AtOnce::Judged)
    }

    fn settle(
        &self,
        at: Place<'_>,
        charged: &mut Charged,
        cells: u32,
        clock: &Arc<dyn Clock>,
    ) -> Later<Standing> {
        let Some((rule, key)) = place(at) else {
            return Later::Ready(Standing { cells: 0, left: None });
        };
        let (charge, now) = (charged.memory_mut(), clock.now());
        if charge.cells < cells {
            // What has happened is charged in full.
            if let Ok(debited) = self.debit(rule, key, now, cells - charge.cells) {
                charge.receipts.push(debited.receipt);
                charge.cells = cells;
            }
        } else {
            for receipt in take_cells(&mut charge.receipts, charge.cells - cells) {
                self.refund(rule, key, now, receipt);
            }
            charge.cells = cells;
        }
        let decision = self.peek(rule, key, now, 0);
        Later::Ready(Standing { cells: charge.cells, left: Some(Left { decision, at: now }) })
    }

    fn give_up(
        &self,
        charged: &mut [(Place<'_>, &mut Charged)],
        clock: &Arc<dyn Clock>,
    ) -> Later<()> {
        let mut back = Vec::new();
        for (at, charged) in charged {
            let Some((rule, key)) = place(*at) else { continue };
            let charge = std::mem::take(charged.memory_mut());
            back.extend(charge.receipts.into_iter().map(|receipt| (rule, key, receipt)));
        }
        MemoryStore::give_up(self, clock.now(), back);
        Later::Ready(())
    }

    fn release(&self, at: Place<'_>, charged: &mut Charged, clock: &Arc<dyn Clock>) -> Later<()> {
        if let Some((rule, key)) = place(at) {
            let now = clock.now();
            for receipt in std::mem::take(charged.memory_mut()).receipts {
                self.refund(rule, key, now, receipt);
            }
        }
        Later::Ready(())
    }

    fn renew(
        &self,
        at: Place<'_>,
        charged: &mut Charged,
        clock: &Arc<dyn Clock>,
    ) -> Later<Result<bool, StoreFailure>> {
        let Some((rule, key)) = place(at) else { return Later::Ready(Ok(false)) };
        let (receipts, now) = (&mut charged.memory_mut().receipts, clock.now());
        // What costs nothing holds nothing, and cannot lapse.
        let renewed = |receipt: Receipt| match receipt.cost() {
            0 => Some(receipt),
            _ => MemoryStore::renew(self, rule, key, now, receipt),
        };
        *receipts = std::mem::take(receipts).into_iter().filter_map(renewed).collect();
        Later::Ready(Ok(!receipts.is_empty()))
    }

    fn lapses_at(&self, at: Place<'_>, charged: &Charged, _clock: &dyn Clock) -> Option<Tick> {
        let Charged::Memory(charge) = charged else { return None };
        let taken = charge.receipts.iter().filter(|receipt| 0 < receipt.cost());
        let first = taken.map(Receipt::at).min()?;
        // The policy may have been changed since.
        let policy = self.policy(rule(at.limit)?);
        match policy.shape() {
            Shape::Log { per, .. } if policy.kind() == Kind::Concurrency => Some(first.after(per)),
            _ => None,
        }
    }

    fn reset(&self, at: Place<'_>) -> Later<Result<(), StoreFailure>> {
        let at = place(at).ok_or_else(StoreFailure::of_another_store);
        Later::Ready(at.map(|(rule, key)| MemoryStore::reset(self, rule, key)))
    }

    fn finish(&self, work: Work<()>) {
        at_once(work);
    }

    fn stats(&self) -> StoreStats {
        StoreStats { memory: MemoryStore::stats(self), remote: None }
    }

    fn keys_max(&self) -> usize {
        MemoryStore::keys_max(self)
    }
}

impl MemoryStore {
    fn peek_all(
        &self,
        charges: &[Charge<'_>],
        now: Tick,
        each: &mut dyn FnMut(Decision, Charged),
    ) -> Verdict {
        charges.iter().fold(Verdict::Allow, |verdict, it| {
            let decision = self.peek(it.rule, it.key, now, it.cost);
            each(decision, Charged::Nothing);
            verdict.and(decision.verdict)
        })
    }
}

impl Charged {
    #[inline]
    fn of(receipt: Option<Receipt>) -> Charged {
        let Some(receipt) = receipt else { return Charged::Nothing };
        let cells = receipt.cost();
        Charged::Memory(MemoryCharge { cells, receipts: SmallVec::from_buf([receipt]) })
    }

    /// What was charged in this process.
    fn memory_mut(&mut self) -> &mut MemoryCharge {
        if !matches!(self, Charged::Memory(_)) {
            *self = Charged::Memory(MemoryCharge::default());
        }
        match self {
            Charged::Memory(charge) => charge,
            Charged::Nothing | Charged::Other(_) => unreachable!("replaced just now"),
        }
    }
}

#[inline]
fn rule(limit: &StoreLimit) -> Option<&Rule> {
    match limit {
        StoreLimit::Memory(rule) => Some(rule),
        StoreLimit::Other(_) => None,
    }
}

#[inline]
fn place(at: Place<'_>) -> Option<(&Rule, Key)> {
    match at.key {
        StoreKey::Hash(key) => Some((rule(at.limit)?, *key)),
        StoreKey::Text(_) => None,
    }
}

/// The charges, if there are no more than can be judged together, and all are of this store.
#[inline]
fn in_memory<'a>(
    charges: &[LimitCharge<'a>],
) -> Option<ArrayVec<Charge<'a>, { MemoryStore::LIMITS_MAX }>> {
    let mut here = ArrayVec::new();
    for charge in charges {
        let (rule, key) = place(charge.at)?;
        here.try_push(Charge { rule, key, cost: charge.cost }).ok()?;
    }
    Some(here)
}

/// Takes receipts for so many cells out, the latest first.
fn take_cells(receipts: &mut Receipts, mut cells: u32) -> Receipts {
    let mut taken = SmallVec::new();
    while 0 < cells
        && let Some(last) = receipts.pop()
    {
        let (at, charged) = (last.at(), last.cost());
        let back = cells.min(charged);
        taken.push(Receipt::new(at, back));
        if back < charged {
            receipts.push(Receipt::new(at, charged - back));
        }
        cells -= back;
    }
    taken
}
