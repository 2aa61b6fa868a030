//! Without Redis: open, closed, or this node's share; and the way back without a free burst.

use smallvec::SmallVec;
use tidegate_core::{Decision, Span, Verdict};
use tidegate_store::{Charge, Key, MemoryStore};

use super::ask::{Charged, FleetAsk, Part, Parts};
use super::rule::{Present, WithoutStore};
use super::{By, COME_BACK_AFTER, FleetAnswer};
use crate::failure::StoreError;
use crate::store::RedisStore;

impl<'a> FleetAsk<'a> {
    /// Decides as each rule says for when Redis does not answer: all or nothing, as ever.
    pub(super) fn without_store(
        &self,
        parts: &Parts<'a>,
        error: &StoreError,
        takes: bool,
    ) -> (FleetAnswer<'a>, Charged) {
        let inner = &self.limiter.inner;
        let now = self.limiter.now();
        let is_closed = |part: &Part<'_>| part.named.without() == WithoutStore::Closed;
        let mut charged = Charged::Local(Vec::new());
        let (verdict, by, each) = if parts.iter().any(is_closed) {
            let retry_after = comes_back_after(error);
            let verdict = Verdict::Deny { retry_after };
            let each = parts.iter().map(|part| closed(part, retry_after)).collect();
            (verdict, By::Closed, each)
        } else if parts.iter().any(|part| part.named.is_local()) {
            let (verdict, each, local) = self.by_share(parts, takes);
            charged = local;
            (verdict, By::Local, each)
        } else {
            (Verdict::Allow, By::Open, parts.iter().map(open).collect())
        };
        inner.counts.add_without(by, error, now);
        (FleetAnswer { limiter: self.limiter, verdict, by, each }, charged)
    }

    /// Decides by this node's shares; rules that are open let everything pass.
    fn by_share(
        &self,
        parts: &Parts<'a>,
        takes: bool,
    ) -> (Verdict, SmallVec<[Decision; 1]>, Charged) {
        let local = &self.limiter.inner.local;
        let now = self.limiter.now();
        let mut each: SmallVec<[Decision; 1]> = parts.iter().map(open).collect();
        let counted: Vec<(usize, Key)> = parts
            .iter()
            .enumerate()
            .filter(|(_, part)| part.named.is_local())
            .filter_map(|(index, part)| Some((index, local_key(local, part)?)))
            .collect();
        let charge = |&(index, key): &(usize, Key)| Charge {
            rule: &parts[index].present.local,
            key,
            cost: self.cells(),
        };
        let wanted: Vec<Charge<'_>> = counted.iter().map(charge).collect();
        let mut verdict = Verdict::Allow;
        let mut charged = Vec::new();
        if takes {
            let mut places = counted.iter();
            verdict = local.decide_all(&wanted, now, |decision, receipt| {
                let Some(&(index, key)) = places.next() else { return };
                each[index] = decision;
                if let Some(receipt) = receipt {
                    charged.push((parts[index].present.local.clone(), key, receipt));
                }
            });
            for (index, key) in counted.iter().filter(|_| verdict.passes()) {
                let owed = &parts[*index].present.owed;
                let (_, receipt) = local.decide_with_receipt(owed, *key, now, self.cells());
                charged.extend(receipt.map(|receipt| (owed.clone(), *key, receipt)));
            }
        } else {
            for (wanted, (index, _)) in wanted.iter().zip(&counted) {
                each[*index] = local.peek(wanted.rule, wanted.key, now, wanted.cost);
                verdict = verdict.and(each[*index].verdict);
            }
        }
        (verdict, each, Charged::Local(charged))
    }

    /// Charges to Redis what was let through without it, so that its return is no free burst.
    ///
    /// Key by key, as they are asked about. What Redis certainly did not take is kept for the next
    /// time; what it may have taken is not sent again. By what this node decides stays as it is:
    /// should Redis go away again, there is no fresh share. Says which store to go on with, if that
    /// took time.
    pub(super) async fn repay(&self, parts: &Parts<'a>) -> Result<Option<RedisStore>, StoreError> {
        let inner = &self.limiter.inner;
        if inner.local.is_empty() {
            return Ok(None);
        }
        let begun = inner.store.now();
        let mut rest = None;
        for part in parts.iter().filter(|part| part.named.is_local()) {
            let Present { rule, owed: owing, .. } = &part.present;
            let now = self.limiter.now();
            let Some(key) = local_key(&inner.local, part) else { continue };
            if !inner.store.is_asked(rule, &part.key) {
                continue;
            }
            let look = inner.local.peek(owing, key, now, 0);
            let owed = look.limit.saturating_sub(look.remaining);
            if owed == 0 {
                continue;
            }
            inner.local.reset(owing, key);
            let store = rest.as_ref().unwrap_or(&inner.store);
            if let Err(error) = store.debit(rule, &part.key, owed).await {
                if error.is_certain() {
                    inner.local.decide(owing, key, now, owed);
                }
                return Err(error);
            }
            rest = Some(inner.store.left_since(begun));
        }
        Ok(rest)
    }
}

fn local_key(local: &MemoryStore, part: &Part<'_>) -> Option<Key> {
    local.key((part.key.tag(), part.key.text())).ok()
}

fn open(part: &Part<'_>) -> Decision {
    let limit = part.present.rule.policy().limit();
    Decision { verdict: Verdict::Allow, limit, remaining: limit, reset_after: Span::ZERO }
}

fn closed(part: &Part<'_>, retry_after: Span) -> Decision {
    if part.named.without() != WithoutStore::Closed {
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
