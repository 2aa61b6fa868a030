//! Numbers and spans of time as people write them.

use tidegate_core::{Kind, Span};

use crate::report::{Comparison, Report, Standing};

const SECOND: u64 = 1_000_000;

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if 0 < index && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number where there is little room: `250`, `40,000`, `1.5 M`.
pub(super) fn short(number: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    match UNITS.iter().find(|(unit, _)| 100 * 1_000 <= number && *unit <= number) {
        Some((unit, name)) => {
            let tenths = number / (unit / 10);
            match tenths % 10 {
                0 => format!("{} {name}", tenths / 10),
                tenth => format!("{}.{tenth} {name}", tenths / 10),
            }
        }
        None => grouped(number),
    }
}

/// A span with its unit: `1 min`, `250 ms`, `1.5 s`.
pub fn spaced(span: Span) -> String {
    const UNITS: [(u64, &str); 4] =
        [(86_400 * SECOND, "d"), (3_600 * SECOND, "h"), (60 * SECOND, "min"), (SECOND, "s")];
    let ticks = span.get();
    for (unit, name) in UNITS {
        if unit <= ticks && ticks.is_multiple_of(unit) {
            return format!("{} {name}", ticks / unit);
        }
    }
    // Otherwise a few decimals of the largest unit of at most a second that it reaches.
    match ticks {
        SECOND.. => format!("{} s", decimals(ticks, SECOND)),
        1_000.. => format!("{} ms", decimals(ticks, 1_000)),
        _ => format!("{ticks} µs"),
    }
}

/// A period as one thing: `minute`, `second`, `10 s`.
pub fn period(per: Span) -> String {
    const NAMES: [(u64, &str); 4] = [
        (86_400 * SECOND, "day"),
        (3_600 * SECOND, "hour"),
        (60 * SECOND, "minute"),
        (SECOND, "second"),
    ];
    let name = NAMES.iter().find(|(ticks, _)| *ticks == per.get());
    let text = name.map_or_else(|| spaced(per), |(_, name)| (*name).to_owned());
    text.strip_prefix("1 ").map_or(text.clone(), str::to_owned)
}

/// `part` of `whole` in percent, and never nothing where there is something.
#[expect(clippy::cast_precision_loss, reason = "for people to read, to one decimal")]
pub fn share(part: u64, whole: u64) -> String {
    let percent = 100.0 * part as f64 / whole.max(1) as f64;
    if 0 < part && percent < 0.05 { "<0.1%".to_owned() } else { format!("{percent:.1}%") }
}

/// How the busiest span of `report` went, in one line.
pub fn verdict(comparison: &Comparison, report: &Report) -> String {
    let quota = u64::from(comparison.scenario.quota.cells());
    let (held, limit) = (short(report.worst.cells), short(quota));
    if report.kind == Kind::Concurrency {
        return format!("most in flight: {held} of {limit}");
    }
    let per = period(report.span);
    let ratio = comparison.ratio(report);
    let most = short(quota + u64::from(report.limit));
    match report.standing {
        Standing::Kept => format!("worst {per}: {held} of {limit}, never above the quota"),
        Standing::Close => format!("worst {per}: {held} of {limit} ({ratio:.2}×)"),
        Standing::Burst => {
            format!(
                "worst {per}: {held} of {limit} ({ratio:.2}×), as its burst allows: up to {most}"
            )
        }
        Standing::Over => format!("worst {per}: {held} of {limit} ({ratio:.2}× the quota)"),
    }
}

/// `kind` in half a line.
pub fn tagline(kind: Kind) -> &'static str {
    match kind {
        Kind::Concurrency => "counts what is under way, not what comes",
        Kind::FixedWindow => "a count that starts again at every edge",
        Kind::Gcra => "the token bucket, kept as one moment in time",
        Kind::LeakyBucket => "the token bucket, told by how full it is",
        Kind::LeakyQueue => "what comes too fast waits for its turn",
        Kind::SlidingLog => "remembers every request of the last period",
        Kind::SlidingWindow => "two counts, the older one fading out",
        Kind::TokenBucket => "saves up to one burst, then the quota's own pace",
    }
}

/// `ticks` in `unit`s, with as many decimals as it takes, up to three.
pub(super) fn decimals(ticks: u64, unit: u64) -> String {
    let text = format!("{}.{:03}", ticks / unit, ticks % unit * 1_000 / unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let shown = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
        let shown = [0, 99_999, 100_000, 1_560_000, 4_294_967_295].map(short);
        assert_eq!(shown, ["0", "99,999", "100 k", "1.5 M", "4.2 G"]);
    }

    #[test]
    fn a_share_is_nothing_only_where_there_is_nothing() {
        let shown = [share(0, 9), share(1, 9_999), share(1, 3), share(0, 0)];
        assert_eq!(shown, ["0.0%", "<0.1%", "33.3%", "0.0%"]);
    }

    #[test]
    fn spans_have_one_unit() {
        let shown = [0, 7, 1_500, 250_000, 1_500_000, 60_000_000, 90_000_000]
            .map(|micros| spaced(Span::from_micros(micros)));
        assert_eq!(shown, ["0 µs", "7 µs", "1.5 ms", "250 ms", "1.5 s", "1 min", "90 s"]);
        assert_eq!(period(Span::from_secs(3_600)), "hour");
        assert_eq!(period(Span::from_secs(10)), "10 s");
        assert_eq!(period(Span::from_millis(1)), "ms");
    }
}
