//! What is done about a charge later: it is given back, a permit is renewed, a key is forgotten.

use tidegate_core::{Kind, Receipt, Tick};

use super::MemoryStore;
use super::book::{Book, read};
use super::rule::Rule;
use super::shard::Shard;
use super::tag::Tag;
use crate::key::Key;
use crate::sync::RwLock;

impl MemoryStore {
    /// Gives back what was charged: never above full, never into another window. Where less of the
    /// quota is given out since, it is what the cells are worth now.
    ///
    /// A permit is given back under rules that have split off from this one since, too.
    #[expect(clippy::needless_pass_by_value, reason = "a receipt is good for once")]
    pub fn refund(&self, rule: &Rule, key: Key, now: Tick, receipt: Receipt) {
        let (at, cost) = (receipt.at(), receipt.cost());
        self.with_shard(rule, key, |shard, present, tag| {
            for held in self.holders(shard, rule, present, tag) {
                let receipt = Receipt::new(at, cost);
                shard.refund(&held, tag.under(held.id), (now, receipt), &self.book);
            }
            let receipt = Receipt::new(at, present.worth(rule, cost));
            (shard.refund(present, tag, (now, receipt), &self.book), None)
        });
    }

    /// Renews a permit that is still held: it lapses one period from `now`, and the receipt is the
    /// one to give it back by. Nothing if it has lapsed, or if the rule is not one of concurrency.
    pub fn renew(&self, rule: &Rule, key: Key, now: Tick, receipt: Receipt) -> Option<Receipt> {
        let (at, cost, mut receipt) = (receipt.at(), receipt.cost(), Some(receipt));
        self.with_shard(rule, key, |shard, present, tag| {
            for held in self.holders(shard, rule, present, tag) {
                let _ = shard.renew(&held, tag.under(held.id), now, Receipt::new(at, cost));
            }
            (receipt.take().and_then(|receipt| shard.renew(present, tag, now, receipt)), None)
        })
    }

    /// Forgets a key: it is as good as one that was never seen.
    pub fn reset(&self, rule: &Rule, key: Key) {
        self.forget(rule, key);
        let present = rule.latest();
        // Otherwise it would be looked up there again.
        for origin in present.as_deref().unwrap_or(rule).origins.iter().flat_map(|it| it.iter()) {
            origin.source().inspect(|source| self.forget(source, key));
        }
    }

    fn forget(&self, rule: &Rule, key: Key) {
        self.with_shard(rule, key, |shard, rule, tag| (shard.forget(rule, tag), None));
    }

    /// The rules that know copies of the permits that a key has under `rule`, which is `present` by
    /// now.
    fn holders(&self, shard: &Shard, rule: &Rule, present: &Rule, tag: Tag) -> Vec<Rule> {
        let is_held = |rule: &Rule| rule.policy.kind() == Kind::Concurrency;
        let mut holders: Vec<Rule> = Vec::new();
        if !is_held(present) {
            return holders;
        }
        for id in shard.slots().ids_like(tag.0).filter(|&id| id != present.id) {
            let other = read(&self.book).rule_of(id).filter(is_held);
            let is_new = |other: &Rule| holders.iter().all(|known| known.id != other.id);
            let other = other.filter(|other| other.has_origin(rule) && is_new(other));
            holders.extend(other);
        }
        holders
    }
}

impl Shard {
    /// Gives back what was charged, if anything is still known of it. A key that was judged with
    /// its group gets nothing back: others may owe it.
    fn refund(
        &mut self,
        rule: &Rule,
        tag: Tag,
        (now, receipt): (Tick, Receipt),
        book: &RwLock<Book>,
    ) {
        if let Ok(index) = self.find(rule, tag) {
            let mut state = self.take(index, &rule.policy);
            rule.policy.refund(&mut state, now, receipt);
            self.put(index, &rule.policy, state);
            self.forget_paid(index, now, book);
        }
    }

    /// Renews a permit, if it is still held.
    fn renew(&mut self, rule: &Rule, tag: Tag, now: Tick, receipt: Receipt) -> Option<Receipt> {
        let index = self.find(rule, tag).ok()?;
        let mut state = self.take(index, &rule.policy);
        let renewed = rule.policy.renew(&mut state, now, receipt);
        self.put(index, &rule.policy, state);
        renewed
    }
}
