//! Charges after the fact: debits, refunds, and what is owed beyond a limit.

use super::{Memory, Policy, Rule, State};
use crate::algorithm::Algorithm as _;
use crate::debit::{Debited, NothingToDebit, Overdraft, Refused};
use crate::decision::{Decision, Receipt, Verdict};
use crate::kind::Kind;
use crate::quota::QuotaError;
use crate::tick::Tick;

impl Policy {
    /// Returns this policy with `overdraft` as the most by which debits may overdraw a bucket. A
    /// window remembers all debits, and concurrency has none.
    ///
    /// ```
    /// use tidegate_core::{Overdraft, Policy, Quota, Tick};
    ///
    /// let policy = Policy::token_bucket(Quota::per_minute(60).burst(10))?;
    /// let policy = policy.with_overdraft(Overdraft::Cells(100))?;
    /// let (mut state, now) = (policy.fresh(), Tick::from_micros(0));
    /// assert_eq!(policy.debit(&mut state, now, 200)?.forgiven, 90);
    /// assert_eq!(policy.overdrawn(&mut state, now), 100);
    /// assert!(!policy.peek(&mut state, now, 0).verdict.passes());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn with_overdraft(self, overdraft: Overdraft) -> Result<Policy, QuotaError> {
        if !self.kind.has_burst() {
            return Err(QuotaError::OverdraftWithoutBucket);
        }
        Ok(Policy { overdraft, ..self }.with_debts())
    }

    /// Returns this policy with refusals free or charged. Concurrency has nothing to charge.
    pub const fn with_refused(self, refused: Refused) -> Result<Policy, QuotaError> {
        if matches!((self.kind, refused), (Kind::Concurrency, Refused::Charge)) {
            return Err(QuotaError::RefusedPermitsCharged);
        }
        Ok(Policy { refused, ..self }.with_debts())
    }

    const fn with_debts(self) -> Policy {
        let rule = match self.rule {
            Rule::FixedWindow(it) => Rule::FixedWindow(it.with_refused(self.refused)),
            Rule::Line(it) => Rule::Line(it.with_debts(self.overdraft, self.refused)),
            Rule::Log(it) => Rule::Log(it.with_refused(self.refused)),
            Rule::SlidingWindow(it) => Rule::SlidingWindow(it.with_refused(self.refused)),
        };
        Policy { rule, ..self }
    }

    /// How far debits may overdraw it, if it is a bucket.
    pub const fn overdraft(&self) -> Overdraft {
        self.overdraft
    }

    /// How far debits may overdraw a bucket, in ticks' worth; of a count nothing is forgiven below
    /// 2^32 - 1. With [`Policy::refusals_to`] and [`Policy::forgives_from`] for stores that decide
    /// elsewhere.
    pub const fn overdraft_ticks(&self) -> u64 {
        match &self.rule {
            Rule::Line(it) => it.debts()[0],
            _ => 0,
        }
    }

    /// How far refusals overdraw a bucket, in ticks' worth, or how far they bring a count; 0 if
    /// they are free.
    pub const fn refusals_to(&self) -> u64 {
        match &self.rule {
            Rule::FixedWindow(it) => it.refusals() as u64,
            Rule::Line(it) => it.debts()[1],
            Rule::Log(it) => it.refusals() as u64,
            Rule::SlidingWindow(it) => it.refusals() as u64,
        }
    }

    /// From where on a state may have forgiven something since `at`, so that nothing is given back
    /// of what was charged then: where a line meets zero, in grains; or what a window or a log has
    /// counted.
    pub fn forgives_from(&self, at: Tick) -> u128 {
        let counted = |refusals| if refusals == 0 { u32::MAX } else { refusals };
        match &self.rule {
            Rule::FixedWindow(it) => counted(it.refusals()).into(),
            Rule::Line(it) => it.forgives_from(at),
            // What has left meanwhile may have been more.
            Rule::Log(it) if 0 < it.refusals() => 0,
            Rule::Log(_) => u32::MAX.into(),
            Rule::SlidingWindow(it) => counted(it.refusals()).into(),
        }
    }

    /// Whether its refusals are charged.
    pub const fn refused(&self) -> Refused {
        self.refused
    }

    /// Records what has happened: charged in full, also beyond the limit, which is then overdrawn.
    ///
    /// What is more than the state remembers is forgiven; see [`Overdraft`]. A count of a window or
    /// a log stops at 2^32 - 1.
    pub fn debit(
        &self,
        state: &mut State,
        now: Tick,
        cells: u32,
    ) -> Result<Debited, NothingToDebit> {
        if !self.kind.has_debits() {
            return Err(NothingToDebit);
        }
        Ok(with_state!(self, state, |it, memory| {
            it.settle(memory, now);
            it.debit(memory, now, cells)
        }))
    }

    /// By how many cells the limit is overdrawn, rounded up; 0 if a look passes.
    pub fn overdrawn(&self, state: &mut State, now: Tick) -> u32 {
        with_state!(self, state, |it, memory| {
            it.settle(memory, now);
            it.overdrawn(memory, now)
        })
    }

    /// Gives back what was charged: never above full, never into another window, and as if it had
    /// not been charged.
    ///
    /// No request passes after it that would not have passed had those cells never been charged:
    /// what time has paid meanwhile does not come back once more. A bucket remembers too little to
    /// know exactly, and gives back at most what time has not paid since the receipt's tick.
    ///
    /// A queue takes back its last slot only: a request behind an earlier one already knows when
    /// to start, and two would start together. An earlier slot stays empty.
    pub fn refund(&self, state: &mut State, now: Tick, receipt: Receipt) {
        with_state!(self, state, |it, memory| {
            it.settle(memory, now);
            it.refund(memory, now, receipt);
        });
    }

    /// Gives back up to `cells` without a receipt: at most what is owed now, and in a window at
    /// most what this one counted. Queues and permits are given back by their receipts only.
    pub fn give_back(&self, state: &mut State, now: Tick, cells: u32) {
        if self.kind == Kind::Concurrency {
            return;
        }
        with_state!(self, state, |it, memory| {
            it.settle(memory, now);
            it.give_back(memory, now, cells);
        });
    }

    /// Charges a request that was refused, if that is charged for, and returns its answer.
    pub(crate) fn charge_refusal(
        &self,
        state: &mut State,
        now: Tick,
        (refused, cost): (Decision, u32),
    ) -> Decision {
        if self.refused == Refused::Free || !matches!(refused.verdict, Verdict::Deny { .. }) {
            return refused;
        }
        with_state!(self, state, |it, memory| it.charge_refusal(memory, now, cost));
        self.peek(state, now, cost)
    }
}
