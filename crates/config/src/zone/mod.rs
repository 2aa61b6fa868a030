//! Calendar windows in a time zone: where this one starts, where the next does, and the one after.
//!
//! A day, week, month or year starts at the first moment whose date is in it, so a midnight that a
//! change of the clock skips or repeats starts one window, once. Minutes and hours follow the local
//! clock too, but never across a change of it: an hour that is repeated is two windows, so that a
//! limit per minute does not stand still meanwhile.

use std::fmt;

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan as _};
use tidegate_core::Tick;

use crate::misread::{Misread, did_you_mean, quoted};
use crate::quantity::CalendarUnit;
use crate::suggest::did_you_mean as nearest;

/// A time zone, with its rules for ever after.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Zone {
    rules: TimeZone,
}

impl Zone {
    pub(crate) fn utc() -> Zone {
        Zone { rules: TimeZone::UTC }
    }

    /// The zone of this name in the IANA database. The one that we carry: every machine of a fleet
    /// has the same windows, whatever is installed there.
    pub(crate) fn named(name: &str) -> Option<Zone> {
        let rules = TimeZoneDatabase::bundled().get(name).ok()?;
        Some(Zone { rules })
    }

    /// Its name in that database.
    pub(crate) fn name(&self) -> &str {
        self.rules.iana_name().unwrap_or("UTC")
    }

    /// What to write instead of a name that is none. Every zone is looked at, so ask only for a
    /// message that somebody reads.
    pub(crate) fn misread(name: &str) -> Misread {
        let form = "write a name such as `Europe/Berlin`, `America/New_York` or `UTC`";
        let known = TimeZoneDatabase::bundled();
        let known: Vec<String> = known.available().map(|name| name.to_string()).collect();
        let same_city = known.iter().find(|known| {
            let city = known.rsplit('/').next().unwrap_or(known);
            city.eq_ignore_ascii_case(name)
        });
        let near = || nearest(name, known.iter().map(String::as_str));
        let meant = same_city.map(String::as_str).or_else(near);
        Misread::new(format!("{} is not a time zone", quoted(name)), did_you_mean(meant, form))
    }

    /// Where the window that holds `now` starts, where the next one does, and the one after that.
    ///
    /// The three are always in order. Only in the last two ticks that there are is `now` not in
    /// the first window: there is no room for two more.
    pub(crate) fn boundaries(&self, unit: CalendarUnit, now: Tick) -> [Tick; 3] {
        let [first, second, third] = match unit {
            CalendarUnit::Minute => self.clock_windows(60, now),
            CalendarUnit::Hour => self.clock_windows(3_600, now),
            CalendarUnit::Day | CalendarUnit::Week | CalendarUnit::Month | CalendarUnit::Year => {
                self.date_windows(unit, now)
            }
        };
        let last = Tick::MAX.get();
        [
            Tick::from_micros(micros(first).min(last.saturating_sub(2))),
            Tick::from_micros(micros(second).min(last.saturating_sub(1))),
            Tick::from_micros(micros(third)),
        ]
    }

    fn clock_windows(&self, seconds: i64, now: Tick) -> [Timestamp; 3] {
        let (first, second) = self.clock_window(seconds, timestamp(now));
        let (_, third) = self.clock_window(seconds, second);
        [first, second, third]
    }

    /// The whole minute or hour of the local clock that holds `now`, cut where the clock changes.
    fn clock_window(&self, seconds: i64, now: Timestamp) -> (Timestamp, Timestamp) {
        let offset = i64::from(self.rules.to_offset(now).seconds());
        let into = now.as_second().saturating_add(offset).rem_euclid(seconds);
        let start = now.as_second().saturating_sub(into);
        let end = start.saturating_add(seconds);
        // The next moment, so that a change at `now` itself has been.
        let soon = now.saturating_add(1.microsecond()).unwrap_or(now);
        let last_change = self.rules.preceding(soon).next().map(|change| change.timestamp());
        let next_change = self.rules.following(now).next().map(|change| change.timestamp());
        let at = |second| Timestamp::from_second(second).unwrap_or(Timestamp::MAX);
        let start = last_change.map_or(at(start), |change| change.max(at(start)));
        let end = next_change.map_or(at(end), |change| change.min(at(end)));
        (start, end)
    }

    fn date_windows(&self, unit: CalendarUnit, now: Tick) -> [Timestamp; 3] {
        let now = timestamp(now);
        let mut date = first_date(unit, self.rules.to_datetime(now).date());
        let mut first = self.start_of(date);
        let (mut next, mut second) = self.start_after(unit, date, first);
        // A clock that is set back over midnight shows a date whose window is already over.
        while second <= now && date < next {
            (date, first) = (next, second);
            (next, second) = self.start_after(unit, date, first);
        }
        let (_, third) = self.start_after(unit, next, second);
        [first, second, third]
    }

    /// The next window that starts later than `start`: a date that a zone skips has none.
    fn start_after(&self, unit: CalendarUnit, date: Date, start: Timestamp) -> (Date, Timestamp) {
        let mut next = next_date(unit, date);
        while self.start_of(next) <= start && next < Date::MAX {
            next = next_date(unit, next);
        }
        (next, self.start_of(next))
    }

    /// The first moment at which the local clock shows `date` or a later one.
    fn start_of(&self, date: Date) -> Timestamp {
        let midnight: DateTime = date.into();
        let read =
            |offset: jiff::tz::Offset| offset.to_timestamp(midnight).unwrap_or(Timestamp::MAX);
        match self.rules.to_ambiguous_timestamp(midnight).offset() {
            AmbiguousOffset::Unambiguous { offset } => read(offset),
            AmbiguousOffset::Fold { before, .. } => read(before),
            AmbiguousOffset::Gap { before, after } => {
                // Read by the new offset, the skipped midnight is before the change.
                let mut changes = self.rules.following(read(after));
                let change = changes.find(|change| change.offset() == after);
                change.map_or_else(|| read(before), |change| change.timestamp())
            }
        }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rules.iana_name().unwrap_or("UTC"))
    }
}

fn first_date(unit: CalendarUnit, date: Date) -> Date {
    match unit {
        CalendarUnit::Minute | CalendarUnit::Hour | CalendarUnit::Day => date,
        CalendarUnit::Week => {
            date.saturating_sub(i64::from(date.weekday().to_monday_zero_offset()).days())
        }
        CalendarUnit::Month => date.first_of_month(),
        CalendarUnit::Year => date.first_of_year(),
    }
}

/// The first date of the window after the one that starts with `date`.
fn next_date(unit: CalendarUnit, date: Date) -> Date {
    date.saturating_add(match unit {
        CalendarUnit::Minute | CalendarUnit::Hour | CalendarUnit::Day => 1.day(),
        CalendarUnit::Week => 1.week(),
        CalendarUnit::Month => 1.month(),
        CalendarUnit::Year => 1.year(),
    })
}

fn timestamp(now: Tick) -> Timestamp {
    let micros = i64::try_from(now.get()).unwrap_or(i64::MAX);
    Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX)
}

/// A window that started before 1970 starts with the first tick.
fn micros(timestamp: Timestamp) -> u64 {
    u64::try_from(timestamp.as_microsecond()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
