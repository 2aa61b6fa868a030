//! One request, said in full: who it is for, what it costs, and what is wanted of it.

use std::hash::Hash;

use arrayvec::ArrayVec;
use tidegate_core::{Decision, Span, Tick, Verdict};

use super::answer::Answer;
use super::pass::{Pass, RuleReceipts};
use super::rule::{Rules, Scope, UnknownRule};
use super::wait::Acquire;
use super::{Limiter, LimiterRule, MemoryStore};
use crate::by::By;
use crate::key::{Key, KeyTooLong};
use crate::memory::{Charge, Rule};

const LIMITS_MAX: usize = MemoryStore::LIMITS_MAX;

/// A request that has not been decided yet.
///
/// ```
/// use tidegate_core::Quota;
/// use tidegate_store::Limiter;
///
/// let limiter = Limiter::builder()
///     .each("per-user", Quota::per_minute(100))
///     .each("per-tenant", Quota::per_minute(1_000))
///     .build()?;
///
/// let answer = limiter
///     .key(("user", 7))
///     .key_for("per-tenant", ("tenant", "acme"))?
///     .cost(10)
///     .decide_each();
/// assert_eq!(answer.of("per-user").map(|it| it.remaining), Some(90));
/// assert_eq!(answer.of("per-tenant").map(|it| it.remaining), Some(990));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing has been decided yet"]
pub struct Ask<'a> {
    pub(super) limiter: &'a Limiter,
    key: Result<Key, KeyTooLong>,
    cost: u32,
    others: ArrayVec<(usize, Result<Key, KeyTooLong>), LIMITS_MAX>,
}

impl<'a> Ask<'a> {
    #[inline]
    pub(super) fn new(limiter: &'a Limiter, key: Result<Key, KeyTooLong>) -> Ask<'a> {
        Ask { limiter, key, cost: 1, others: ArrayVec::new() }
    }

    /// What the request costs, in cells. Without it, one; with zero, it only looks.
    #[inline]
    pub fn cost(mut self, cells: u32) -> Ask<'a> {
        self.cost = cells;
        self
    }

    /// Another key for one of the rules.
    pub fn key_for(mut self, rule: &str, key: impl Hash) -> Result<Ask<'a>, UnknownRule> {
        let index = self.limiter.rules.find(rule)?;
        let key = self.limiter.store.key(key);
        self.others.retain(|(other, _)| *other != index);
        // As many places as there can be rules.
        let _ = self.others.try_push((index, key));
        Ok(self)
    }

    /// Decides, and charges every rule if all let it pass.
    ///
    /// The numbers are those of the rule that is closest to refusing, or that refused for longest.
    pub fn decide(self) -> Decision {
        if let [rule] = &*self.limiter.rules.each
            && self.others.is_empty()
            && rule.scope() == Scope::Each
            && let Ok(key) = self.key
        {
            let store = &self.limiter.store;
            return store.decide(&rule.present(), key, self.limiter.now(), self.cost);
        }
        self.decide_each().decision()
    }

    /// As [`Ask::decide`], with the answer of every rule.
    pub fn decide_each(self) -> Answer<'a> {
        self.charged(self.limiter.now()).0
    }

    /// What [`Ask::decide`] would answer, without charging.
    pub fn peek(self) -> Decision {
        let now = self.limiter.now();
        let Some(keys) = self.keys() else { return never() };
        let (limiter, rules) = (self.limiter, self.limiter.rules.each.iter());
        let each: ArrayVec<Decision, LIMITS_MAX> = rules
            .zip(keys)
            .map(|(rule, key)| limiter.store.peek(&rule.present(), key, now, self.cost))
            .collect();
        let verdict = each.iter().fold(Verdict::Allow, |all, it| all.and(it.verdict));
        Answer::new(&limiter.rules.names, (verdict, By::Store), each).decision()
    }

    /// Decides, and hands out a [`Pass`] that can be given back.
    ///
    /// Dropping it gives back what counts concurrency; everything else stays charged unless it is
    /// refunded.
    pub fn enter(self) -> Result<Pass<'a>, Decision> {
        let now = self.limiter.now();
        let (answer, receipts) = self.charged(now);
        match answer.decision() {
            decision if decision.verdict.passes() => {
                Ok(Pass::new(self.limiter, decision, receipts, (now, self.line())))
            }
            decision => Err(decision),
        }
    }

    /// Waits until the request passes, for at most `within`.
    ///
    /// Requests that wait for a key are served in the order in which they came; a large one is not
    /// overtaken by small ones. It needs no particular runtime, and polls nothing while it waits.
    ///
    /// Dropping the future gives its place in that line to the next. The requests behind a slot in
    /// a leaky queue already know when to start, so it comes back only once nobody is behind it: an
    /// earlier slot stays empty until those behind it have left too, and then what the request was
    /// charged under other rules stays charged, except for permits. In a
    /// [`Shaper`](crate::Shaper) those behind move up.
    pub fn acquire(self, within: impl Into<Span>) -> Acquire<'a> {
        Acquire::new(self, within.into())
    }

    /// Waits as [`Ask::acquire`] does, for code that is not async: blocks the thread.
    pub fn acquire_blocking(self, within: impl Into<Span>) -> Result<Pass<'a>, Decision> {
        super::wait::block_on(self.acquire(within))
    }

    pub(super) fn reset(self) {
        let Some(keys) = self.keys() else { return };
        for (rule, key) in self.limiter.rules.each.iter().zip(keys) {
            if rule.scope() == Scope::Each {
                self.limiter.store.reset(&rule.present(), key);
            }
        }
    }

    /// The key that waiters line up for.
    pub(super) fn line(&self) -> Option<Key> {
        self.key.ok()
    }

    /// Decides at `now`; what was charged can be given back.
    pub(super) fn charged(&self, now: Tick) -> (Answer<'a>, RuleReceipts) {
        let Rules { names, each: rules } = &self.limiter.rules;
        let Some(keys) = self.keys() else { return (Answer::never(names), RuleReceipts::new()) };
        let mut each: ArrayVec<Decision, LIMITS_MAX> = ArrayVec::new();
        let mut receipts = RuleReceipts::new();
        let rules: ArrayVec<_, LIMITS_MAX> = rules.iter().map(LimiterRule::present).collect();
        let charges = rules.iter().zip(keys);
        let charges: ArrayVec<Charge<'_>, LIMITS_MAX> =
            charges.map(|(rule, key)| Charge { rule, key, cost: self.cost }).collect();
        let mut keys = charges.iter().map(|charge| charge.key).enumerate();
        let verdict = self.limiter.store.decide_all(&charges, now, |decision, receipt| {
            each.push(decision);
            if let (Some((index, key)), Some(receipt)) = (keys.next(), receipt) {
                receipts.push((index, key, receipt));
            }
        });
        (Answer::new(names, (verdict, By::Store), each), receipts)
    }

    /// Every rule's key, in order; `None` if one of them is too long.
    fn keys(&self) -> Option<ArrayVec<Key, LIMITS_MAX>> {
        let of_rule = |(index, named): (usize, &LimiterRule<Rule>)| {
            let other = self.others.iter().find(|(other, _)| *other == index);
            match (other, named.scope()) {
                (Some((_, key)), _) => key.ok(),
                (None, Scope::All) => self.limiter.store.key(()).ok(),
                (None, Scope::Each) => self.key.ok(),
            }
        };
        self.limiter.rules.each.iter().enumerate().map(of_rule).collect()
    }
}

/// What cannot be asked never passes: waiting would not make a key shorter.
pub(super) fn never() -> Decision {
    Decision::of_no_limit(Verdict::Never)
}
