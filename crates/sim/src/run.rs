//! A policy over a trace, in virtual time: every tenant has a state of its own.

use std::collections::VecDeque;

use tidegate_core::{Kind, Policy, Receipt, Span, State, Tick, Verdict};

use crate::trace::Trace;

/// A request that was let through.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pass {
    /// When it starts: when it was made, or later if it had to wait.
    pub starts: Tick,
    /// Who made it.
    pub tenant: u32,
    /// How many cells it took.
    pub cost: u32,
}

/// What one policy did with a trace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outcome {
    /// What passed, by tenant, and for each tenant in order of starting.
    pub passes: Vec<Pass>,
    /// How many of them had to wait.
    pub delayed: u64,
    /// The longest that any of them had to wait.
    pub delay_max: Span,
    /// Refused requests of each tenant.
    pub refused: Vec<u64>,
    /// Bytes that the largest state of any tenant took at any time.
    pub state_bytes_max: usize,
}

/// Runs `policy` over `trace`. Under [`Kind::Concurrency`] each request gives its cells back
/// `hold` after it started; the other algorithms take no notice of `hold`.
pub fn run(policy: &Policy, trace: &Trace, hold: Span) -> Outcome {
    let tenants = place(trace.tenants());
    let mut states = vec![policy.fresh(); tenants];
    let mut flights = Flights::default();
    let mut outcome = Outcome {
        passes: Vec::new(),
        delayed: 0,
        delay_max: Span::ZERO,
        refused: vec![0; tenants],
        state_bytes_max: 0,
    };
    for request in trace.requests() {
        flights.land(policy, &mut states, request.at);
        let index = place(request.tenant);
        let state = &mut states[index];
        let (decision, receipt) = policy.decide_with_receipt(state, request.at, request.cost);
        outcome.state_bytes_max = outcome.state_bytes_max.max(policy.state_bytes(state));
        let wait = match decision.verdict {
            Verdict::Allow => Span::ZERO,
            Verdict::Delay { by } => by,
            Verdict::Deny { .. } | Verdict::Never => {
                outcome.refused[index] += 1;
                continue;
            }
        };
        outcome.delayed += u64::from(wait != Span::ZERO);
        outcome.delay_max = outcome.delay_max.max(wait);
        let starts = request.at.after(wait);
        outcome.passes.push(Pass { starts, tenant: request.tenant, cost: request.cost });
        if policy.kind() == Kind::Concurrency {
            flights.lift(starts.after(hold), request.tenant, receipt);
        }
    }
    outcome.passes.sort_by_key(|pass| (pass.tenant, pass.starts));
    outcome
}

/// Requests under way, in the order in which they end: all take equally long.
#[derive(Debug, Default)]
struct Flights(VecDeque<(Tick, u32, Receipt)>);

impl Flights {
    fn lift(&mut self, ends: Tick, tenant: u32, receipt: Option<Receipt>) {
        if let Some(receipt) = receipt {
            self.0.push_back((ends, tenant, receipt));
        }
    }

    /// Gives back the cells of every request that has ended by `now`.
    fn land(&mut self, policy: &Policy, states: &mut [State], now: Tick) {
        while let Some((ends, tenant, receipt)) = self.0.pop_front_if(|(ends, ..)| *ends <= now) {
            policy.refund(&mut states[place(tenant)], ends, receipt);
        }
    }
}

fn place(tenant: u32) -> usize {
    usize::try_from(tenant).expect("bounded by Trace::TENANTS_MAX")
}

#[cfg(test)]
mod tests {
    use tidegate_core::Quota;

    use super::*;
    use crate::trace::Request;

    fn trace(requests: &[(u64, u32)]) -> Trace {
        let requests = requests
            .iter()
            .map(|&(millis, tenant)| Request {
                at: Tick::from_micros(millis * 1_000),
                tenant,
                cost: 1,
            })
            .collect();
        Trace::new(requests, Span::from_secs(10)).unwrap()
    }

    fn starts(outcome: &Outcome) -> Vec<u64> {
        outcome.passes.iter().map(|pass| pass.starts.get() / 1_000).collect()
    }

    #[test]
    fn what_has_to_wait_starts_later() {
        let policy = Policy::new(Kind::LeakyQueue, Quota::per_second(2)).unwrap();
        let outcome = run(&policy, &trace(&[(0, 0), (0, 0), (0, 0)]), Span::ZERO);
        assert_eq!(starts(&outcome), [0, 500]);
        assert_eq!((outcome.delayed, outcome.delay_max), (1, Span::from_millis(500)));
        assert_eq!(outcome.refused, [1]);
    }

    #[test]
    fn tenants_do_not_share_a_state() {
        let policy = Policy::token_bucket(Quota::per_second(1)).unwrap();
        let outcome = run(&policy, &trace(&[(0, 0), (1, 0), (2, 1)]), Span::ZERO);
        assert_eq!(outcome.refused, [1, 0]);
    }

    #[test]
    fn concurrency_gives_back_what_has_ended() {
        let policy = Policy::new(Kind::Concurrency, Quota::per_minute(1)).unwrap();
        let hold = Span::from_millis(100);
        let outcome = run(&policy, &trace(&[(0, 0), (99, 0), (100, 0), (150, 0)]), hold);
        assert_eq!(starts(&outcome), [0, 100]);
    }
}
