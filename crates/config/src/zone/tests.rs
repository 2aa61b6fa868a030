//! Windows tile: in every zone, around every change of the clock, to the last tick.

use super::*;
use crate::chance::Chance;

const UNITS: [CalendarUnit; 6] = [
    CalendarUnit::Minute,
    CalendarUnit::Hour,
    CalendarUnit::Day,
    CalendarUnit::Week,
    CalendarUnit::Month,
    CalendarUnit::Year,
];

fn tick(text: &str) -> Tick {
    let time: Timestamp = text.parse().unwrap();
    Tick::from_micros(u64::try_from(time.as_microsecond()).unwrap())
}

/// Checks the windows around the moment `now`, all of it in UTC.
#[track_caller]
fn check(zone: &str, unit: CalendarUnit, now: &str, expected: [&str; 3]) {
    let found = Zone::named(zone).unwrap().boundaries(unit, tick(now));
    let shown = found.map(|tick| timestamp(tick).to_string());
    assert_eq!(shown, expected, "{zone} {unit:?} {now}");
}

/// The law: the first window holds `now`, and its neighbor says the same about where it starts.
#[track_caller]
fn check_law(zone: &Zone, unit: CalendarUnit, now: Tick) {
    let [first, second, third] = zone.boundaries(unit, now);
    let case = || format!("{zone} {unit:?} {}", timestamp(now));
    assert!(first <= now && now < second && second < third, "{}", case());
    let [start, end, _] = zone.boundaries(unit, second);
    assert_eq!((start, end), (second, third), "{}", case());
    let last = Tick::from_micros(second.get() - 1);
    for inside in [first, last] {
        assert_eq!(zone.boundaries(unit, inside), [first, second, third], "{}", case());
    }
}

#[test]
fn windows_start_on_the_local_clock() {
    let now = "2024-05-15T10:20:30.123456Z";
    let berlin = "Europe/Berlin";
    let minutes = ["2024-05-15T10:20:00Z", "2024-05-15T10:21:00Z", "2024-05-15T10:22:00Z"];
    check(berlin, CalendarUnit::Minute, now, minutes);
    let hours = ["2024-05-15T09:30:00Z", "2024-05-15T10:30:00Z", "2024-05-15T11:30:00Z"];
    check("Asia/Kolkata", CalendarUnit::Hour, now, hours);
    let days = ["2024-05-14T22:00:00Z", "2024-05-15T22:00:00Z", "2024-05-16T22:00:00Z"];
    check(berlin, CalendarUnit::Day, now, days);
    let weeks = ["2024-05-12T22:00:00Z", "2024-05-19T22:00:00Z", "2024-05-26T22:00:00Z"];
    check(berlin, CalendarUnit::Week, now, weeks);
    let months = ["2024-04-30T22:00:00Z", "2024-05-31T22:00:00Z", "2024-06-30T22:00:00Z"];
    check(berlin, CalendarUnit::Month, now, months);
    let years = ["2023-12-31T23:00:00Z", "2024-12-31T23:00:00Z", "2025-12-31T23:00:00Z"];
    check(berlin, CalendarUnit::Year, now, years);
}

#[test]
fn a_day_may_have_23_or_25_hours() {
    let days = ["2024-03-30T23:00:00Z", "2024-03-31T22:00:00Z", "2024-04-01T22:00:00Z"];
    check("Europe/Berlin", CalendarUnit::Day, "2024-03-31T12:00:00Z", days);
    let days = ["2024-10-26T22:00:00Z", "2024-10-27T23:00:00Z", "2024-10-28T23:00:00Z"];
    check("Europe/Berlin", CalendarUnit::Day, "2024-10-27T12:00:00Z", days);
}

#[test]
fn a_midnight_that_does_not_exist_starts_its_day_when_the_gap_ends() {
    let days = ["2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z", "2018-11-06T02:00:00Z"];
    check("America/Sao_Paulo", CalendarUnit::Day, "2018-11-04T03:00:00Z", days);
    let days = ["2024-03-30T22:00:00Z", "2024-03-31T21:00:00Z", "2024-04-01T21:00:00Z"];
    check("Asia/Beirut", CalendarUnit::Day, "2024-03-31T05:00:00Z", days);
}

#[test]
fn a_midnight_that_comes_twice_starts_its_day_once() {
    // At midnight of the 18th the clock went back to 23:00 of the 17th.
    let days = ["2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z", "2018-02-19T03:00:00Z"];
    check("America/Sao_Paulo", CalendarUnit::Day, "2018-02-18T02:30:00Z", days);
    // One minute past midnight of the 29th it went back to 23:01 of the 28th.
    let days = ["2006-10-29T02:30:00Z", "2006-10-30T03:30:00Z", "2006-10-31T03:30:00Z"];
    check("America/St_Johns", CalendarUnit::Day, "2006-10-29T03:00:00Z", days);
}

#[test]
fn a_skipped_day_has_no_window() {
    let days = ["2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"];
    check("Pacific/Apia", CalendarUnit::Day, "2011-12-30T09:59:59Z", days);
}

#[test]
fn an_hour_that_comes_twice_is_two_windows() {
    let hours = ["2024-10-27T00:00:00Z", "2024-10-27T01:00:00Z", "2024-10-27T02:00:00Z"];
    check("Europe/Berlin", CalendarUnit::Hour, "2024-10-27T00:30:00Z", hours);
    // Lord Howe goes back by half an hour: the second 1:30 has half an hour left.
    let hours = ["2024-04-06T15:00:00Z", "2024-04-06T15:30:00Z", "2024-04-06T16:30:00Z"];
    check("Australia/Lord_Howe", CalendarUnit::Hour, "2024-04-06T15:10:00Z", hours);
}

#[test]
fn windows_tile_in_every_zone_at_any_time() {
    let names: Vec<String> =
        TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect();
    assert!(500 < names.len());
    let mut chance = Chance::of(1);
    let end = tick("2200-01-01T00:00:00Z").get();
    for name in &names {
        let zone = Zone::named(name).unwrap();
        for unit in UNITS {
            for _ in 0..12 {
                check_law(&zone, unit, Tick::from_micros(chance.below(end)));
            }
        }
    }
}

#[test]
fn windows_tile_around_every_change_of_the_clock() {
    const HOUR: u64 = 3_600_000_000;
    let mut changes = 0;
    for name in [
        "Africa/Casablanca",
        "Africa/Monrovia",
        "America/Havana",
        "America/Nuuk",
        "America/Sao_Paulo",
        "America/St_Johns",
        "Antarctica/Troll",
        "Asia/Beirut",
        "Asia/Gaza",
        "Asia/Manila",
        "Asia/Pyongyang",
        "Asia/Tehran",
        "Australia/Lord_Howe",
        "Europe/Berlin",
        "Europe/Dublin",
        "Europe/Lisbon",
        "Pacific/Apia",
        "Pacific/Kwajalein",
    ] {
        let zone = Zone::named(name).unwrap();
        for change in zone.rules.following(Timestamp::UNIX_EPOCH).take(200) {
            let at = u64::try_from(change.timestamp().as_microsecond()).unwrap();
            changes += 1;
            for near in [0, 1, HOUR / 2, HOUR - 1, HOUR, HOUR + 1, 24 * HOUR, 25 * HOUR] {
                for now in [at.saturating_sub(near), at + near] {
                    for unit in UNITS {
                        check_law(&zone, unit, Tick::from_micros(now));
                    }
                }
            }
        }
    }
    assert!(1_000 < changes);
}

#[test]
fn the_first_and_the_last_ticks_have_windows_too() {
    for name in ["UTC", "Pacific/Kiritimati", "Pacific/Niue", "America/New_York"] {
        let zone = Zone::named(name).unwrap();
        for unit in UNITS {
            check_law(&zone, unit, Tick::from_micros(0));
            for back in 0..4 {
                let now = Tick::from_micros(Tick::MAX.get() - back);
                let [first, second, third] = zone.boundaries(unit, now);
                assert!(first < second && second < third, "{zone} {unit:?} {back}");
                assert!(first <= now && (back < 2 || now < second), "{zone} {unit:?} {back}");
            }
        }
    }
}

#[test]
fn zones_have_names() {
    assert_eq!(Zone::named("europe/berlin").unwrap().to_string(), "Europe/Berlin");
    assert_eq!(Zone::utc().to_string(), "UTC");
    assert_eq!(Zone::named("UTC").unwrap(), Zone::utc());
    let form = "write a name such as `Europe/Berlin`, `America/New_York` or `UTC`";
    for (name, meant) in [
        ("Europe/Berln", "did you mean `Europe/Berlin`? "),
        ("America/New York", "did you mean `America/New_York`? "),
        ("Tokyo", "did you mean `Asia/Tokyo`? "),
        ("Middle/Earth", ""),
        ("", ""),
        ("../../etc/passwd", ""),
        ("/usr/share/zoneinfo/Europe/Berlin", ""),
    ] {
        let expected =
            Misread::new(format!("`{name}` is not a time zone"), format!("{meant}{form}"));
        assert_eq!((Zone::named(name), Zone::misread(name)), (None, expected), "{name}");
    }
}
