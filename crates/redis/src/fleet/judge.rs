//! Requests to a fleet: by Redis where it answers, and as each rule says where it does not.

use std::slice;
use std::sync::{Arc, PoisonError};

use smallvec::SmallVec;
use tidegate_core::Verdict;
use tidegate_store::{By, Key, MemoryStore};

use super::rule::Present;
use super::{Fleet, FleetDecided, FleetReceipts, SharedCharge, SharedRule};
use crate::plan::Does;
use crate::store::{FleetCharge, Judged, RedisStore};
use crate::wire::ServerRun;
use tidegate_store::TextKey as FleetKey;

/// One limit of a request, with its rule as it is now.
pub(super) struct Part<'a> {
    pub(super) rule: &'a SharedRule,
    pub(super) present: Arc<Present>,
    pub(super) key: &'a FleetKey,
    pub(super) cost: u32,
}

type Parts<'a> = SmallVec<[Part<'a>; 1]>;

impl<'a> Part<'a> {
    pub(super) fn new(charge: &SharedCharge<'a>) -> Part<'a> {
        let SharedCharge { rule, key, cost } = *charge;
        Part { rule, present: rule.present(), key, cost }
    }

    pub(super) fn wanted(&self) -> FleetCharge<'_> {
        FleetCharge { rule: &self.present.rule, key: self.key, cost: self.cost }
    }

    /// Its key in this process.
    pub(super) fn local_key(&self, local: &MemoryStore) -> Option<Key> {
        local.key((self.key.tag(), self.key.text())).ok()
    }
}

impl Fleet {
    /// Decides one request by several limits: all are charged, or none. No limits let it pass.
    ///
    /// More than [`RedisStore::LIMITS_MAX`] limits never pass, nor does a request that names one
    /// key of one rule twice.
    pub async fn decide(&self, charges: &[SharedCharge<'_>]) -> FleetDecided {
        if let Some(verdict) = verdict_unasked(charges) {
            return FleetDecided::unasked(verdict);
        }
        let parts = self.parts(charges);
        let store = &self.inner.store;
        let deadline = store.deadline();
        let repaid = self.repay(&parts, deadline).await;
        let run = store.run_now();
        let judged = match repaid {
            Ok(()) => store.decide_all_by(&wanted(&parts), deadline).await,
            Err(error) => Err(error),
        };
        match judged {
            Ok(judged) => self.by_store(&parts, run, judged),
            Err(error) => self.without_store(&parts, &error, Does::Decide),
        }
    }

    /// What [`Fleet::decide`] would answer, without charging.
    pub async fn peek(&self, charges: &[SharedCharge<'_>]) -> FleetDecided {
        if let Some(verdict) = verdict_unasked(charges) {
            return FleetDecided::unasked(verdict);
        }
        let parts = self.parts(charges);
        let run = self.inner.store.run_now();
        match self.inner.store.peek_all(&wanted(&parts)).await {
            Ok(judged) => self.by_store(&parts, run, judged),
            Err(error) => self.without_store(&parts, &error, Does::Peek),
        }
    }

    /// Decides many requests of one limit, each by itself, in as few calls as they fit.
    ///
    /// The receipts of each are those of a request of its own: of its first limit.
    pub async fn decide_separately(&self, charges: &[SharedCharge<'_>]) -> Vec<FleetDecided> {
        let mut decided = Vec::with_capacity(charges.len());
        for charges in charges.chunks(RedisStore::BATCH_MAX) {
            let parts = self.parts(charges);
            let store = &self.inner.store;
            let deadline = store.deadline();
            if let Err(error) = self.repay(&parts, deadline).await {
                let without =
                    |part| self.without_store(slice::from_ref(part), &error, Does::Decide);
                decided.extend(parts.iter().map(without));
                continue;
            }
            let run = store.run_now();
            let flying: Vec<_> =
                parts.iter().map(|part| store.send(&part.wanted(), deadline)).collect();
            for (part, flight) in parts.iter().zip(flying) {
                let part = slice::from_ref(part);
                decided.push(match store.land(flight, deadline).await {
                    Ok(judged) => self.by_store(part, run, judged),
                    Err(error) => self.without_store(part, &error, Does::Decide),
                });
            }
        }
        decided
    }

    /// The limits of a request as they are now: all of them before a turn, or all after it.
    fn parts<'a>(&self, charges: &[SharedCharge<'a>]) -> Parts<'a> {
        let _turned = self.inner.turning.read().unwrap_or_else(PoisonError::into_inner);
        charges.iter().map(Part::new).collect()
    }

    /// `run` is the server's run as it was known before the request was asked.
    fn by_store(&self, parts: &[Part<'_>], run: ServerRun, judged: Judged) -> FleetDecided {
        let by = if judged.is_remembered() { By::Remembered } else { By::Store };
        self.inner.counts.add_with(by, || self.now());
        let (verdict, each) = (judged.verdict(), judged.each().copied().collect());
        let receipts = FleetReceipts::of_store(self, parts, run, judged.into_receipts());
        FleetDecided { verdict, by, each, receipts }
    }
}

fn wanted<'p>(parts: &'p [Part<'_>]) -> SmallVec<[FleetCharge<'p>; 1]> {
    parts.iter().map(Part::wanted).collect()
}

/// What is said of a request about which there is nothing to ask.
fn verdict_unasked(charges: &[SharedCharge<'_>]) -> Option<Verdict> {
    let is_twice = |(index, one): (usize, &SharedCharge<'_>)| {
        let mut before = charges[..index].iter();
        before.any(|other| other.rule.is(one.rule) && other.key == one.key)
    };
    if charges.is_empty() {
        Some(Verdict::Allow)
    } else if RedisStore::LIMITS_MAX < charges.len() || charges.iter().enumerate().any(is_twice) {
        Some(Verdict::Never)
    } else {
        None
    }
}
