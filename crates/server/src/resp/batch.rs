//! Commands that name their limit, collected to be decided together.

use smallvec::SmallVec;
use tidegate_gate::{AdhocCharge, By, Gate};
use tidegate_store::MemoryStore;

use super::reply::{Protocol, Reply};
use super::throttle::{Known, Throttle};
use super::waiting::{Pending, Waiting};
use crate::trace::Notes;

const LEN: usize = MemoryStore::BATCH;

/// Commands that have been read and not been decided, in order.
#[derive(Debug, Default)]
pub(super) struct Batch<'a> {
    asked: SmallVec<[Asked<'a>; LEN]>,
}

#[derive(Debug)]
struct Asked<'a> {
    /// Which of the limits that the connection knows.
    limit: usize,
    /// In parts, as the gate takes it.
    key: [&'a [u8]; 1],
    quantity: u32,
}

impl<'a> Batch<'a> {
    /// Adds a command. It is full after that, or not.
    #[inline]
    pub(super) fn push(&mut self, limit: usize, throttle: &Throttle<'a>) {
        let Throttle { key, quantity, .. } = *throttle;
        self.asked.push(Asked { limit, key: [key], quantity });
    }

    pub(super) fn len(&self) -> usize {
        self.asked.len()
    }

    pub(super) fn is_full(&self) -> bool {
        LEN <= self.asked.len()
    }

    /// Decides them all: at once in this process; in Redis, each is going to be waited for.
    pub(super) fn decide(
        &mut self,
        gate: &Gate,
        known: &Known,
        out: &mut Vec<u8>,
        waiting: &mut Vec<Waiting>,
        notes: &mut Notes<'_>,
    ) {
        if self.asked.is_empty() {
            return;
        }
        let charges: SmallVec<[AdhocCharge<'_>; LEN]> = self
            .asked
            .iter()
            .map(|it| AdhocCharge { limit: known.limit(it.limit), key: &it.key, cost: it.quantity })
            .collect();
        let mut asked = self.asked.iter();
        let decided = gate.decide_adhoc_batch(&charges, |decision| {
            if let Some(it) = asked.next() {
                let dialect = known.dialect(it.limit);
                if it.quantity != 0 && decision.verdict.passes() {
                    known.charges(it.limit);
                }
                dialect.write(&decision, &mut Reply::new(out, Protocol::Two));
                if notes.is_on() {
                    let limit = known.limit(it.limit).name();
                    notes.plain(limit, &decision, By::Store, it.quantity);
                }
            }
        });
        if decided.is_none() {
            for (charge, asked) in charges.iter().zip(&self.asked) {
                known.charges(asked.limit);
                let pending = gate.decide_adhoc(std::slice::from_ref(charge));
                let told = notes.is_on().then(|| (charge.limit.clone(), charge.cost));
                let pending = Pending::Plain(pending, known.dialect(asked.limit), told);
                waiting.push(Waiting::new(out, pending));
            }
        }
        drop(charges);
        self.asked.clear();
    }
}
