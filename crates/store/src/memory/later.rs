//! What is done about a charge later: it is given back, a permit is renewed, a key is forgotten.

use std::ops::Deref;

use tidegate_core::{Kind, Receipt, Tick};

use super::MemoryStore;
use super::gaps::Gaps;
use super::limit_table::LimitTable;
use super::rule::Rule;
use super::shard::Shard;
use super::slot_key::SlotKey;
use crate::key::Key;
use crate::sync::RwLock;

impl MemoryStore {
    /// Gives back what was charged: never above full, never into another window. Where less of the
    /// quota is given out since, it is what the cells are worth now.
    ///
    /// A slot of a queue with others behind it stays empty until they have been given back too.
    /// Whether it came back at once.
    #[expect(clippy::needless_pass_by_value, reason = "a receipt is good for once")]
    pub fn refund(&self, rule: &Rule, key: Key, now: Tick, receipt: Receipt) -> bool {
        let (at, cost) = (receipt.at(), receipt.cost());
        self.with_shard(rule, key, now, |shard, present, slot_key| {
            let worth = present.applied().worth(&rule.applied(), cost);
            let receipt = Receipt::new(at, worth);
            (shard.refund(present, slot_key, (now, receipt), (&self.limit_table, &self.gaps)), None)
        })
    }

    /// Gives back what a request was charged that gives up before its start.
    ///
    /// If its slot in a queue cannot come back, because others stand behind it, what was charged
    /// under other limits stays charged as well: otherwise a queue could be filled for free.
    /// Permits come back all the same. Whether all of it came back.
    pub fn give_up<R: Deref<Target = Rule>>(
        &self,
        now: Tick,
        charged: impl IntoIterator<Item = (R, Key, Receipt)>,
    ) -> bool {
        let kind = |rule: &Rule| self.policy(rule).kind();
        let is_queued = |it: &(R, Key, Receipt)| kind(&it.0) == Kind::LeakyQueue;
        let (queued, others): (Vec<_>, Vec<_>) = charged.into_iter().partition(is_queued);
        let is_last = |(rule, key, receipt): &(R, Key, Receipt)| {
            self.with_shard(rule, *key, now, |shard, present, slot_key| {
                (shard.takes_back(present, slot_key, (now, receipt)), None)
            })
        };
        let all_last = queued.iter().all(is_last);
        let mut comes_back = all_last;
        for charge in queued {
            // A last slot stays taken beside one that cannot come back.
            if all_last || !is_last(&charge) {
                let (rule, key, receipt) = charge;
                comes_back &= self.refund(&rule, key, now, receipt);
            }
        }
        for (rule, key, receipt) in others {
            if comes_back || kind(&rule) == Kind::Concurrency {
                self.refund(&rule, key, now, receipt);
            }
        }
        comes_back
    }

    /// Renews a permit that is still held: it lapses one period from `now`, and the receipt is the
    /// one to give it back by. Nothing if it has lapsed, or if the rule is not one of concurrency.
    pub fn renew(&self, rule: &Rule, key: Key, now: Tick, receipt: Receipt) -> Option<Receipt> {
        let mut receipt = Some(receipt);
        self.with_shard(rule, key, now, |shard, present, slot_key| {
            (receipt.take().and_then(|receipt| shard.renew(present, slot_key, now, receipt)), None)
        })
    }

    /// Forgets a key: it is as good as one that was never seen.
    pub fn reset(&self, rule: &Rule, key: Key) {
        // What it owed is gone, whatever the time.
        self.with_shard(rule, key, Tick::default(), |shard, _, slot_key| {
            self.gaps.forget(slot_key);
            (shard.forget(slot_key), None)
        });
    }
}

impl Shard {
    /// Gives back what was charged, if anything is still known of it. A key that was judged with
    /// its group gets nothing back: others may owe it.
    fn refund(
        &mut self,
        rule: &Rule,
        slot_key: SlotKey,
        (now, receipt): (Tick, Receipt),
        (limit_table, gaps): (&RwLock<LimitTable>, &Gaps),
    ) -> bool {
        let Ok(index) = self.slots().find(slot_key.0) else { return false };
        let (policy, mut state) = (&rule.policy, self.take(index, &rule.policy));
        let comes_back = policy.takes_back(&state, now, &receipt);
        if comes_back {
            policy.refund(&mut state, now, receipt);
        } else {
            gaps.open(slot_key, now, &receipt);
        }
        if comes_back && policy.kind() == Kind::LeakyQueue {
            gaps.close(policy, slot_key, now, &mut state);
        }
        self.put(index, policy, state);
        self.forget_paid(index, now, limit_table);
        comes_back
    }

    /// Whether what was charged would come back, as far as anything is still known of its key.
    fn takes_back(
        &mut self,
        rule: &Rule,
        slot_key: SlotKey,
        (now, receipt): (Tick, &Receipt),
    ) -> bool {
        let Ok(index) = self.slots().find(slot_key.0) else { return false };
        let state = self.take(index, &rule.policy);
        let takes_back = rule.policy.takes_back(&state, now, receipt);
        self.put(index, &rule.policy, state);
        takes_back
    }

    /// Renews a permit, if it is still held.
    fn renew(
        &mut self,
        rule: &Rule,
        slot_key: SlotKey,
        now: Tick,
        receipt: Receipt,
    ) -> Option<Receipt> {
        let index = self.slots().find(slot_key.0).ok()?;
        let mut state = self.take(index, &rule.policy);
        let renewed = rule.policy.renew(&mut state, now, receipt);
        self.put(index, &rule.policy, state);
        renewed
    }
}
