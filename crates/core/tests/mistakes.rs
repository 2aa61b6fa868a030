//! Mistakes that ship in other limiters today, numbered as we collected them: none of them here.
#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Kind, Limit, Policy, Quota, Receipt, Span, State, Tick, Verdict, decide_all};

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

fn policy(kind: Kind, quota: Quota) -> (Policy, State) {
    let policy = Policy::new(kind, quota).unwrap();
    (policy, policy.fresh())
}

fn drain(policy: &Policy, state: &mut State, now: Tick) -> u32 {
    let mut passed = 0;
    while policy.decide(state, now, 1).verdict.passes() {
        passed += 1;
    }
    passed
}

#[test]
fn mistake_1_a_refusal_is_charged() {
    for kind in Kind::ALL {
        let (policy, mut state) = policy(kind, Quota::per_minute(10));
        policy.decide(&mut state, NOW, 8);
        let before = state.clone();
        for _ in 0..1_000 {
            assert!(!policy.decide(&mut state, NOW, 3).verdict.passes());
        }
        assert_eq!(state, before, "{kind}");
        assert!(policy.decide(&mut state, NOW, 2).verdict.passes(), "{kind}");
    }
}

#[test]
fn mistake_2_a_refusal_by_one_limit_burns_another() {
    for order in [[0, 1], [1, 0]] {
        let policies = [
            Policy::new(Kind::Gcra, Quota::per_minute(100)).unwrap(),
            Policy::new(Kind::SlidingLog, Quota::per_minute(1)).unwrap(),
        ];
        let mut states = policies.map(|policy| policy.fresh());
        for _ in 0..20 {
            let [first, second] = states.get_disjoint_mut(order).unwrap();
            let mut limits = [
                Limit::new(&policies[order[0]], first, 1),
                Limit::new(&policies[order[1]], second, 1),
            ];
            let _ = decide_all(&mut limits, NOW);
        }
        assert_eq!(policies[0].peek(&mut states[0], NOW, 0).remaining, 99);
    }
}

#[test]
fn mistake_3_twice_the_burst_after_idling() {
    for kind in Kind::ALL.into_iter().filter(|kind| kind.has_burst()) {
        let (policy, mut state) = policy(kind, Quota::per_second(1).burst(10));
        policy.decide(&mut state, NOW, 1);
        for idle_millis in [1, 500, 999, 1_000, 8_900, 10_000, 1_000_000] {
            let mut state = state.clone();
            let later = NOW.after(Span::from_millis(idle_millis));
            assert!(drain(&policy, &mut state, later) <= 10, "{kind} after {idle_millis} ms");
        }
    }
}

#[test]
fn mistake_3_a_burst_of_one_that_never_limits() {
    for kind in Kind::ALL {
        let quota = Quota::per_second(1);
        let (policy, mut state) =
            policy(kind, if kind.has_burst() { quota.burst(1) } else { quota });
        assert_eq!(drain(&policy, &mut state, NOW), 1, "{kind}");
    }
}

#[test]
fn mistake_4_a_huge_cost_wraps_around_and_passes() {
    for kind in Kind::ALL {
        let (policy, mut state) = policy(kind, Quota::per_minute(100));
        policy.decide(&mut state, NOW, 1);
        for cost in [101, 1 << 31, u32::MAX - 1, u32::MAX] {
            assert_eq!(policy.decide(&mut state, NOW, cost).verdict, Verdict::Never, "{kind}");
        }
        assert_eq!(policy.peek(&mut state, NOW, 0).remaining, 99, "{kind}");
    }
}

#[test]
fn mistake_4_a_slow_quota_with_a_large_burst_admits_too_few() {
    for (quota, burst) in [
        (Quota::per_hour(1), 6_000_000),
        (Quota::per_day(1), u32::MAX),
        (Quota::new(1, Quota::PER_MAX), u32::MAX),
        (Quota::new(u32::MAX, Quota::PER_MAX), u32::MAX),
    ] {
        let (policy, mut state) = policy(Kind::TokenBucket, quota.burst(burst));
        assert_eq!(policy.decide(&mut state, NOW, burst - 1).remaining, 1, "{quota}");
        assert_eq!(drain(&policy, &mut state, NOW), 1, "{quota}");
        let Verdict::Deny { retry_after } = policy.decide(&mut state, NOW, 1).verdict else {
            panic!("{quota}: the burst was larger than itself");
        };
        let cell = u64::from(quota.cells());
        assert_eq!(retry_after, Span::from_micros(quota.per().get().div_ceil(cell)), "{quota}");
    }
}

#[test]
fn mistake_4_windows_longer_than_31_bits_of_milliseconds_do_not_limit() {
    for kind in Kind::ALL {
        for days in [24, 25, 30, 50, 366] {
            let per = Span::from_secs(days * 86_400);
            let (policy, mut state) = policy(kind, Quota::new(5, per));
            assert_eq!(drain(&policy, &mut state, NOW), 5, "{kind}, {days} days");
            let soon = NOW.after(Span::from_secs(3_600));
            assert_eq!(drain(&policy, &mut state, soon), 0, "{kind}, {days} days");
        }
    }
}

#[test]
fn mistake_5_the_interval_is_rounded_and_the_rate_drifts() {
    for rate in [3, 7, 999_983, 7_000_000, 300_000_000, 600_000_000, 700_000_000, u32::MAX] {
        let (policy, mut state) = policy(Kind::Gcra, Quota::per_second(rate).burst(rate));
        policy.decide(&mut state, NOW, rate);
        for second in 1..=1_000 {
            let now = NOW.after(Span::from_secs(second));
            assert_eq!(policy.peek(&mut state, now, 0).remaining, rate, "{rate}/s drifts");
            assert!(policy.decide(&mut state, now, rate).verdict.passes(), "{rate}/s drifts");
        }
    }
}

#[test]
fn mistake_6_a_clock_that_goes_back_mints_cells() {
    for kind in Kind::ALL {
        let (policy, mut state) = policy(kind, Quota::per_minute(10));
        drain(&policy, &mut state, NOW);
        let mut minted = 0;
        for back in [1, 30, 60, 3_600, 86_400] {
            let earlier = Tick::from_micros(NOW.get() - back * 1_000_000);
            minted += drain(&policy, &mut state, earlier);
            minted += drain(&policy, &mut state, NOW);
        }
        assert_eq!(minted, 0, "{kind}");
    }
}

#[test]
fn mistake_7_the_time_to_live_is_missing_renewed_by_refusals_or_cut_to_zero() {
    for kind in Kind::ALL {
        let (policy, mut state) = policy(kind, Quota::new(1, Span::from_micros(300)));
        assert!(policy.decide(&mut state, NOW, 1).verdict.passes());
        let forget_at = policy.forget_at(&state);
        assert!(NOW < forget_at && forget_at <= NOW.after(Span::from_micros(600)), "{kind}");
        for tick in 0..100 {
            let now = NOW.after(Span::from_micros(tick));
            assert!(
                !policy.decide(&mut state, now, 1).verdict.passes() || kind == Kind::FixedWindow
            );
        }
        if kind != Kind::FixedWindow {
            assert_eq!(policy.forget_at(&state), forget_at, "{kind}: renewed by a refusal");
        }
        assert!(policy.forget_at(&policy.fresh()) <= NOW, "{kind}: a fresh key is kept");
    }
}

#[test]
fn mistake_8_retry_is_rounded_down_to_nothing() {
    for kind in Kind::ALL {
        let (policy, mut state) = policy(kind, Quota::per_second(900_000));
        policy.decide(&mut state, NOW, 900_000);
        let Verdict::Deny { retry_after } = policy.decide(&mut state, NOW, 1).verdict else {
            panic!("{kind}: passed");
        };
        assert!(Span::ZERO < retry_after, "{kind}");
        assert!(1 <= retry_after.as_secs_ceil(), "{kind}");
    }
}

#[test]
fn mistake_8_a_finite_wait_for_what_can_never_pass() {
    for kind in Kind::ALL {
        let (policy, mut state) = policy(kind, Quota::per_second(5));
        assert_eq!(policy.decide(&mut state, NOW, 6).verdict, Verdict::Never, "{kind}");
    }
}

#[test]
fn mistake_8_a_wait_that_ignores_the_cost() {
    let (policy, mut state) = policy(Kind::TokenBucket, Quota::per_second(10));
    policy.decide(&mut state, NOW, 10);
    for cost in 1..=10 {
        let decision = policy.peek(&mut state, NOW, cost);
        let retry_after = Span::from_millis(100 * cost);
        assert_eq!(decision.verdict, Verdict::Deny { retry_after });
    }
}

#[test]
fn mistake_9_a_refund_above_full() {
    for kind in Kind::ALL {
        let (policy, mut state) = policy(kind, Quota::per_minute(10));
        let (_, receipt) = policy.decide_with_receipt(&mut state, NOW, 4);
        let mut twice = state.clone();
        let receipt = receipt.unwrap();
        let at = receipt.at();
        policy.refund(&mut state, NOW, receipt);
        assert_eq!(policy.peek(&mut state, NOW, 0).remaining, 10, "{kind}");
        policy.refund(&mut twice, NOW, Receipt::new(at, u32::MAX));
        assert_eq!(drain(&policy, &mut twice, NOW), 10, "{kind}");
    }
}

#[test]
fn mistake_9_a_refund_into_the_next_window() {
    let minute = 60_000_000;
    let start = Tick::from_micros(NOW.get() - NOW.get() % minute);
    let next = start.after(Span::from_micros(minute));
    for kind in [Kind::FixedWindow, Kind::SlidingLog, Kind::Concurrency] {
        let (policy, mut state) = policy(kind, Quota::per_minute(10));
        let (_, receipt) = policy.decide_with_receipt(&mut state, start, 6);
        policy.decide(&mut state, next, 6);
        policy.refund(&mut state, next, receipt.unwrap());
        assert_eq!(policy.peek(&mut state, next, 0).remaining, 4, "{kind}");
    }
}

/// A receipt moves into the refund and cannot be copied, so this does not compile twice; a forged
/// second one finds nothing left of the charge.
#[test]
fn mistake_9_a_refund_twice() {
    for kind in [Kind::SlidingLog, Kind::Concurrency] {
        let (policy, mut state) = policy(kind, Quota::per_minute(10));
        let (_, receipt) = policy.decide_with_receipt(&mut state, NOW, 4);
        let later = NOW.after(Span::from_secs(1));
        policy.decide(&mut state, later, 6);
        policy.refund(&mut state, later, receipt.unwrap());
        policy.refund(&mut state, later, Receipt::new(NOW, 4));
        assert_eq!(policy.peek(&mut state, later, 0).remaining, 4, "{kind}");
    }
}
