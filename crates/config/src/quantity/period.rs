//! Lengths of time as they are typed: `min`, `10s`, `2 h`; and `250ms` for a span.
//!
//! A month and a year have no length, only a calendar, so they are never counted: `2month` is none.

use tidegate_core::Span;

use super::number::{leading, too_large};
use crate::misread::{Misread, did_you_mean, quoted};
use crate::suggest::did_you_mean as nearest;

/// The longest period and the longest span: 366 days.
const LENGTH_MAX: Span = Span::from_secs(366 * 86_400);

/// What periods are counted in, by every name that is accepted; the first of each is the usual one.
const NAMES: [(&str, PeriodUnit); 13] = [
    ("ms", PeriodUnit::Millisecond),
    ("s", PeriodUnit::Second),
    ("sec", PeriodUnit::Second),
    ("second", PeriodUnit::Second),
    ("min", PeriodUnit::Minute),
    ("minute", PeriodUnit::Minute),
    ("h", PeriodUnit::Hour),
    ("hour", PeriodUnit::Hour),
    ("day", PeriodUnit::Day),
    ("d", PeriodUnit::Day),
    ("week", PeriodUnit::Week),
    ("month", PeriodUnit::Month),
    ("year", PeriodUnit::Year),
];

/// Other people's names, too short or too different to be found by their letters.
const FOREIGN: [(&str, &str); 8] = [
    ("m", "min"),
    ("msec", "ms"),
    ("millis", "ms"),
    ("millisecond", "ms"),
    ("milliseconds", "ms"),
    ("hr", "h"),
    ("hrs", "h"),
    ("w", "week"),
];

/// The time over which a limit's cells pass.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Period {
    /// At least one; exactly one of months and years.
    count: u32,
    unit: PeriodUnit,
}

/// What a period is counted in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PeriodUnit {
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

/// What a calendar has windows of.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum CalendarUnit {
    Minute,
    Hour,
    Day,
    /// From Monday.
    Week,
    Month,
    Year,
}

impl CalendarUnit {
    /// How long it is, more or less: months and years as most of them are.
    pub(crate) fn about(self) -> Span {
        const HOUR: u32 = 3_600;
        Span::from_secs(match self {
            CalendarUnit::Minute => 60,
            CalendarUnit::Hour => HOUR,
            CalendarUnit::Day => 24 * HOUR,
            CalendarUnit::Week => 7 * 24 * HOUR,
            CalendarUnit::Month => 30 * 24 * HOUR,
            CalendarUnit::Year => 365 * 24 * HOUR,
        })
    }
}

impl Period {
    /// Its length; months and years have none.
    pub(crate) fn span(self) -> Option<Span> {
        let micros = self.unit.micros()?.checked_mul(self.count.into())?;
        Some(Span::from_micros(micros))
    }

    /// The calendar's window of this name: only of one unit, and none shorter than a minute.
    pub(crate) fn calendar(self) -> Option<CalendarUnit> {
        if self.count != 1 {
            return None;
        }
        match self.unit {
            PeriodUnit::Millisecond | PeriodUnit::Second => None,
            PeriodUnit::Minute => Some(CalendarUnit::Minute),
            PeriodUnit::Hour => Some(CalendarUnit::Hour),
            PeriodUnit::Day => Some(CalendarUnit::Day),
            PeriodUnit::Week => Some(CalendarUnit::Week),
            PeriodUnit::Month => Some(CalendarUnit::Month),
            PeriodUnit::Year => Some(CalendarUnit::Year),
        }
    }
}

impl PeriodUnit {
    fn micros(self) -> Option<u64> {
        match self {
            PeriodUnit::Millisecond => Some(1_000),
            PeriodUnit::Second => Some(1_000_000),
            PeriodUnit::Minute => Some(60_000_000),
            PeriodUnit::Hour => Some(3_600_000_000),
            PeriodUnit::Day => Some(86_400_000_000),
            PeriodUnit::Week => Some(7 * 86_400_000_000),
            PeriodUnit::Month | PeriodUnit::Year => None,
        }
    }

    fn named(name: &str) -> Result<PeriodUnit, Misread> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, unit)| *unit).ok_or_else(|| not_a_period(name))
    }
}

/// A period such as `min`, `10s` or `2 h`.
pub(super) fn period(text: &str) -> Result<Period, Misread> {
    let text = text.trim();
    let counted = text.starts_with(|first: char| first.is_ascii_digit());
    let (count, name) = if counted { leading(text, "")? } else { (1, text) };
    let unit = PeriodUnit::named(name)?;
    let shown = quoted(text);
    if count == 0 {
        return Err(Misread::new(format!("{shown} is no time at all"), "write at least `1ms`"));
    }
    if unit.micros().is_none() && count != 1 {
        let message = format!("{shown} has no length: months and years differ");
        return Err(Misread::new(message, format!("write `1{name}`, or days, as in `30day`")));
    }
    let count = u32::try_from(count).map_err(|_| too_large(text))?;
    let period = Period { count, unit };
    if unit.micros().is_some() && period.span().is_none_or(|span| LENGTH_MAX < span) {
        return Err(too_long(text));
    }
    Ok(period)
}

/// A span such as `250ms`, `30s`, `5 min` or `2h`. It may be zero.
pub(crate) fn duration(text: &str) -> Result<Span, Misread> {
    let text = text.trim();
    let help = "write a number and a unit, as in `250ms`, `30s`, `5min` or `2h`";
    let (count, name) = leading(text, help)?;
    if name.is_empty() {
        return Err(Misread::new(format!("{} has no unit", quoted(text)), help));
    }
    let Some(micros) = PeriodUnit::named(name)?.micros() else {
        let message = format!("{} has no length: months and years differ", quoted(text));
        return Err(Misread::new(message, "write days, as in `30day`"));
    };
    let span = count.checked_mul(micros).map(Span::from_micros);
    span.filter(|span| *span <= LENGTH_MAX).ok_or_else(|| too_long(text))
}

fn too_long(text: &str) -> Misread {
    let message = format!("{} is longer than 366 days", quoted(text));
    Misread::new(message, "write a shorter time")
}

fn not_a_period(name: &str) -> Misread {
    let form = "write one of ms, s, min, h, day, week, month, year, as in `100/min` or `30/10s`";
    let help = did_you_mean(usual(name), form);
    if name.is_empty() {
        return Misread::new("the period is missing", help);
    }
    Misread::new(format!("{} is not a period", quoted(name)), help)
}

/// The usual name of the period that was probably meant.
fn usual(name: &str) -> Option<&'static str> {
    if let Some((_, usual)) = FOREIGN.iter().find(|(foreign, _)| *foreign == name) {
        return Some(usual);
    }
    let near = nearest(name, NAMES.iter().map(|(name, _)| *name))?;
    let (_, unit) = NAMES.iter().find(|(name, _)| *name == near)?;
    NAMES.iter().find(|(_, other)| other == unit).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &str =
        "write one of ms, s, min, h, day, week, month, year, as in `100/min` or `30/10s`";

    #[track_caller]
    fn check(text: &str, count: u32, unit: PeriodUnit) {
        let period = period(text).unwrap();
        assert_eq!((period.count, period.unit), (count, unit), "{text}");
    }

    #[track_caller]
    fn refuses(text: &str, message: &str, help: &str) {
        assert_eq!(period(text), Err(Misread::new(message, help)), "{text}");
    }

    #[test]
    fn periods_read_by_every_name() {
        for (name, unit) in NAMES {
            check(name, 1, unit);
            check(&format!(" 1 {name} "), 1, unit);
        }
        check("10s", 10, PeriodUnit::Second);
        check("2 h", 2, PeriodUnit::Hour);
        check("366day", 366, PeriodUnit::Day);
        check("1_000ms", 1_000, PeriodUnit::Millisecond);
    }

    #[test]
    fn a_plural_is_refused_and_the_singular_named() {
        for (text, meant) in [
            ("minutes", "min"),
            ("mins", "min"),
            ("Min", "min"),
            ("m", "min"),
            ("hours", "h"),
            ("hrs", "h"),
            ("seconds", "s"),
            ("secs", "s"),
            ("msec", "ms"),
            ("days", "day"),
            ("mnoth", "month"),
            ("yaer", "year"),
        ] {
            let message = format!("`{text}` is not a period");
            refuses(text, &message, &format!("did you mean `{meant}`? {FORM}"));
        }
        refuses("fortnight", "`fortnight` is not a period", FORM);
        refuses("10", "the period is missing", FORM);
        refuses("", "the period is missing", FORM);
        refuses("-1s", "`-1s` is not a period", FORM);
    }

    #[test]
    fn periods_are_bounded() {
        refuses("0s", "`0s` is no time at all", "write at least `1ms`");
        for text in ["367day", "53week", "4294967295week"] {
            refuses(text, &format!("`{text}` is longer than 366 days"), "write a shorter time");
        }
        for text in ["4294967296ms", "99999999999999999999s"] {
            assert!(period(text).is_err_and(|misread| misread.message.ends_with("is too large")));
        }
        for (text, one) in [("2month", "month"), ("0_2 year", "year")] {
            let message = format!("`{text}` has no length: months and years differ");
            refuses(text, &message, &format!("write `1{one}`, or days, as in `30day`"));
        }
    }

    #[test]
    fn only_a_single_unit_is_a_calendar_window() {
        let calendar = |text| period(text).unwrap().calendar();
        assert_eq!(calendar("day"), Some(CalendarUnit::Day));
        assert_eq!(calendar("1month"), Some(CalendarUnit::Month));
        assert_eq!(calendar("2day"), None);
        assert_eq!(calendar("s"), None);
        let span = |text| period(text).unwrap().span();
        assert_eq!(span("month"), None);
        assert_eq!(span("2 h"), Some(Span::from_secs(7_200)));
    }

    #[test]
    fn durations_have_a_unit_and_a_length() {
        for (text, micros) in [
            ("250ms", 250_000),
            ("30s", 30_000_000),
            (" 5 min ", 300_000_000),
            ("2h", 7_200_000_000),
            ("0s", 0),
        ] {
            assert_eq!(duration(text), Ok(Span::from_micros(micros)), "{text}");
        }
        for (text, message) in [
            ("30", "`30` has no unit"),
            ("s", "`s` does not start with a number"),
            ("1h30min", "`h30min` is not a period"),
            ("1month", "`1month` has no length: months and years differ"),
            ("367day", "`367day` is longer than 366 days"),
            ("18446744073709551615s", "`18446744073709551615s` is longer than 366 days"),
        ] {
            assert_eq!(duration(text).map_err(|misread| misread.message), Err(message.to_owned()));
        }
    }
}
