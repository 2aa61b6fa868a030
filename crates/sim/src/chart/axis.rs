//! Where the marks of an axis go, and what they say.

use tidegate_core::Span;

use crate::chart::words::decimals;

const MILLI: u64 = 1_000;
const SECOND: u64 = 1_000 * MILLI;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The most marks on the time axis.
const MARKS_MAX: u64 = 9;

/// Steps between marks that people count in.
const STEPS: [u64; 44] = [
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    MILLI,
    2 * MILLI,
    5 * MILLI,
    10 * MILLI,
    20 * MILLI,
    50 * MILLI,
    100 * MILLI,
    200 * MILLI,
    500 * MILLI,
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    15 * SECOND,
    30 * SECOND,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    5 * DAY,
    10 * DAY,
    30 * DAY,
    90 * DAY,
    180 * DAY,
    366 * DAY,
    732 * DAY,
];

/// Marks of the time axis from the start to `duration`: ticks, and what to write there.
pub(super) fn time_marks(duration: Span) -> Vec<(u64, String)> {
    let fits = |step: &&u64| duration.get() / **step <= MARKS_MAX;
    let step = STEPS.iter().find(fits).copied().unwrap_or(duration.get().max(1));
    (0..=duration.get() / step)
        .map(|nth| nth * step)
        .map(|at| (at, clock(at, step, duration)))
        .collect()
}

/// `at` as a clock shows it, as finely as `step` needs.
fn clock(at: u64, step: u64, duration: Span) -> String {
    match step {
        DAY.. => format!("{} d", at / DAY),
        HOUR.. => format!("{} h", at / HOUR),
        SECOND.. if HOUR <= at => {
            format!("{}:{:02}:{:02}", at / HOUR, at % HOUR / MINUTE, at % MINUTE / SECOND)
        }
        SECOND.. => format!("{}:{:02}", at / MINUTE, at % MINUTE / SECOND),
        MILLI.. if SECOND <= duration.get() => format!("{} s", decimals(at, SECOND)),
        MILLI.. => format!("{} ms", at / MILLI),
        _ => format!("{at} µs"),
    }
}

/// Marks of the cells axis up to `most`: nothing, the quota and its multiples, while they are few.
pub(super) fn cell_marks(quota: u64, most: f64) -> Vec<u64> {
    let most = whole(most);
    let quota = quota.max(1);
    let step = quota.saturating_mul((most / quota / 4 + 1).max(1));
    let mut marks: Vec<u64> = (0..=most / step).map(|nth| nth * step).collect();
    if !marks.contains(&quota) {
        marks.insert(1, quota);
    }
    marks
}

/// Round marks up to `most`, where there is no quota to measure by.
pub(super) fn round_marks(most: f64) -> Vec<u64> {
    let most = whole(most);
    let mut step = 1;
    while 3 < most / step {
        let leading = step.to_string().starts_with('2');
        step = if leading { step / 2 * 5 } else { step * 2 };
    }
    (0..=most / step).map(|nth| nth * step).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "only the whole part is wanted")]
#[expect(clippy::cast_sign_loss, reason = "cells are never negative")]
fn whole(most: f64) -> u64 {
    most as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(duration: Span, labels: &str) {
        let marks = time_marks(duration).into_iter().map(|(_, label)| label);
        assert_eq!(marks.collect::<Vec<_>>().join(" "), labels);
    }

    #[test]
    fn time_is_marked_in_steps_that_people_count_in() {
        check(Span::from_secs(240), "0:00 0:30 1:00 1:30 2:00 2:30 3:00 3:30 4:00");
        check(Span::from_secs(3_601), "0:00 10:00 20:00 30:00 40:00 50:00 1:00:00");
        check(Span::from_secs(4), "0 s 0.5 s 1 s 1.5 s 2 s 2.5 s 3 s 3.5 s 4 s");
        check(Span::from_micros(4), "0 µs 1 µs 2 µs 3 µs 4 µs");
        check(Span::from_secs(4 * 86_400), "0 h 12 h 24 h 36 h 48 h 60 h 72 h 84 h 96 h");
    }

    #[test]
    fn cells_are_marked_in_quotas() {
        assert_eq!(cell_marks(100, 230.0), [0, 100, 200]);
        assert_eq!(cell_marks(100, 850.0), [0, 100, 300, 600]);
        assert_eq!(round_marks(7.0), [0, 2, 4, 6]);
        assert_eq!(round_marks(420.0), [0, 200, 400]);
    }
}
