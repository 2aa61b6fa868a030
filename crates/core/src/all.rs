//! Several limits at once: a request passes all of them, or is charged to none.

use crate::decision::{Decision, Receipt, Verdict};
use crate::policy::{Policy, State};
use crate::tick::Tick;

/// One of the limits that a request has to pass.
#[derive(Debug)]
pub struct Limit<'a> {
    policy: &'a Policy,
    state: &'a mut State,
    cost: u32,
    answer: Option<Decision>,
    receipt: Option<Receipt>,
}

impl<'a> Limit<'a> {
    /// `cost` cells under `policy`, for the key of which `state` is remembered.
    pub const fn new(policy: &'a Policy, state: &'a mut State, cost: u32) -> Limit<'a> {
        Limit { policy, state, cost, answer: None, receipt: None }
    }

    /// What this limit said by itself; nothing before [`decide_all`].
    ///
    /// A verdict that does not pass is a limit that was violated. Where another one was, this is
    /// what it would have said.
    pub const fn answer(&self) -> Option<Decision> {
        self.answer
    }

    /// The receipt of what was charged here, the first time it is asked for.
    pub const fn take_receipt(&mut self) -> Option<Receipt> {
        self.receipt.take()
    }
}

/// Decides one request by all of `limits`, and charges all or none; but those that refuse it and
/// charge what they refuse.
///
/// The verdict of all together waits for the longest: no limit's room ever shrinks by waiting, so
/// by then all pass.
pub fn decide_all(limits: &mut [Limit<'_>], now: Tick) -> Verdict {
    let mut together = Verdict::Allow;
    for limit in &mut *limits {
        let answer = limit.policy.peek(limit.state, now, limit.cost);
        together = together.and(answer.verdict);
        limit.answer = Some(answer);
    }
    if together.passes() {
        for limit in limits {
            limit.receipt = Some(limit.policy.charge(limit.state, now, limit.cost));
            let charged = limit.policy.peek(limit.state, now, 0);
            limit.answer = limit.answer.map(|said| Decision { verdict: said.verdict, ..charged });
        }
        return together;
    }
    // Waits are said as they are once the refusals are charged, where they are.
    for limit in limits {
        if let Some(said) = limit.answer {
            let told = limit.policy.charge_refusal(limit.state, now, (said, limit.cost));
            together = together.and(told.verdict);
            limit.answer = Some(told);
        }
    }
    together
}
