//! The core agrees with the naive models, number by number.
#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Kind, Policy, Quota, Receipt, Span, Tick};
use tidegate_sim::oracle::Oracle;
use tidegate_sim::rng::Rng;

/// A policy and its oracle for the same quota; windows have no burst.
fn pair(kind: Kind, quota: Quota) -> (Policy, Oracle) {
    let quota = if kind.has_burst() { quota } else { Quota::new(quota.cells(), quota.per()) };
    (Policy::new(kind, quota).unwrap(), Oracle::new(kind, quota))
}

/// Walks both through `steps` random requests, looks, debits and refunds.
fn walk(kind: Kind, quota: Quota, rng: &mut Rng, steps: u32) -> u32 {
    let (policy, mut oracle) = pair(kind, quota);
    let mut state = policy.fresh();
    let mut now = Tick::from_micros(1_700_000_000_000_000 + rng.below(1 << 30));
    let mut charged: Vec<(Tick, u32)> = Vec::new();
    let mut refused = 0;
    for _ in 0..steps {
        let pace = [1, quota.per().get() / 50 + 1, quota.per().get() + 1, 3 * quota.per().get()];
        let pace = pace[usize::try_from(rng.below(4)).unwrap()];
        now = now.after(Span::from_micros(rng.below(pace)));
        if rng.one_in(8)
            && let Some((at, cost)) = charged.pop()
        {
            policy.refund(&mut state, now, Receipt::new(at, cost));
            oracle.refund(now, at, cost);
        }
        if rng.one_in(6) {
            let cells = rng.below_u32(policy.limit().saturating_mul(2).min(1 << 30));
            if let Ok(debited) = policy.debit(&mut state, now, cells) {
                oracle.debit(now, cells);
                assert_eq!(debited.receipt.cost() + debited.forgiven, cells);
                charged.push((debited.receipt.at(), debited.receipt.cost()));
            }
        }
        if rng.one_in(10) {
            let cells = rng.below_u32(policy.limit().min(64));
            policy.give_back(&mut state, now, cells);
            oracle.give_back(now, cells);
        }
        let overdrawn = policy.overdrawn(&mut state, now);
        assert_eq!(u128::from(overdrawn), oracle.overdrawn(now), "{kind} {quota}\n{state:?}");
        let small = 2 + rng.below_u32(64);
        let cost = rng.below_u32(policy.limit().saturating_add(2).min(small));
        let cost = if rng.one_in(6) { rng.below_u32(policy.limit()).max(cost) } else { cost };
        let (decision, receipt) = policy.decide_with_receipt(&mut state, now, cost);
        oracle.check(decision, now, cost).unwrap_or_else(|wrong| {
            panic!("{kind} {quota}: {wrong}\n{state:?}\n{oracle:?}");
        });
        refused += u32::from(!decision.verdict.passes());
        if let Some(receipt) = receipt {
            oracle.charge(now, cost);
            let slot_ends = now.after(oracle.delay(now));
            let at = if kind == Kind::LeakyQueue && 0 < cost { slot_ends } else { now };
            assert_eq!((receipt.at(), receipt.cost()), (at, cost));
            charged.push((at, cost));
        }
    }
    refused
}

#[track_caller]
fn agrees(kind: Kind) {
    let mut refused = 0;
    for seed in 0..4_000 {
        let mut rng = Rng::new(seed);
        let quota = if seed % 2 == 0 { rng.small_quota() } else { rng.any_quota() };
        refused += walk(kind, quota, &mut rng, 40);
    }
    assert!(2_000 < refused, "the walk hardly met the limit: {refused}");
}

#[test]
fn token_bucket_agrees() {
    agrees(Kind::TokenBucket);
}

#[test]
fn gcra_agrees() {
    agrees(Kind::Gcra);
}

#[test]
fn leaky_bucket_agrees() {
    agrees(Kind::LeakyBucket);
}

#[test]
fn leaky_queue_agrees() {
    agrees(Kind::LeakyQueue);
}

#[test]
fn fixed_window_agrees() {
    agrees(Kind::FixedWindow);
}

#[test]
fn sliding_window_agrees() {
    agrees(Kind::SlidingWindow);
}

#[test]
fn sliding_log_agrees() {
    agrees(Kind::SlidingLog);
}

#[test]
fn concurrency_agrees() {
    agrees(Kind::Concurrency);
}
