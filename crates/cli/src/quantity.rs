//! Quotas and spans as they are typed: `100/min`, `20/10s`, `90s`.

use tidegate_core::{Quota, Span};

const UNITS: [(&str, u64); 9] = [
    ("ms", 1_000),
    ("s", 1_000_000),
    ("second", 1_000_000),
    ("min", 60_000_000),
    ("minute", 60_000_000),
    ("h", 3_600_000_000),
    ("hour", 3_600_000_000),
    ("d", 86_400_000_000),
    ("day", 86_400_000_000),
];

/// Reads `N/UNIT` or `N/COUNTUNIT`.
pub(crate) fn quota(text: &str) -> Result<Quota, String> {
    let form = "write CELLS/UNIT or CELLS/SPAN, such as 100/min, 5/s, 1000/h or 20/10s; units are \
                ms, s, min, h and d";
    let (cells, per) = text.split_once('/').ok_or(form)?;
    let cells: u32 = number(cells).ok_or(form)?;
    let per = if per.starts_with(|letter: char| letter.is_ascii_digit()) {
        split(per)
    } else {
        Some((1, per))
    };
    let per = per.and_then(|(count, unit)| times(count, unit)).ok_or(form)?;
    if cells == 0 {
        return Err("a quota of 0 cells lets nothing pass: give at least 1".to_owned());
    }
    if per == Span::ZERO {
        return Err("the period is zero: give at least 1ms".to_owned());
    }
    if Quota::PER_MAX < per {
        return Err("the period is longer than 366 days: choose a shorter one".to_owned());
    }
    Ok(Quota::new(cells, per))
}

/// Reads `COUNTUNIT`.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    let form = "write a number and a unit, such as 250ms, 90s, 4min, 12h or 7d";
    let span = split(text).and_then(|(count, unit)| times(count, unit)).ok_or(form)?;
    if span == Span::ZERO {
        return Err("it is zero: give at least 1ms".to_owned());
    }
    Ok(span)
}

fn split(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (count, unit) = text.split_at(end);
    Some((number(count)?, unit))
}

/// Digits only: `+5` and `5e3` are not how anybody writes a quota.
fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|letter| letter.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn times(count: u32, unit: &str) -> Option<Span> {
    let (_, micros) = UNITS.iter().find(|(name, _)| *name == unit)?;
    // At most 2^32 days, which is below 2^69 microseconds: too long to be a u64 is too long.
    Some(Span::from_micros(micros.saturating_mul(count.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, cells: u32, per: Span) {
        assert_eq!(quota(text), Ok(Quota::new(cells, per)));
    }

    #[test]
    fn quotas_read_as_they_are_said() {
        check("100/min", 100, Span::from_secs(60));
        check("5/s", 5, Span::from_secs(1));
        check("20/10s", 20, Span::from_secs(10));
        check("1/250ms", 1, Span::from_millis(250));
        check("4294967295/366d", u32::MAX, Quota::PER_MAX);
    }

    #[test]
    fn what_is_no_quota_says_how_to_write_one() {
        let all =
            ["", "100", "/s", "100/", "100/m", "x/s", "+1/s", "1/s/s", "4294967296/s", "-1/s"];
        for text in all {
            assert!(quota(text).unwrap_err().starts_with("write CELLS/UNIT"), "{text}");
        }
        for text in ["0/s", "1/0s", "1/367d", "1/4294967295d"] {
            assert!(!quota(text).unwrap_err().starts_with("write"), "{text}");
        }
    }

    #[test]
    fn spans_have_a_unit() {
        assert_eq!(span("90s"), Ok(Span::from_secs(90)));
        assert_eq!(span("4min"), Ok(Span::from_secs(240)));
        for text in ["", "90", "s", "1.5s", "0s", "5 s"] {
            assert!(span(text).is_err(), "{text}");
        }
    }
}
