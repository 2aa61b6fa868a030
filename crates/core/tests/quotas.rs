//! Which quotas are accepted, which are refused and in which words, and what a change of one keeps.
#![expect(clippy::unwrap_used, reason = "tests")]

use tidegate_core::{Kind, Policy, Quota, QuotaError, Receipt, Span, State, Tick, Verdict};
use tidegate_sim::rng::Rng;

const NOW: Tick = Tick::from_micros(1_700_000_000_000_000);

#[test]
fn every_quota_of_the_range_is_accepted_and_counted_exactly() {
    let cells = [1, 2, 3, 7, 100, 10_007, 999_999_937, u32::MAX - 1, u32::MAX];
    let periods = [1_000, 1_001, 1_000_000, 60_000_000, 2_592_000_000_000, Quota::PER_MAX.get()];
    for kind in Kind::ALL {
        for cells in cells {
            for per in periods {
                let quota = Quota::new(cells, Span::from_micros(per));
                let policy = Policy::new(kind, quota).unwrap();
                assert_eq!(policy.limit(), cells);
                for burst in cells_if(kind.has_burst(), &[1, 6_000_000, u32::MAX]) {
                    let policy = Policy::new(kind, quota.burst(burst)).unwrap();
                    let grains = policy.grains().unwrap();
                    let rate = u128::from(grains.tick()) * u128::from(per);
                    assert_eq!(rate, u128::from(grains.cell()) * u128::from(cells), "not exact");
                    assert_eq!((grains.burst(), policy.limit()), (burst, burst));
                    assert!(grains.tick() < 1 << 53 && grains.cell() < 1 << 53);
                }
            }
        }
    }
}

fn cells_if(wanted: bool, cells: &[u32]) -> Vec<u32> {
    if wanted { cells.to_vec() } else { Vec::new() }
}

#[test]
fn a_refused_quota_says_what_to_do() {
    let second = Span::from_secs(1);
    let too_long = Span::from_micros(Quota::PER_MAX.get() + 1);
    for kind in Kind::ALL {
        let check = |quota, message: &str| {
            assert_eq!(Policy::new(kind, quota).unwrap_err().to_string(), message, "{kind}");
        };
        check(Quota::new(0, second), "a quota of 0 cells lets nothing pass: give at least 1");
        check(Quota::new(1, Span::ZERO), "the period is zero: give at least one microsecond");
        check(Quota::new(1, too_long), "the period is longer than 366 days: choose a shorter one");
        let burst = Policy::new(kind, Quota::new(1, second).burst(2));
        if kind.has_burst() {
            check(
                Quota::new(1, second).burst(0),
                "a burst of 0 lets nothing pass: give at least 1",
            );
            assert!(burst.is_ok());
        } else {
            assert_eq!(
                burst.unwrap_err().to_string(),
                "windows, logs and concurrency have no burst: leave it out, or choose a bucket",
            );
        }
    }
}

#[test]
fn quotas_read_like_english() {
    assert_eq!(Quota::per_second(5).to_string(), "5 per 1s");
    assert_eq!(Quota::per_minute(100).burst(20).to_string(), "100 per 1min, 20 at once");
    assert_eq!(Quota::per_hour(3).to_string(), "3 per 1h");
    assert_eq!(Quota::per_day(5_000).to_string(), "5000 per 1d");
    assert_eq!(Quota::new(1, Span::from_millis(250)).to_string(), "1 per 250ms");
    assert_eq!(Quota::new(1, Span::from_micros(7)).to_string(), "1 per 7us");
    assert_eq!(Quota::in_flight(9, Span::from_secs(90)).to_string(), "9 per 90s");
}

#[test]
fn kinds_are_known_by_their_names() {
    for kind in Kind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
        assert_eq!(Policy::new(kind, Quota::per_second(1)).unwrap().kind(), kind);
    }
    let unknown = "bucket".parse::<Kind>().unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "no such algorithm: choose one of token-bucket, gcra, leaky-bucket, leaky-queue, \
         fixed-window, sliding-window, sliding-log, concurrency",
    );
}

/// `consumed` cells under a quota of `before`, then a change to `after`: what remains.
fn remaining_after_change(kind: Kind, before: Quota, consumed: u32, after: Quota) -> u32 {
    let (old, new) = (Policy::new(kind, before).unwrap(), Policy::new(kind, after).unwrap());
    let mut state = old.fresh();
    assert!(old.decide(&mut state, NOW, consumed).verdict.passes());
    new.carry(&old, &mut state, NOW);
    new.peek(&mut state, NOW, 0).remaining
}

#[test]
fn a_raise_grants_the_difference_and_a_cut_never_goes_below_zero() {
    for kind in Kind::ALL {
        let check = |limits: [Quota; 2], consumed, remaining| {
            let [before, after] = limits;
            let seen = remaining_after_change(kind, before, consumed, after);
            assert_eq!(seen, remaining, "{kind}: {before}, {consumed} consumed, then {after}");
        };
        let (hundred, more, less) =
            (Quota::per_minute(100), Quota::per_minute(150), Quota::per_minute(50));
        check([hundred, more], 80, 70);
        check([hundred, less], 80, 0);
        check([hundred, less], 30, 20);
        check([hundred, hundred], 80, 20);
        check([hundred, Quota::per_hour(1_000)], 80, 920);
        check([Quota::per_hour(1_000), hundred], 80, 20);
        check([hundred, more], 0, 150);
    }
}

#[test]
fn a_change_of_the_period_only_keeps_what_was_consumed() {
    for kind in Kind::ALL {
        let (minute, hour) = (Quota::per_minute(100), Quota::per_hour(100));
        assert_eq!(remaining_after_change(kind, minute, 60, hour), 40, "{kind}");
        assert_eq!(remaining_after_change(kind, hour, 60, minute), 40, "{kind}");
    }
}

#[test]
fn a_change_of_algorithm_keeps_what_was_consumed() {
    for from in Kind::ALL {
        for to in Kind::ALL {
            let quota = Quota::per_minute(10);
            let (old, new) = (Policy::new(from, quota).unwrap(), Policy::new(to, quota).unwrap());
            let mut state = old.fresh();
            old.decide(&mut state, NOW, 7);
            new.carry(&old, &mut state, NOW);
            assert_eq!(new.peek(&mut state, NOW, 0).remaining, 3, "{from} to {to}");
        }
    }
}

/// A change gives nothing away: whatever comes, the new policy never has more than its own limit
/// less what the old one still counted.
#[test]
fn a_change_of_quota_never_pays() {
    for seed in 0..6_000 {
        let mut rng = Rng::new(seed);
        let kind = Kind::ALL[usize::try_from(seed % 8).unwrap()];
        let mut quota = || {
            let quota = rng.small_quota();
            if kind.has_burst() { quota } else { Quota::new(quota.cells(), quota.per()) }
        };
        let (old, new) = (quota(), quota());
        let (old, new) = (Policy::new(kind, old).unwrap(), Policy::new(kind, new).unwrap());
        let mut state = old.fresh();
        let mut now = NOW;
        for _ in 0..6 {
            now = now.after(Span::from_micros(rng.below(2_000)));
            old.decide(&mut state, now, 1 + rng.below_u32(old.limit()));
        }
        let consumed = old.limit() - old.peek(&mut state, now, 0).remaining;
        // A partly refilled cell is not whole, and stays partly consumed.
        let whole = if kind.has_burst() { consumed.saturating_sub(1) } else { consumed };
        new.carry(&old, &mut state, now);
        let remaining = new.peek(&mut state, now, 0).remaining;
        // A log knows when each event passed, and under a shorter period the older ones are gone.
        let knows_when = matches!(kind, Kind::SlidingLog | Kind::Concurrency);
        let most = new.limit() - whole.min(new.limit());
        assert!(knows_when || remaining <= most, "{kind}: {old:?} {new:?}");
        assert!(new.limit().saturating_sub(consumed) <= remaining, "{kind}: {old:?} {new:?}");
    }
}

#[test]
fn a_part_of_a_cell_survives_a_change_rounded_up() {
    let (slow, fast) = (Quota::per_second(3), Quota::per_second(7));
    let (slow, fast) = (Policy::token_bucket(slow).unwrap(), Policy::token_bucket(fast).unwrap());
    let mut state = slow.fresh();
    slow.decide(&mut state, NOW, 1);
    // A tenth of a second pays three tenths of the cell: seven tenths stay.
    let later = NOW.after(Span::from_millis(100));
    fast.carry(&slow, &mut state, later);
    let reset_after = fast.peek(&mut state, later, 0).reset_after;
    assert_eq!(reset_after, Span::from_millis(100));
}

fn calendar(limit: u32, boundaries: [u64; 3]) -> Policy {
    Policy::calendar(limit, boundaries.map(Tick::from_micros)).unwrap()
}

fn remaining_at(policy: &Policy, state: &State, at: u64) -> u32 {
    policy.peek(&mut state.clone(), Tick::from_micros(at), 0).remaining
}

#[test]
fn calendar_windows_start_where_the_caller_says() {
    let policy = calendar(10, [100, 130, 158]);
    let mut state = policy.fresh();
    let refused = {
        policy.decide(&mut state, Tick::from_micros(110), 10);
        policy.decide(&mut state, Tick::from_micros(117), 1)
    };
    assert_eq!(refused.verdict, Verdict::Deny { retry_after: Span::from_micros(13) });
    assert_eq!(refused.reset_after, Span::from_micros(13));
    assert_eq!(remaining_at(&policy, &state, 129), 0);
    assert_eq!(remaining_at(&policy, &state, 130), 10);
    let second = policy.decide(&mut state, Tick::from_micros(130), 4);
    assert_eq!(second.reset_after, Span::from_micros(28));
    // A caller that is late with new boundaries lets nobody pass twice, and is never forgotten.
    assert_eq!(remaining_at(&policy, &state, 158), 6);
    let late = policy.peek(&mut state.clone(), Tick::from_micros(200), 7);
    assert_eq!(late.verdict, Verdict::Deny { retry_after: Span::MAX });
    assert_eq!(late.reset_after, Span::MAX);
    assert!(!policy.is_fresh(&state, Tick::from_micros(1 << 50)));
    let mut refunded = state.clone();
    let (_, receipt) = policy.decide_with_receipt(&mut refunded, Tick::from_micros(170), 5);
    policy.refund(&mut refunded, Tick::from_micros(180), receipt.unwrap());
    assert_eq!(remaining_at(&policy, &refunded, 181), 6);
    // With them, the count goes on in its own window, and the next one is new.
    let next = calendar(10, [130, 158, 189]);
    next.carry(&policy, &mut state, Tick::from_micros(140));
    assert_eq!(remaining_at(&next, &state, 150), 6);
    assert_eq!(remaining_at(&next, &state, 158), 10);
}

#[test]
fn calendar_windows_and_a_clock_that_goes_back() {
    let policy = calendar(10, [100, 130, 158]);
    let mut state = policy.fresh();
    policy.decide(&mut state, Tick::from_micros(131), 10);
    let refused = policy.decide(&mut state, Tick::from_micros(120), 1);
    assert_eq!(refused.verdict, Verdict::Deny { retry_after: Span::from_micros(38) });
}

#[test]
fn calendar_boundaries_must_be_in_order() {
    let refused = |limit, boundaries: [u64; 3]| {
        Policy::calendar(limit, boundaries.map(Tick::from_micros)).unwrap_err()
    };
    for boundaries in [[1, 1, 2], [1, 2, 2], [2, 1, 3], [1, 3, 2]] {
        assert_eq!(refused(1, boundaries), QuotaError::Boundaries);
    }
    assert_eq!(refused(0, [1, 2, 3]), QuotaError::ZeroCells);
    assert_eq!(
        QuotaError::Boundaries.to_string(),
        "calendar boundaries are not in order: give three ticks, each later than the last",
    );
    let policy = calendar(1, [1, 2, 3]);
    assert_eq!((policy.kind(), policy.limit()), (Kind::FixedWindow, 1));
}

#[test]
fn states_take_one_word_two_or_a_list() {
    let words = |kind, quota| Policy::new(kind, quota).unwrap().words();
    assert_eq!(words(Kind::Gcra, Quota::per_minute(100)), 1);
    assert_eq!(words(Kind::TokenBucket, Quota::per_second(1_000)), 1);
    // 9,999 a minute reduces to 3,333 per 20 s, and 3,333 grains a tick outgrow a word.
    assert_eq!(words(Kind::TokenBucket, Quota::per_minute(9_999)), 2);
    assert_eq!(words(Kind::LeakyQueue, Quota::per_day(1).burst(u32::MAX)), 2);
    assert_eq!(words(Kind::FixedWindow, Quota::per_day(1)), 2);
    assert_eq!(words(Kind::SlidingWindow, Quota::per_day(1)), 2);
    assert_eq!(words(Kind::SlidingLog, Quota::per_day(1)), 0);
}

#[test]
fn a_full_log_takes_at_most_eight_bytes_an_event_and_a_little_slack() {
    let policy = Policy::new(Kind::SlidingLog, Quota::per_hour(1_000)).unwrap();
    let mut state = policy.fresh();
    assert!(policy.state_bytes(&state) < 100);
    for event in 0..1_000 {
        policy.decide(&mut state, NOW.after(Span::from_micros(event * 17)), 1);
    }
    let bytes = policy.state_bytes(&state);
    assert!((8_000..9_200).contains(&bytes), "{bytes} bytes");
    let bucket = Policy::token_bucket(Quota::per_minute(9_999)).unwrap();
    assert_eq!(bucket.state_bytes(&bucket.fresh()), 16);
}

/// What is folded together counts at least as much as each part, at every tick after.
#[test]
fn the_worse_of_two_states_is_worse_than_both() {
    let mut differed = 0;
    for seed in 0..4_000 {
        let mut rng = Rng::new(seed);
        let kind = Kind::ALL[usize::try_from(seed % 6).unwrap()];
        let quota = rng.small_quota();
        let quota = if kind.has_burst() { quota } else { Quota::new(quota.cells(), quota.per()) };
        let policy = Policy::new(kind, quota).unwrap();
        let mut walk = || {
            let (mut state, mut now) = (policy.fresh(), NOW);
            for _ in 0..4 {
                now = now.after(Span::from_micros(rng.below(quota.per().get() / 2 + 1)));
                policy.decide(&mut state, now, 1 + rng.below_u32(policy.limit()));
            }
            state
        };
        let (a, b) = (walk(), walk());
        let worse = policy.worse(&a, &b).unwrap();
        let later = NOW.after(Span::from_micros(2 * quota.per().get()));
        let remaining = |state: &State| policy.peek(&mut state.clone(), later, 0).remaining;
        assert!(remaining(&worse) <= remaining(&a).min(remaining(&b)), "{kind}: {a:?} {b:?}");
        assert!(policy.forget_at(&a).max(policy.forget_at(&b)) <= policy.forget_at(&worse));
        assert_eq!(policy.worse(&a, &a), Some(a.clone()));
        differed += u32::from(remaining(&a) != remaining(&b));
    }
    assert!(500 < differed);
}

#[test]
fn another_calendar_keeps_what_was_consumed_too() {
    let (month, day) = (calendar(10, [100, 130, 158]), calendar(10, [110, 111, 112]));
    let mut state = month.fresh();
    month.decide(&mut state, Tick::from_micros(105), 7);
    day.carry(&month, &mut state, Tick::from_micros(110));
    assert_eq!(remaining_at(&day, &state, 110), 3);
    assert_eq!(remaining_at(&day, &state, 111), 10);
    // Boundaries that do not go on where the old ones were are another calendar.
    let mut state = month.fresh();
    month.decide(&mut state, Tick::from_micros(105), 7);
    let shifted = calendar(10, [100, 131, 158]);
    shifted.carry(&month, &mut state, Tick::from_micros(106));
    assert_eq!(remaining_at(&shifted, &state, 107), 3);
}

#[test]
fn a_calendar_goes_on_by_one_window_through_a_cut_and_a_raise() {
    let first = calendar(100, [100, 130, 158]);
    let mut state = first.fresh();
    let now = Tick::from_micros(131);
    first.decide(&mut state, now, 80);
    let [cut, full] = [50, 100].map(|limit| calendar(limit, [130, 158, 189]));
    cut.carry(&first, &mut state, now);
    assert_eq!(remaining_at(&cut, &state, 131), 0);
    full.carry(&cut, &mut state, now);
    assert_eq!(remaining_at(&full, &state, 131), 20);
}

#[test]
fn a_receipt_of_the_next_window_is_not_of_this_one() {
    let start = Tick::from_micros(NOW.get() - NOW.get() % 60_000_000);
    let end = start.after(Span::from_secs(60));
    for kind in [Kind::FixedWindow, Kind::SlidingWindow] {
        let policy = Policy::new(kind, Quota::per_minute(10)).unwrap();
        let mut state = policy.fresh();
        policy.decide(&mut state, Tick::from_micros(start.get() - 1), 3);
        policy.decide(&mut state, start, 6);
        let before = state.clone();
        policy.refund(&mut state, start, Receipt::new(end, 6));
        assert_eq!(state, before, "{kind}");
        policy.refund(&mut state, start, Receipt::new(Tick::from_micros(end.get() - 1), 6));
        let left = policy.peek(&mut state, start, 0).remaining;
        assert_eq!(left, if kind == Kind::FixedWindow { 10 } else { 7 }, "{kind}");
    }
}

#[test]
fn windows_of_the_same_length_go_on_through_a_change() {
    let early = Tick::from_micros(NOW.get() - NOW.get() % 60_000_000);
    let late = early.after(Span::from_secs(30));
    for kind in [Kind::FixedWindow, Kind::SlidingWindow, Kind::SlidingLog] {
        let [old, new] = [10, 20].map(|cells| Policy::new(kind, Quota::per_minute(cells)).unwrap());
        let mut state = old.fresh();
        old.decide(&mut state, early, 8);
        let mut untouched = state.clone();
        new.carry(&old, &mut state, late);
        // As if the new quota had been there from the start: nothing is booked anew.
        for wait in [0, 29, 30, 31, 60, 89, 90] {
            let at = late.after(Span::from_secs(wait));
            assert_eq!(new.peek(&mut state, at, 0), new.peek(&mut untouched, at, 0), "{kind}");
        }
    }
}

#[test]
fn a_window_remembers_through_a_cut_and_a_raise() {
    for kind in [Kind::FixedWindow, Kind::SlidingWindow, Kind::SlidingLog, Kind::Concurrency] {
        let [full, cut] =
            [100, 50].map(|cells| Policy::new(kind, Quota::per_minute(cells)).unwrap());
        let mut state = full.fresh();
        full.decide(&mut state, NOW, 80);
        cut.carry(&full, &mut state, NOW);
        assert_eq!(cut.peek(&mut state, NOW, 0).remaining, 0, "{kind}");
        full.carry(&cut, &mut state, NOW);
        assert_eq!(full.peek(&mut state, NOW, 0).remaining, 20, "{kind}");
    }
}

#[test]
fn a_rate_is_kept_as_its_reduced_fraction() {
    let grains = |quota| {
        let policy = Policy::token_bucket(quota).unwrap();
        policy.grains().map(|grains| (grains.tick(), grains.cell()))
    };
    assert_eq!(grains(Quota::per_minute(100)), Some((1, 600_000)));
    assert_eq!(grains(Quota::per_second(3)), Some((3, 1_000_000)));
    assert_eq!(grains(Quota::per_second(7_000_000)), Some((7, 1)));
    let window = Policy::new(Kind::FixedWindow, Quota::per_minute(100)).unwrap();
    assert_eq!(window.grains(), None);
}

#[test]
fn what_has_left_a_log_does_not_come_back_under_a_longer_period() {
    let [short, long] = [Span::from_secs(1), Span::from_secs(3_600)]
        .map(|per| Policy::new(Kind::SlidingLog, Quota::new(10, per)).unwrap());
    let mut state = short.fresh();
    short.decide(&mut state, NOW, 8);
    let later = NOW.after(Span::from_secs(2));
    long.carry(&short, &mut state, later);
    assert_eq!(long.peek(&mut state, later, 0).remaining, 10);
}

#[test]
fn a_state_of_another_algorithm_counts_as_fresh() {
    for from in Kind::ALL {
        for to in Kind::ALL {
            let quota = Quota::per_minute(10);
            let (old, new) = (Policy::new(from, quota).unwrap(), Policy::new(to, quota).unwrap());
            let mut state = old.fresh();
            old.decide(&mut state, NOW, 10);
            let kept = old.fresh() == new.fresh();
            let expected = if kept { 0 } else { 10 };
            assert_eq!(new.peek(&mut state, NOW, 0).remaining, expected, "{from} to {to}");
            assert!(new.is_fresh(&old.fresh(), NOW));
        }
    }
}

/// One word, decided as a word, answers as the whole state does: and so does any damaged word,
/// without a panic.
#[test]
fn a_word_is_decided_like_the_state_it_holds() {
    for seed in 0..4_000 {
        let mut rng = Rng::new(seed);
        let quota = if seed % 2 == 0 { rng.small_quota() } else { rng.any_quota() };
        let kind = if seed % 3 == 0 { Kind::LeakyQueue } else { Kind::TokenBucket };
        let policy = Policy::new(kind, quota).unwrap();
        let (mut word, mut state) = (0, policy.fresh());
        let mut now = NOW;
        for _ in 0..40 {
            now = now.after(Span::from_micros(rng.below(1 + quota.per().get())));
            let cost = rng.below_u32(policy.limit().saturating_add(2));
            let before = state.clone();
            let expected = policy.decide(&mut state, now, cost);
            if policy.words() == 1 {
                assert_eq!(policy.decide_word(&mut word, now, cost), expected);
                assert_eq!([word, 0], policy.pack(&state));
            } else if policy.pack(&before)[1] == 0 {
                let mut wide = policy.pack(&before)[0];
                assert_eq!(policy.decide_word(&mut wide, now, cost), expected);
            }
        }
        for damaged in [u64::MAX, u64::MAX - 1, rng.next_u64()] {
            let mut word = damaged;
            policy.decide_word(&mut word, NOW, 1);
            policy.decide(&mut policy.unpack([damaged, damaged]), Tick::default(), 1);
        }
    }
}

#[test]
fn spans_and_durations_are_the_same_time() {
    use core::time::Duration;
    assert_eq!(Span::from(Duration::from_micros(1_500)), Span::from_micros(1_500));
    assert_eq!(Span::from(Duration::from_nanos(1)), Span::from_micros(1), "rounded up");
    assert_eq!(Span::from(Duration::MAX), Span::MAX);
    assert_eq!(Duration::from(Span::from_millis(7)), Duration::from_millis(7));
    assert_eq!(Span::from_micros(1).as_secs_ceil(), 1);
    assert_eq!(Span::from_secs(2).as_secs_ceil(), 2);
    assert_eq!(Span::from_micros(2_000_001).as_secs_ceil(), 3);
    assert_eq!(Span::ZERO.to_string(), "0us");
    assert_eq!(Tick::MAX.get(), 9_007_199_254_740_991);
}

/// A quota is changed as of a tick, and others may charge by the old one a little later. That
/// counts in full; the new rate counts from the change on, so a raise is worth its difference.
#[test]
fn a_charge_by_the_old_quota_after_the_change_counts_in_full() {
    let old = Policy::token_bucket(Quota::per_second(1_000).burst(10)).unwrap();
    let changes =
        [(Quota::per_second(1_000).burst(11), 0), (Quota::per_second(2_000).burst(10), 1)];
    for ((new, more_a_milli), late) in
        changes.into_iter().flat_map(|change| [1, 5].map(|late| (change, late)))
    {
        let new = Policy::token_bucket(new).unwrap();
        let charged = NOW.after(Span::from_millis(late));
        let mut state = old.fresh();
        assert!(old.decide(&mut state, charged, 10).verdict.passes());
        new.carry(&old, &mut state, NOW);
        let left = new.peek(&mut state, charged, 0).remaining;
        assert_eq!(left, new.limit() - 10 + more_a_milli * late, "{new:?}, {late} ms late");
    }
}
