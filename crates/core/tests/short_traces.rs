//! Every trace of up to six steps over tiny quotas, checked against the naive models.
#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Kind, Policy, Quota, Receipt, Span, State, Tick};
use tidegate_sim::oracle::Oracle;

const STEPS: u32 = 6;

/// What one step does: wait, then ask, or give back the last charge.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ask { wait: u64, cost: u32 },
    Refund { wait: u64 },
}

const ALPHABET: [Step; 8] = [
    Step::Ask { wait: 0, cost: 1 },
    Step::Ask { wait: 0, cost: 2 },
    Step::Ask { wait: 1, cost: 1 },
    Step::Ask { wait: 1, cost: 3 },
    Step::Ask { wait: 2, cost: 1 },
    Step::Ask { wait: 3, cost: 2 },
    Step::Refund { wait: 0 },
    Step::Refund { wait: 2 },
];

#[derive(Clone)]
struct Walk {
    state: State,
    oracle: Oracle,
    now: Tick,
    charged: Option<(Tick, u32)>,
}

impl Walk {
    fn step(&mut self, policy: &Policy, step: Step) {
        match step {
            Step::Ask { wait, cost } => {
                self.now = self.now.after(Span::from_micros(wait));
                let (decision, receipt) =
                    policy.decide_with_receipt(&mut self.state, self.now, cost);
                self.oracle.check(decision, self.now, cost).unwrap_or_else(|wrong| {
                    panic!("{policy:?}: {wrong}\n{:?}\n{:?}", self.state, self.oracle);
                });
                if let Some(receipt) = receipt {
                    self.charged = Some((receipt.at(), receipt.cost()));
                    self.oracle.charge(self.now, cost);
                }
            }
            Step::Refund { wait } => {
                self.now = self.now.after(Span::from_micros(wait));
                if let Some((at, cost)) = self.charged.take() {
                    policy.refund(&mut self.state, self.now, Receipt::new(at, cost));
                    self.oracle.refund(self.now, at, cost);
                }
            }
        }
    }
}

fn walk_all(policy: &Policy, from: &Walk, steps_left: u32) -> u64 {
    if steps_left == 0 {
        return 1;
    }
    let mut traces = 1;
    for step in ALPHABET {
        let mut next = from.clone();
        next.step(policy, step);
        traces += walk_all(policy, &next, steps_left - 1);
    }
    traces
}

#[track_caller]
fn holds_for_every_short_trace(kind: Kind) {
    let bursts: &[Option<u32>] = if kind.has_burst() { &[Some(1), Some(3)] } else { &[None] };
    let mut traces = 0;
    for cells in 1..=3 {
        for per in [1, 2, 5] {
            for burst in bursts {
                let quota = Quota::new(cells, Span::from_micros(per));
                let quota = burst.map_or(quota, |burst| quota.burst(burst));
                let policy = Policy::new(kind, quota).unwrap();
                let walk = Walk {
                    state: policy.fresh(),
                    oracle: Oracle::new(kind, quota),
                    now: Tick::from_micros(21),
                    charged: None,
                };
                traces += walk_all(&policy, &walk, STEPS);
            }
        }
    }
    assert!(2_000_000 < traces, "only {traces} traces were walked");
}

#[test]
fn token_bucket_holds() {
    holds_for_every_short_trace(Kind::TokenBucket);
}

#[test]
fn gcra_holds() {
    holds_for_every_short_trace(Kind::Gcra);
}

#[test]
fn leaky_bucket_holds() {
    holds_for_every_short_trace(Kind::LeakyBucket);
}

#[test]
fn leaky_queue_holds() {
    holds_for_every_short_trace(Kind::LeakyQueue);
}

#[test]
fn fixed_window_holds() {
    holds_for_every_short_trace(Kind::FixedWindow);
}

#[test]
fn sliding_window_holds() {
    holds_for_every_short_trace(Kind::SlidingWindow);
}

#[test]
fn sliding_log_holds() {
    holds_for_every_short_trace(Kind::SlidingLog);
}

#[test]
fn concurrency_holds() {
    holds_for_every_short_trace(Kind::Concurrency);
}
