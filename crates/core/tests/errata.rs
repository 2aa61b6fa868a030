//! What the well-known articles get wrong about the algorithms, one test a mistake.
//!
//! Each test shows the article's version where that is short, and that ours differs.
#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Kind, Limit, Policy, Quota, Span, State, Tick, Verdict, decide_all};

fn at_secs(secs: u32) -> Tick {
    Tick::default().after(Span::from_secs(secs))
}

fn policy(kind: Kind, quota: Quota) -> (Policy, State) {
    let policy = Policy::new(kind, quota).unwrap();
    (policy, policy.fresh())
}

fn retry_after(verdict: Verdict) -> Span {
    let Verdict::Deny { retry_after } = verdict else { panic!("not refused: {verdict:?}") };
    retry_after
}

/// Sends requests of one cell until one is refused, and says how many passed.
fn drain(policy: &Policy, state: &mut State, now: Tick) -> u32 {
    let mut passed = 0;
    while policy.decide(state, now, 1).verdict.passes() {
        passed += 1;
    }
    passed
}

#[test]
fn the_previous_window_weighs_what_is_left_of_it_not_what_has_passed() {
    let (policy, mut state) = policy(Kind::SlidingWindow, Quota::per_minute(10));
    policy.decide(&mut state, at_secs(30), 8);
    // 15 s into the next minute, 45/60 of the 8 still count: 6 of 10 are used, not 2.
    assert_eq!(policy.peek(&mut state, at_secs(75), 0).remaining, 4);
}

#[test]
fn nginx_limit_req_is_a_leaky_bucket_not_a_sliding_window() {
    let ten_a_second = Quota::per_second(10);
    let (leaky, mut level) = policy(Kind::LeakyBucket, ten_a_second.burst(1));
    let (window, mut pair) = policy(Kind::SlidingWindow, ten_a_second);
    let (first, second) = (at_secs(1), at_secs(1).after(Span::from_millis(50)));
    assert!(leaky.decide(&mut level, first, 1).verdict.passes());
    assert!(window.decide(&mut pair, first, 1).verdict.passes());
    // `rate=10r/s` without a burst wants 100 ms between two requests; a window does not care.
    assert_eq!(retry_after(leaky.decide(&mut level, second, 1).verdict), Span::from_millis(50));
    assert!(window.decide(&mut pair, second, 1).verdict.passes());
}

#[test]
fn a_token_bucket_waits_for_what_is_missing_not_for_one_token() {
    let (policy, mut state) = policy(Kind::TokenBucket, Quota::per_second(10));
    policy.decide(&mut state, at_secs(1), 8);
    // Two of the seven are there: five more at ten a second, not 1 / rate.
    let refused = policy.decide(&mut state, at_secs(1), 7);
    assert_eq!(retry_after(refused.verdict), Span::from_millis(500));
}

#[test]
fn a_sliding_window_may_pass_again_before_the_window_ends() {
    let (policy, mut state) = policy(Kind::SlidingWindow, Quota::per_minute(10));
    policy.decide(&mut state, at_secs(30), 10);
    let refused = policy.decide(&mut state, at_secs(60), 1);
    // One of ten has faded a tick after the window began.
    assert_eq!(retry_after(refused.verdict), Span::from_micros(1));
}

#[test]
fn a_sliding_window_may_still_be_full_after_the_window_ends() {
    let (policy, mut state) = policy(Kind::SlidingWindow, Quota::per_minute(10));
    policy.decide(&mut state, at_secs(30), 10);
    let refused = policy.decide(&mut state, at_secs(31), 5);
    // At 60 s all ten still count. Five fit when less than six do: just past 84 s.
    assert_eq!(retry_after(refused.verdict), Span::from_micros(29_000_000 + 24_000_001));
}

#[test]
fn gcra_counts_the_refused_requests_own_increment() {
    let (policy, mut state) = policy(Kind::Gcra, Quota::per_second(10).burst(5));
    assert_eq!(drain(&policy, &mut state, at_secs(1)), 5);
    // The article's `tat − burst_offset − now` is 0 here, and its client retries at once for ever.
    let refused = policy.decide(&mut state, at_secs(1), 1);
    assert_eq!(retry_after(refused.verdict), Span::from_millis(100));
}

#[test]
fn a_sliding_window_can_let_twice_the_limit_into_a_real_span() {
    let (policy, mut state) = policy(Kind::SlidingWindow, Quota::per_minute(100));
    let mut passed = drain(&policy, &mut state, Tick::from_micros(59_999_999));
    for ms in 60_000..119_999 {
        passed += drain(&policy, &mut state, Tick::from_micros(ms * 1_000));
    }
    // Far more than "one request too many" within the minute that starts at 59.999999 s.
    assert_eq!(passed, 200);
}

#[test]
fn a_fixed_window_does_not_count_what_it_refuses() {
    let (policy, mut state) = policy(Kind::FixedWindow, Quota::per_minute(10));
    assert_eq!(drain(&policy, &mut state, at_secs(1)), 10);
    for second in 2..60 {
        assert!(!policy.decide(&mut state, at_secs(second), 3).verdict.passes());
    }
    let mut counted = state.clone();
    assert_eq!(policy.peek(&mut counted, at_secs(59), 0).remaining, 0);
    assert_eq!(drain(&policy, &mut state, at_secs(60)), 10);
}

#[test]
fn a_refused_request_does_not_extend_the_block() {
    for kind in Kind::ALL {
        let (policy, mut state) = policy(kind, Quota::per_minute(5));
        assert_eq!(drain(&policy, &mut state, at_secs(1)), 5);
        let wait = retry_after(policy.decide(&mut state, at_secs(1), 1).verdict);
        let free_at = at_secs(1).after(wait);
        for second in (2..).map(at_secs).take_while(|&second| second < free_at) {
            assert!(!policy.decide(&mut state, second, 1).verdict.passes(), "{kind}");
        }
        assert!(policy.decide(&mut state, free_at, 1).verdict.passes(), "{kind}");
    }
}

#[test]
fn the_sliding_logs_own_trace_with_refusals_that_are_free() {
    let (policy, mut state) = policy(Kind::SlidingLog, Quota::per_minute(5));
    let trace = [
        (10, true),
        (20, true),
        (50, true),
        (60, true),
        (70, true), // 10 has left
        (80, true), // 20 leaves at this very second
        (81, true), // the article keeps 20, and refuses
        (90, false),
        (111, true), // 50 has left; the refusal at 90 was never there
        (121, true),
    ];
    for (second, passes) in trace {
        let decision = policy.decide(&mut state, at_secs(second), 1);
        assert_eq!(decision.verdict.passes(), passes, "at {second} s");
    }
}

#[test]
fn two_requests_in_one_tick_are_two() {
    for kind in [Kind::SlidingLog, Kind::Concurrency] {
        let (policy, mut state) = policy(kind, Quota::per_minute(3));
        assert_eq!(drain(&policy, &mut state, at_secs(1)), 3, "{kind}");
        assert_eq!(policy.peek(&mut state, at_secs(1), 0).remaining, 0, "{kind}");
    }
}

#[test]
fn waits_round_up_to_seconds_never_down_to_none() {
    let (policy, mut state) = policy(Kind::TokenBucket, Quota::per_second(10));
    drain(&policy, &mut state, at_secs(1));
    let wait = retry_after(policy.decide(&mut state, at_secs(1), 1).verdict);
    assert_eq!((wait, wait.as_secs_ceil()), (Span::from_millis(100), 1));
}

#[test]
fn a_refusal_by_one_limit_consumes_from_no_other() {
    let (client, mut client_state) = policy(Kind::TokenBucket, Quota::per_minute(100));
    let (global, mut global_state) = policy(Kind::FixedWindow, Quota::per_minute(3));
    let mut passed = 0;
    for _ in 0..50 {
        let mut limits =
            [Limit::new(&client, &mut client_state, 1), Limit::new(&global, &mut global_state, 1)];
        passed += u32::from(decide_all(&mut limits, at_secs(1)).passes());
    }
    assert_eq!(passed, 3);
    assert_eq!(client.peek(&mut client_state, at_secs(1), 0).remaining, 97);
}
