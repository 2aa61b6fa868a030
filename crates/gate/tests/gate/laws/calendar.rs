//! Windows of the calendar: days of a time zone, months, and what is under way at midnight.

use std::sync::Arc;

use tidegate_core::Span;
use tidegate_gate::Sample;

use super::{gate_at, turns};
use crate::stand::{by, done, left, looks, passed, replace};

const DAILY: &str = "rules: [{ name: daily, limit: 3/day, algorithm: fixed-window, \
                     time_zone: Europe/Berlin }]";

fn request() -> Sample {
    Sample::new("GET /")
}

fn hours(hours: u32) -> Span {
    Span::from_secs(hours * 3_600)
}

/// Midnight of 30 March 2024 in Berlin; the night after has 23 hours of its day.
const BEFORE_SUMMER: u64 = 1_711_753_200;
/// Midnight of 26 October 2024 in Berlin; the day after has 25 hours.
const BEFORE_WINTER: u64 = 1_729_893_600;

#[test]
fn days_begin_at_midnight_there_and_have_23_24_or_25_hours() {
    for (start, lengths) in [(BEFORE_SUMMER, [24, 23, 24]), (BEFORE_WINTER, [24, 25, 24])] {
        let (gate, clock) = gate_at(start, DAILY);
        for length in lengths {
            let first = gate.decide(&request());
            assert_eq!(left(&first), [2], "midnight has passed");
            assert_eq!(first.decision().reset_after, hours(length));
            clock.advance(Span::from_micros(hours(length).get() - 1));
            assert_eq!(passed(&gate, &request(), 9), 2, "it is the same day a tick before");
            let refused = gate.decide(&request());
            assert_eq!(crate::stand::retry_after(&refused), Some(Span::from_micros(1)));
            clock.advance(Span::from_micros(1));
        }
    }
}

#[test]
fn three_hundred_days_in_a_row() {
    let (gate, clock) = gate_at(
        BEFORE_SUMMER,
        "{ identify: { client: [header:x-api-key] },
           rules: [{ name: daily, key: client, limit: 3/day, algorithm: fixed-window,
                     time_zone: Europe/Berlin },
                   { name: monthly, key: client, limit: 40/month, algorithm: fixed-window }] }",
    );
    assert_eq!(passed(&gate, &by("rare"), 9), 3);
    for day in 0..300 {
        let ada = by("ada");
        let expected = if day % 3 == 0 { 3 } else { 0 };
        assert_eq!(passed(&gate, &ada, expected), expected, "day {day}");
        if day % 3 == 0 {
            assert_eq!(passed(&gate, &ada, 1), 0, "day {day}");
        }
        // Noon, so that summer and winter time do not matter.
        clock.advance(if day == 0 { hours(36) } else { hours(24) });
    }
    assert_eq!(looks(&gate, &by("rare")), [3, 40]);
    assert_eq!(passed(&gate, &by("rare"), 9), 3);
    assert_eq!(looks(&gate, &by("never seen")), [3, 40]);
}

/// Each window may not cost a rule for ever: there are more minutes than rules.
#[test]
fn minutes_of_many_limits_for_hours() {
    let own: Vec<String> = (0..300).map(|it| format!("k{it}: 2/min")).collect();
    let own = own.join(", ");
    let (gate, clock) = gate_at(
        BEFORE_SUMMER,
        &format!(
            "{{ identify: {{ client: [header:x-api-key] }},
               rules: [{{ name: r, key: client, limit: 1/min, algorithm: fixed-window,
                          time_zone: UTC, overrides: {{ {own} }} }}] }}"
        ),
    );
    let requests: Vec<Sample> = (0..300).map(|it| by(&format!("k{it}"))).collect();
    for minute in 0..turns(400) {
        for request in &requests {
            assert_eq!(passed(&gate, request, 3), 2, "minute {minute}");
        }
        clock.advance(Span::from_secs(60));
    }
}

#[test]
fn what_was_charged_before_midnight_is_not_given_back_after_it() {
    let (gate, clock) = gate_at(BEFORE_SUMMER, DAILY);
    clock.advance(hours(23));
    let mut late = gate.decide(&request());
    done(late.charge_more(1));
    clock.advance(hours(2));
    assert_eq!(left(&gate.decide(&request())), [2]);
    done(late.refund());
    assert_eq!(looks(&gate, &request()), [2]);
}

#[test]
fn a_reload_in_the_middle_of_a_day_keeps_what_was_consumed() {
    let (gate, clock) = gate_at(BEFORE_SUMMER, DAILY);
    for (limit, expected) in [("5/day", 3), ("1/day", 0), ("4/day", 2)] {
        if limit == "5/day" {
            assert_eq!(passed(&gate, &request(), 2), 2);
        }
        replace(&gate, &DAILY.replace("3/day", limit));
        let room = gate.decide(&request());
        let seen = if room.verdict().passes() { left(&room)[0] + 1 } else { 0 };
        assert_eq!(seen, expected, "{limit}");
        let mut room = room;
        done(room.refund());
        clock.advance(hours(2));
    }
    clock.advance(hours(24));
    assert_eq!(passed(&gate, &request(), 9), 4);
}

/// Many at once in the first moment of a day: one window for all of them.
#[test]
fn whoever_is_first_after_midnight_counts_with_the_others() {
    let policy = DAILY.replace("3/day", "100/day");
    let (gate, clock) = gate_at(BEFORE_SUMMER, &policy);
    for _ in 0..20 {
        let start = Arc::new(std::sync::Barrier::new(4));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (gate, start) = (gate.clone(), Arc::clone(&start));
                std::thread::spawn(move || {
                    start.wait();
                    passed(&gate, &request(), 60)
                })
            })
            .collect();
        let passed: usize =
            threads.into_iter().map(|thread| thread.join().unwrap_or_default()).sum();
        assert_eq!(passed, 100);
        clock.advance(hours(25));
    }
}
