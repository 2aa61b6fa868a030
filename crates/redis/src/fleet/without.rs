//! Without Redis: open, closed, or this node's share.

use smallvec::SmallVec;
use tidegate_core::{Debited, Decision, Receipt, Span, Verdict, WithoutStore};
use tidegate_store::{By, Charge, Key};

use super::judge::Part;
use super::receipts::{Charged, Entries, Entry};
use super::rule::lends;
use super::{Decisions, Fleet, FleetDebited, FleetDecided, FleetReceipts};
use crate::failure::StoreError;
use crate::plan::Does;

/// When to come back, where nobody can say: Redis may be there again in a second.
const COME_BACK_AFTER: Span = Span::from_secs(1);

impl Fleet {
    /// Decides as each rule says for when Redis does not answer: all or nothing, as ever.
    pub(super) fn without_store(
        &self,
        parts: &[Part<'_>],
        error: &StoreError,
        does: Does,
    ) -> FleetDecided {
        let now = self.now();
        let is_closed = |part: &Part<'_>| part.rule.without() == WithoutStore::Closed;
        let mut receipts = FleetReceipts::default();
        let (verdict, by, each) = if parts.iter().any(is_closed) {
            let retry_after = comes_back_after(error);
            let each = parts.iter().map(|part| closed(part, retry_after)).collect();
            (Verdict::Deny { retry_after }, By::Closed, each)
        } else if parts.iter().any(|part| part.rule.is_local()) {
            let (verdict, each, charged) = self.by_share(parts, does);
            receipts = FleetReceipts::new(self, charged);
            (verdict, By::Local, each)
        } else {
            (Verdict::Allow, By::Open, parts.iter().map(open).collect())
        };
        self.inner.counts.add_without(by, error, now);
        FleetDecided { verdict, by, each, receipts }
    }

    /// Decides by this node's shares; rules that are open let everything pass.
    fn by_share(&self, parts: &[Part<'_>], does: Does) -> (Verdict, Decisions, Entries) {
        let (local, now) = (&self.inner.local, self.now());
        let mut each: Decisions = parts.iter().map(open).collect();
        let shares = parts.iter().enumerate().filter(|(_, part)| part.rule.is_local());
        let counted: SmallVec<[(usize, Key); 1]> =
            shares.filter_map(|(place, part)| Some((place, part.local_key(local)?))).collect();
        let charge = |&(place, key): &(usize, Key)| {
            let part = &parts[place];
            Charge { rule: &part.present.local, key, cost: part.cost }
        };
        let wanted: SmallVec<[Charge<'_>; 1]> = counted.iter().map(charge).collect();
        let mut charged = Entries::new();
        if does == Does::Peek {
            let mut verdict = Verdict::Allow;
            for (wanted, (place, _)) in wanted.iter().zip(&counted) {
                each[*place] = local.peek(wanted.rule, wanted.key, now, wanted.cost);
                verdict = verdict.and(each[*place].verdict);
            }
            return (verdict, each, charged);
        }
        let mut places = counted.iter();
        let verdict = local.decide_all(&wanted, now, |decision, receipt| {
            let Some(&(place, key)) = places.next() else { return };
            each[place] = decision;
            // There is a receipt only where all of them let it pass.
            if let Some(receipt) = receipt.filter(|receipt| 0 < receipt.cost()) {
                let charged_here = self.owing(&parts[place], key, receipt);
                charged.push(Entry { place, charged: charged_here });
            }
        });
        (verdict, each, charged)
    }

    /// What was charged here. Redis hears of it when it is back; permits come back by themselves.
    fn owing(&self, part: &Part<'_>, key: Key, receipt: Receipt) -> Charged {
        let mut owed = None;
        if !lends(&part.present.rule) {
            let added = self.inner.owed.add(part, receipt.cost(), self.now());
            owed = added.map(|(key, receipt)| (part.present.owed.clone(), key, receipt));
        }
        Charged::Local { rule: part.present.local.clone(), key, receipt, owed }
    }

    /// Charges this node's share, also beyond it. All of it is reported to Redis.
    pub(super) fn debit_share(&self, part: &Part<'_>) -> FleetDebited {
        let local = &self.inner.local;
        let debited = part
            .local_key(local)
            .map(|key| (key, local.debit(&part.present.local, key, self.now(), part.cost)));
        let Some((key, Ok(Debited { receipt, forgiven }))) = debited else {
            return FleetDebited { receipts: FleetReceipts::default(), forgiven: part.cost };
        };
        let mut charged = Entries::new();
        charged.push(Entry { place: 0, charged: self.owing(part, key, receipt) });
        FleetDebited { receipts: FleetReceipts::new(self, charged), forgiven }
    }
}

fn open(part: &Part<'_>) -> Decision {
    let limit = part.present.rule.policy().limit();
    Decision { verdict: Verdict::Allow, limit, remaining: limit, reset_after: Span::ZERO }
}

fn closed(part: &Part<'_>, retry_after: Span) -> Decision {
    if part.rule.without() != WithoutStore::Closed {
        return open(part);
    }
    let limit = part.present.rule.policy().limit();
    let verdict = Verdict::Deny { retry_after };
    Decision { verdict, limit, remaining: 0, reset_after: retry_after }
}

fn comes_back_after(error: &StoreError) -> Span {
    match error {
        StoreError::Resting { retry_after } => *retry_after,
        _ => COME_BACK_AFTER,
    }
}
