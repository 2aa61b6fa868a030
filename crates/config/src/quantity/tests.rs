//! Limits, as people write them and as they get them wrong.

use super::*;

#[track_caller]
fn check(text: &str, cells: u64, unit: Unit, per: &str) {
    let expected = Limit::Rate { amount: Amount { cells, unit }, per: period(per).unwrap() };
    assert_eq!(limit(text), Ok(expected), "{text}");
}

#[track_caller]
fn refuses(text: &str, message: &str, help: &str) {
    let misread = limit(text).unwrap_err();
    assert_eq!(misread.message, message, "{text}");
    let found = misread.help.unwrap_or_default();
    assert!(found.contains(help), "{text}: {found}");
}

fn named(name: &str) -> Unit {
    Unit::Named(name.to_owned())
}

#[test]
fn rates_read_as_they_are_said() {
    check("100/min", 100, Unit::Requests, "min");
    check("100 / min", 100, Unit::Requests, "min");
    check("  100/min\n", 100, Unit::Requests, "min");
    check("30/10s", 30, Unit::Requests, "10s");
    check("5000/day", 5_000, Unit::Requests, "day");
    check("10_000/d", 10_000, Unit::Requests, "day");
    check("1 per 2h", 1, Unit::Requests, "2h");
    check("1 per 2 h", 1, Unit::Requests, "2h");
    check("100 requests per minute", 100, Unit::Requests, "min");
    check("1 request/s", 1, Unit::Requests, "s");
    check("10k/s", 10_000, Unit::Requests, "s");
    check("2M/day", 2_000_000, Unit::Requests, "day");
    check("3/month", 3, Unit::Requests, "month");
}

#[test]
fn other_things_than_requests_are_counted_too() {
    check("10MB/s", 10_000_000, Unit::Bytes, "s");
    check("512 KiB/min", 512 << 10, Unit::Bytes, "min");
    check("100B per s", 100, Unit::Bytes, "s");
    check("100 bytes/s", 100, Unit::Bytes, "s");
    check("10GB/day", 10_000_000_000, Unit::Bytes, "day");
    check("40000 tokens/min", 40_000, named("tokens"), "min");
    check("40k tokens/min", 40_000, named("tokens"), "min");
    check("2 M llm-tokens per day", 2_000_000, named("llm-tokens"), "day");
    // A name may hold the word that splits.
    check("5 operations per s", 5, named("operations"), "s");
}

#[test]
fn limits_without_a_rate() {
    assert_eq!(limit("unlimited"), Ok(Limit::Unlimited));
    assert_eq!(limit(" block "), Ok(Limit::Block));
    assert_eq!(limit("20 in flight"), Ok(Limit::InFlight { cells: 20 }));
    assert_eq!(limit("20  in  flight"), Ok(Limit::InFlight { cells: 20 }));
    assert_eq!(limit("20 concurrent"), Ok(Limit::InFlight { cells: 20 }));
    assert_eq!(limit("4k concurrent"), Ok(Limit::InFlight { cells: 4_000 }));
    let most = u64::from(u32::MAX);
    assert_eq!(limit(&format!("{most} in flight")), Ok(Limit::InFlight { cells: most }));
}

#[test]
fn a_number_alone_lacks_its_period() {
    refuses("100", "`100` has no period", "write `100/s`, `100/min` or `100/day`");
    refuses("10MB", "`10MB` has no period", "write `10MB/s`, `10MB/min` or `10MB/day`");
    refuses("100/", "the period is missing", "write one of ms, s,");
}

#[test]
fn nothing_is_written_as_block() {
    for text in ["0/min", "0 in flight", "0 tokens/min", "0kB/s"] {
        assert_eq!(
            limit(text).unwrap_err().help.as_deref(),
            Some("write `block` if that is meant, or at least 1"),
            "{text}"
        );
    }
    refuses("0/min", "`0` lets nothing pass", "`block`");
}

#[test]
fn what_could_mean_two_things_is_refused() {
    refuses("10m/s", "`m` is not a unit", "as in `100`, `10k`");
    refuses("10K/s", "`K` is not a unit", "did you mean `k`?");
    refuses("10 mb/s", "`mb` is not a unit", "did you mean `MB`?");
    refuses("10KB/s", "`KB` is not a unit", "did you mean `kB`?");
    refuses("10tokens/s", "`tokens` is not a unit", "after a space");
    refuses("10MB tokens/s", "`MB tokens` is not a unit", "after a space");
    refuses("10 big tokens/s", "`big tokens` is not a unit", "after a space");
    refuses("10 töken/s", "`töken` is not a unit", "after a space");
    refuses("1,000/s", "`1,000` has a comma", "write `1000`");
    refuses("1.5/s", "`1.5` is not a whole number", "smaller unit");
}

#[test]
fn slips_are_answered_with_what_was_meant() {
    refuses("100/minutes", "`minutes` is not a period", "did you mean `min`? write one of ms,");
    refuses("unlimitted", "`unlimitted` is not a limit", "did you mean `unlimited`?");
    refuses("Block", "`Block` is not a limit", "did you mean `block`?");
    refuses("", "`` is not a limit", "write so many per period");
    refuses("many", "`many` is not a limit", "write so many per period");
    refuses("many/min", "`many` does not start with a number", "write so many per period");
    refuses("100/min/s", "`min/s` is not a period", "write one of");
    refuses("100 per per min", "`per min` is not a period", "write one of");
    refuses("-5/min", "`-5` does not start with a number", "write so many");
    refuses("4294967296 in flight", "`4294967296 in flight` is too large", "smaller");
    refuses("99999999999999999999/s", "`99999999999999999999` is too large", "smaller");
}

#[test]
fn no_text_is_too_odd_to_be_answered() {
    let pieces = ["1", "k", "/", " ", "per", "min", "in flight", "é", "_", ",", "\u{0}", "MB", "९"];
    let mut texts = vec![String::new()];
    for _ in 0..4 {
        texts = texts
            .iter()
            .flat_map(|text| pieces.iter().map(move |piece| format!("{text}{piece}")))
            .collect();
        for text in &texts {
            let _ = (limit(text), duration(text), share(text), factor(text));
        }
    }
    let long = "9".repeat(1 << 20);
    assert!(limit(&long).is_err_and(|misread| misread.to_string().len() < 1_000));
}
