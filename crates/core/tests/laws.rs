//! What every algorithm promises, whatever it remembers. Law 9 is the stores' to keep.
#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Kind, Limit, Policy, Quota, Span, State, Tick, Verdict, decide_all};
use tidegate_sim::rng::Rng;

fn policy(kind: Kind, quota: Quota) -> Policy {
    let quota = if kind.has_burst() { quota } else { Quota::new(quota.cells(), quota.per()) };
    Policy::new(kind, quota).unwrap()
}

fn later(now: Tick, ticks: u64) -> Tick {
    now.after(Span::from_micros(ticks))
}

/// One moment of a random walk: the state before and after a request.
struct Moment<'a> {
    policy: &'a Policy,
    quota: Quota,
    before: State,
    after: State,
    now: Tick,
    cost: u32,
}

impl Moment<'_> {
    fn passes(&self, at: Tick, cost: u32) -> bool {
        self.policy.peek(&mut self.after.clone(), at, cost).verdict.passes()
    }
}

/// Walks every kind through random quotas and requests, and shows `law` every moment.
#[track_caller]
fn at_every_moment(law: impl Fn(&Moment<'_>, tidegate_core::Decision, &mut Rng)) {
    for kind in Kind::ALL {
        for seed in 0..700 {
            let mut rng = Rng::new(seed);
            let quota = if seed % 3 == 0 { rng.any_quota() } else { rng.small_quota() };
            let policy = policy(kind, quota);
            let mut now = Tick::from_micros(1_700_000_000_000_000 + rng.below(1_000_000));
            let mut state = policy.fresh();
            for _ in 0..40 {
                now = later(now, rng.below(1 + quota.per().get() / 4));
                let cost = rng.below_u32(policy.limit().saturating_add(3));
                if rng.one_in(6) {
                    // Finished work: now and then the limit is overdrawn.
                    let _ = policy.debit(&mut state, now, rng.below_u32(policy.limit()));
                }
                let before = state.clone();
                let decision = policy.decide(&mut state, now, cost);
                let after = state.clone();
                let moment = Moment { policy: &policy, quota, before, after, now, cost };
                law(&moment, decision, &mut rng);
            }
        }
    }
}

#[test]
fn law_1_retry_is_exact() {
    at_every_moment(|moment, decision, _| {
        let Verdict::Deny { retry_after } = decision.verdict else { return };
        assert!(Span::ZERO < retry_after, "nothing to wait for");
        let then = moment.now.get().saturating_add(retry_after.get());
        if then <= Tick::MAX.get() {
            assert!(moment.passes(Tick::from_micros(then), moment.cost), "promised too early");
            assert!(!moment.passes(Tick::from_micros(then - 1), moment.cost), "promised too late");
        }
    });
}

#[test]
fn law_2_a_refusal_is_free() {
    at_every_moment(|moment, decision, rng| {
        if decision.verdict.passes() && 0 < moment.cost {
            return;
        }
        let at = later(moment.now, rng.below(2 * moment.quota.per().get()));
        let (mut with, mut without) = (moment.after.clone(), moment.before.clone());
        for cost in [0, 1, 2] {
            assert_eq!(
                moment.policy.decide(&mut with, at, cost),
                moment.policy.decide(&mut without, at, cost),
            );
        }
    });
}

#[test]
fn law_3_remaining_is_exact() {
    at_every_moment(|moment, decision, _| {
        assert!(decision.remaining <= decision.limit);
        assert_eq!(decision.limit, moment.policy.limit());
        let overdrawn = moment.policy.overdrawn(&mut moment.after.clone(), moment.now);
        if 0 < overdrawn {
            assert_eq!(decision.remaining, 0, "overdrawn by {overdrawn}");
            assert!(!moment.passes(moment.now, 0), "a look passes");
            return;
        }
        assert!(moment.passes(moment.now, decision.remaining), "too few remain");
        let more = u64::from(decision.remaining) + 1;
        if let Ok(more) = u32::try_from(more) {
            assert!(!moment.passes(moment.now, more), "too many remain");
        }
    });
}

#[test]
fn law_4_all_or_nothing() {
    let mut refusals = [0; 3];
    for seed in 0..4_000 {
        let mut rng = Rng::new(seed);
        let kinds = [0, 1, 2].map(|_| Kind::ALL[usize::try_from(rng.below(8)).unwrap()]);
        let policies = kinds.map(|kind| policy(kind, rng.small_quota()));
        let mut states = [0, 1, 2].map(|index: usize| policies[index].fresh());
        let mut now = Tick::from_micros(rng.below(1 << 50));
        for _ in 0..40 {
            now = later(now, rng.below(30_000));
            let cost = 1 + rng.below_u32(12);
            let before = states.clone();
            let [a, b, c] = &mut states;
            let mut limits = [
                Limit::new(&policies[0], a, cost),
                Limit::new(&policies[1], b, cost),
                Limit::new(&policies[2], c, cost),
            ];
            let together = decide_all(&mut limits, now);
            for (index, limit) in limits.iter_mut().enumerate() {
                let receipt = limit.take_receipt();
                let mut alone = before[index].clone();
                let expected = policies[index].decide_with_receipt(&mut alone, now, cost).1;
                let expected = expected.filter(|_| together.passes());
                assert_eq!((receipt, limit.take_receipt()), (expected, None));
            }
            let answers = limits.map(|limit| limit.answer().unwrap());
            let violated = answers.iter().filter(|answer| !answer.verdict.passes()).count();
            assert_eq!(together.passes(), violated == 0);

            for (index, answer) in answers.into_iter().enumerate() {
                let mut alone = before[index].clone();
                let expected = policies[index].peek(&mut alone, now, cost);
                assert_eq!(answer.verdict, expected.verdict, "another word than alone");
                if together.passes() {
                    let charged = policies[index].decide(&mut alone, now, cost);
                    assert_eq!(answer, charged);
                } else {
                    assert_eq!(answer, expected, "charged although another refused");
                }
                assert_eq!(states[index], alone);
            }
            if violated < 3 {
                refusals[violated] += 1;
            }
            if let Verdict::Deny { retry_after } = together {
                let passes = |states: &[State; 3], at| {
                    let all = |index: usize| {
                        let mut state = states[index].clone();
                        policies[index].peek(&mut state, at, cost).verdict.passes()
                    };
                    (0..3).all(all)
                };
                assert!(passes(&states, now.after(retry_after)));
                assert!(!passes(&states, later(now, retry_after.get() - 1)));
            }
        }
    }
    assert!(refusals.iter().all(|&count| 1_000 < count), "one-sided walk: {refusals:?}");
}

/// What passed in a random walk of `kind`, with the quota.
fn admitted(kind: Kind, seed: u64) -> (Quota, u32, Vec<(u64, u64)>) {
    let mut rng = Rng::new(seed);
    let quota = rng.small_quota();
    let policy = policy(kind, quota);
    let mut state = policy.fresh();
    let mut now = Tick::from_micros(rng.below(1 << 40));
    let mut passed = Vec::new();
    for _ in 0..120 {
        now = later(now, rng.below(1 + quota.per().get() / 8));
        let cost = 1 + rng.below_u32(policy.limit().min(3));
        if policy.decide(&mut state, now, cost).verdict.passes() {
            passed.push((now.get(), u64::from(cost)));
        }
    }
    (quota, policy.limit(), passed)
}

#[test]
fn law_5_buckets_never_pass_more_than_burst_and_rate() {
    for kind in [Kind::TokenBucket, Kind::Gcra, Kind::LeakyBucket, Kind::LeakyQueue] {
        for seed in 0..400 {
            let (quota, burst, passed) = admitted(kind, seed);
            let (cells, per) = (u128::from(quota.cells()), u128::from(quota.per().get()));
            for (first, &(from, _)) in passed.iter().enumerate() {
                let mut sum: u128 = 0;
                for &(to, cost) in &passed[first..] {
                    sum += u128::from(cost);
                    let earned = u128::from(to - from) * cells;
                    assert!(sum * per <= u128::from(burst) * per + earned);
                }
            }
        }
    }
}

#[test]
fn law_5_a_log_never_holds_more_than_the_limit_in_any_span() {
    for seed in 0..600 {
        let (quota, limit, passed) = admitted(Kind::SlidingLog, seed);
        for (first, &(from, _)) in passed.iter().enumerate() {
            let inside = |&&(at, _): &&(u64, u64)| at < from + quota.per().get();
            let sum: u64 = passed[first..].iter().take_while(inside).map(|&(_, cost)| cost).sum();
            assert!(sum <= u64::from(limit));
        }
    }
}

#[test]
fn law_5_no_aligned_window_holds_more_than_the_limit() {
    for seed in 0..600 {
        let (quota, limit, passed) = admitted(Kind::FixedWindow, seed);
        let window = |at: u64| at / quota.per().get();
        for &(from, _) in &passed {
            let inside = |&&(at, _): &&(u64, u64)| window(at) == window(from);
            let sum: u64 = passed.iter().filter(inside).map(|&(_, cost)| cost).sum();
            assert!(sum <= u64::from(limit));
        }
    }
}

#[test]
fn law_5_the_sliding_estimate_never_exceeds_the_limit() {
    for seed in 0..600 {
        let (quota, limit, passed) = admitted(Kind::SlidingWindow, seed);
        let per = quota.per().get();
        let sum = |window: u64, until: usize| -> u64 {
            let inside = |&&(at, _): &&(u64, u64)| at / per == window;
            passed[..=until].iter().filter(inside).map(|&(_, cost)| cost).sum()
        };
        for (index, &(at, _)) in passed.iter().enumerate() {
            let (window, shows) = (at / per, per - at % per);
            let last = window.checked_sub(1).map_or(0, |window| sum(window, index));
            assert!(last * shows / per + sum(window, index) <= u64::from(limit));
        }
    }
}

#[test]
fn law_6_forgetting_is_safe_and_not_a_tick_too_late() {
    at_every_moment(|moment, decision, rng| {
        let forget_at = moment.policy.forget_at(&moment.after);
        if forget_at == Tick::MAX {
            return; // Owed for longer than any clock runs: never forgotten.
        }
        let at = forget_at.max(moment.now);
        assert_eq!(moment.now.after(decision.reset_after), at, "reset is when it is forgotten");
        let (mut kept, mut fresh) = (moment.after.clone(), moment.policy.fresh());
        let mut then = at;
        for _ in 0..4 {
            let cost = 1 + rng.below_u32(moment.policy.limit().min(4));
            assert_eq!(
                moment.policy.decide(&mut kept, then, cost),
                moment.policy.decide(&mut fresh, then, cost),
                "forgotten too soon",
            );
            then = later(then, rng.below(moment.quota.per().get()));
        }
        if moment.now < forget_at {
            let just_before = Tick::from_micros(forget_at.get() - 1);
            assert!(!moment.passes(just_before, decision.limit), "kept too long");
            assert!(!moment.policy.is_fresh(&moment.after, just_before), "fresh too soon");
        }
        assert!(moment.policy.is_fresh(&moment.after, at), "not fresh when it is forgotten");
    });
}

/// A random tick near `latest`: ahead of it, or one time in three behind it.
fn jump(latest: Tick, per: Span, rng: &mut Rng) -> Tick {
    let step = rng.below(1 + per.get() / 4);
    if rng.one_in(3) { Tick::from_micros(latest.get() - step) } else { later(latest, step) }
}

/// Windows and logs stand still while the clock is behind: they let pass at most what they would
/// have under a clock that had stood still instead.
#[test]
fn law_7_time_going_backwards_never_pays_in_a_window() {
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.has_burst()) {
        for seed in 0..600 {
            let mut rng = Rng::new(seed);
            let quota = rng.small_quota();
            let policy = policy(kind, quota);
            let mut latest = Tick::from_micros(1 << 40);
            let (mut jumpy, mut steady) = (policy.fresh(), policy.fresh());
            policy.peek(&mut jumpy, latest, 0);
            for _ in 0..60 {
                let now = jump(latest, quota.per(), &mut rng);
                latest = latest.max(now);
                let cost = 1 + rng.below_u32(policy.limit());
                let would = policy.peek(&mut steady, latest, cost).verdict.passes();
                if policy.decide(&mut jumpy, now, cost).verdict.passes() {
                    assert!(would, "{kind} {quota}: going back paid");
                    policy.decide(&mut steady, latest, cost);
                }
            }
        }
    }
}

/// A bucket counts the clock's whole way once: in whatever order its ticks come, no more passes
/// than a burst and what the rate earns between the earliest and the latest of them.
#[test]
fn law_7_time_going_backwards_never_pays_in_a_bucket() {
    for kind in Kind::ALL.into_iter().filter(|kind| kind.has_burst()) {
        for seed in 0..600 {
            let mut rng = Rng::new(seed);
            let quota = rng.small_quota();
            let policy = policy(kind, quota);
            let mut state = policy.fresh();
            let mut latest = Tick::from_micros(1 << 40);
            let mut passed: Vec<(u64, u32)> = Vec::new();
            for _ in 0..60 {
                let now = jump(latest, quota.per(), &mut rng);
                latest = latest.max(now);
                let cost = 1 + rng.below_u32(policy.limit());
                if policy.decide(&mut state, now, cost).verdict.passes() {
                    passed.push((now.get(), cost));
                }
            }
            for first in 0..passed.len() {
                let (mut earliest, mut latest, mut sum) = (u64::MAX, 0, 0_u128);
                for &(at, cost) in &passed[first..] {
                    (earliest, latest) = (earliest.min(at), latest.max(at));
                    sum += u128::from(cost) * u128::from(quota.per().get());
                    let earned = u128::from(latest - earliest) * u128::from(quota.cells());
                    let burst = u128::from(policy.limit()) * u128::from(quota.per().get());
                    assert!(sum <= burst + earned, "{kind} {quota}: going back paid");
                }
            }
        }
    }
}

/// The promise of a wait holds from an earlier tick as well.
#[test]
fn law_7_retry_is_exact_after_the_clock_went_back() {
    for kind in Kind::ALL {
        for seed in 0..600 {
            let mut rng = Rng::new(seed);
            let quota = rng.small_quota();
            let policy = policy(kind, quota);
            let mut state = policy.fresh();
            let mut latest = Tick::from_micros(1 << 40);
            for _ in 0..60 {
                let now = jump(latest, quota.per(), &mut rng);
                latest = latest.max(now);
                let cost = 1 + rng.below_u32(policy.limit());
                let decision = policy.decide(&mut state, now, cost);
                if let Verdict::Deny { retry_after } = decision.verdict {
                    let passes = |at| policy.peek(&mut state.clone(), at, cost).verdict.passes();
                    assert!(passes(now.after(retry_after)), "{kind} {quota}");
                    assert!(!passes(later(now, retry_after.get() - 1)), "{kind} {quota}");
                }
            }
        }
    }
}

#[test]
fn law_7_a_forward_jump_pays_at_most_one_burst() {
    for kind in Kind::ALL {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let quota = rng.small_quota();
            let policy = policy(kind, quota);
            let mut state = policy.fresh();
            let mut now = Tick::from_micros(1 << 40);
            while policy.decide(&mut state, now, 1).verdict.passes() {}
            now = later(now, 1 << 50);
            let mut passed = 0;
            while policy.decide(&mut state, now, 1).verdict.passes() {
                passed += 1;
            }
            assert_eq!(passed, policy.limit(), "{kind} {quota}");
        }
    }
}

/// Any tick after any other, to the ends of time: no panic anywhere.
#[test]
fn law_7_no_clock_makes_anything_panic() {
    for kind in Kind::ALL {
        for seed in 0..1_500 {
            let mut rng = Rng::new(seed);
            let policy = policy(kind, rng.any_quota());
            let mut state = policy.fresh();
            for _ in 0..60 {
                let now = Tick::from_micros(rng.of_bits(60));
                let cost = u32::try_from(rng.of_bits(32)).unwrap();
                let (_, receipt) = policy.decide_with_receipt(&mut state, now, cost);
                if let Some(receipt) = receipt
                    && rng.one_in(4)
                {
                    policy.refund(&mut state, Tick::from_micros(rng.of_bits(60)), receipt);
                }
                assert_eq!(
                    policy.unpack(policy.pack(&state)) == state,
                    0 < policy.words() || { policy.fresh() == state }
                );
            }
        }
    }
}

#[test]
fn law_8_three_algorithms_are_one_line() {
    for seed in 0..3_000 {
        let mut rng = Rng::new(seed);
        let quota = if seed % 2 == 0 { rng.small_quota() } else { rng.any_quota() };
        let [token, gcra, leaky] =
            [Kind::TokenBucket, Kind::Gcra, Kind::LeakyBucket].map(|kind| policy(kind, quota));
        let queue = policy(Kind::LeakyQueue, quota);
        let mut states = [token, gcra, leaky, queue].map(|policy| policy.fresh());
        let mut now = Tick::from_micros(rng.below(1 << 50));
        for _ in 0..40 {
            now = later(now, rng.below(1 + quota.per().get()));
            let cost = rng.below_u32(quota.burst_asked().unwrap().saturating_add(2));
            let [t, g, l, q] = &mut states;
            let said = token.decide(t, now, cost);
            assert_eq!(said, gcra.decide(g, now, cost));
            assert_eq!(said, leaky.decide(l, now, cost));
            let queued = queue.decide(q, now, cost);
            assert_eq!(said.verdict.passes(), queued.verdict.passes());
            assert_eq!(said.remaining, queued.remaining);
        }
    }
}

/// At the end of time the clock stands still: nothing is earned, and nothing is forgotten.
#[test]
fn law_7_the_end_of_time_pays_nothing() {
    for kind in Kind::ALL {
        let policy = policy(kind, Quota::per_minute(5));
        let mut state = policy.fresh();
        let mut passed = 0;
        while passed < 100 && policy.decide(&mut state, Tick::MAX, 1).verdict.passes() {
            passed += 1;
        }
        assert_eq!(passed, 5, "{kind}");
        assert!(!policy.is_fresh(&state, Tick::MAX), "{kind}");
    }
}
