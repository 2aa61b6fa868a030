//! The store in this process, as those who decide by any store see it.

use std::sync::Arc;

use arrayvec::ArrayVec;
use smallvec::SmallVec;
use tidegate_core::{Kind, Receipt, Shape, Tick, Verdict};

use super::{Charge, MemoryStore, Rule, Wanted};
use crate::by::By;
use crate::clock::Clock;
use crate::key::Key;
use crate::later::{Later, Work, at_once};
use crate::stats::StoreStats;
use crate::store::{
    Charged, Judgment, KeyForm, Left, LimitCharge, Place, Standing, Store, StoreFailure, StoreKey,
    StoreLimit, Verb, WantedLimit,
};

/// The receipts of a charge.
type Receipts = SmallVec<[Receipt; 1]>;

/// How often room is looked for that others may take meanwhile.
const LOOKS_MAX: usize = 8;

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

    fn put(&self, wanted: &[WantedLimit<'_>], now: Tick) -> Result<Vec<StoreLimit>, StoreFailure> {
        let besides = |it: &WantedLimit<'_>| it.besides.iter().filter_map(rule).cloned().collect();
        let besides: Vec<Vec<Rule>> = wanted.iter().map(besides).collect();
        let wanted = wanted.iter().zip(&besides).map(|(it, besides)| Wanted {
            policy: it.policy,
            before: it.before.and_then(rule),
            change: it.change,
            besides,
        });
        let made = MemoryStore::put(self, &wanted.collect::<Vec<_>>(), now);
        let made = made.map_err(|error| StoreFailure::new(error.to_string()))?;
        Ok(made.into_iter().map(StoreLimit::Memory).collect())
    }

    #[inline]
    fn judge(&self, charges: &[LimitCharge<'_>], verb: Verb, now: Tick) -> Later<Judgment> {
        let here: Option<ArrayVec<Charge<'_>, { MemoryStore::LIMITS_MAX }>> =
            if MemoryStore::LIMITS_MAX < charges.len() {
                None
            } else {
                charges.iter().map(charge).collect()
            };
        let Some(here) = here else { return Later::Ready(Judgment::never(charges)) };
        let mut limits = SmallVec::new();
        let verdict = match verb {
            Verb::Decide => self.decide_all(&here, now, |decision, receipt| {
                limits.push((decision, receipt.map_or(Charged::Nothing, Charged::of)));
            }),
            Verb::Peek => here.iter().fold(Verdict::Allow, |verdict, it| {
                let decision = self.peek(it.rule, it.key, now, it.cost);
                limits.push((decision, Charged::Nothing));
                verdict.and(decision.verdict)
            }),
        };
        Later::Ready(Judgment { verdict, by: By::Store, limits })
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
        let (receipts, now) = (charged.receipts_mut(), clock.now());
        let before = cells_of(receipts);
        if before < cells {
            receipts.extend(self.charge_more(rule, key, now, cells - before));
        } else {
            for receipt in take_cells(receipts, before - cells) {
                self.refund(rule, key, now, receipt);
            }
        }
        let decision = self.peek(rule, key, now, 0);
        let left = Some(Left { decision, at: now });
        Later::Ready(Standing { cells: cells_of(receipts), left })
    }

    fn give_up(
        &self,
        charged: &mut [(Place<'_>, &mut Charged)],
        clock: &Arc<dyn Clock>,
    ) -> Later<()> {
        let mut back = Vec::new();
        for (at, charged) in charged {
            let Some((rule, key)) = place(*at) else { continue };
            let receipts = std::mem::take(charged.receipts_mut());
            back.extend(receipts.into_iter().map(|receipt| (rule, key, receipt)));
        }
        MemoryStore::give_up(self, clock.now(), back);
        Later::Ready(())
    }

    fn release(&self, at: Place<'_>, charged: &mut Charged, clock: &Arc<dyn Clock>) -> Later<()> {
        if let Some((rule, key)) = place(at) {
            let now = clock.now();
            for receipt in std::mem::take(charged.receipts_mut()) {
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
        let (receipts, now) = (charged.receipts_mut(), clock.now());
        // What costs nothing holds nothing, and cannot lapse.
        let renewed = |receipt: Receipt| match receipt.cost() {
            0 => Some(receipt),
            _ => MemoryStore::renew(self, rule, key, now, receipt),
        };
        *receipts = std::mem::take(receipts).into_iter().filter_map(renewed).collect();
        Later::Ready(Ok(!receipts.is_empty()))
    }

    fn lapses_at(&self, at: Place<'_>, charged: &Charged, _clock: &dyn Clock) -> Option<Tick> {
        let Charged::Memory(receipts) = charged else { return None };
        let taken = receipts.iter().filter(|receipt| 0 < receipt.cost());
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
    /// Charges what has happened already, as far as there is room for it.
    fn charge_more(&self, rule: &Rule, key: Key, now: Tick, cells: u32) -> Option<Receipt> {
        // Between a look and a charge, others may take what there was.
        (0..LOOKS_MAX).find_map(|_| {
            let room = self.peek(rule, key, now, 0).remaining;
            self.decide_with_receipt(rule, key, now, cells.min(room)).1
        })
    }
}

impl Charged {
    fn of(receipt: Receipt) -> Charged {
        Charged::Memory(SmallVec::from_buf([receipt]))
    }

    /// The receipts of what was charged in this process.
    fn receipts_mut(&mut self) -> &mut Receipts {
        if !matches!(self, Charged::Memory(_)) {
            *self = Charged::Memory(SmallVec::new());
        }
        match self {
            Charged::Memory(receipts) => receipts,
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

#[inline]
fn charge<'a>(charge: &LimitCharge<'a>) -> Option<Charge<'a>> {
    let (rule, key) = place(charge.at)?;
    Some(Charge { rule, key, cost: charge.cost })
}

fn cells_of(receipts: &Receipts) -> u32 {
    receipts.iter().fold(0, |sum, receipt| sum.saturating_add(receipt.cost()))
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
