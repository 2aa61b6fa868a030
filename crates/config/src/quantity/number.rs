//! Numbers as they are typed: `10_000`, `10k`, `512 KiB`, `0.5%`, `10x`.
//!
//! Whole numbers only. A comma is refused rather than skipped: `1,5` is a fraction to half of us.

use crate::misread::{Misread, did_you_mean, quoted};
use crate::suggest::did_you_mean as nearest;

/// What bytes are counted in.
const BYTES: [(&str, u64); 7] = [
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// What shortens a number of anything else.
const FACTORS: [(&str, u64); 2] = [("k", 1_000), ("M", 1_000_000)];

/// A whole number such as `10_000`, `10k` or `5M`.
pub(crate) fn count(text: &str) -> Result<u64, Misread> {
    let text = text.trim();
    let help = "write a whole number, as in `500`, `10_000`, `10k` or `5M`";
    let (number, unit) = leading(text, help)?;
    let times = if unit.is_empty() { Some(1) } else { thousands(unit) };
    let times = times.ok_or_else(|| {
        let meant = nearest(unit, FACTORS.map(|(name, _)| name));
        Misread::new(format!("{} is not a factor", quoted(unit)), did_you_mean(meant, help))
    })?;
    multiplied(number, times, text)
}

/// How many times, such as `10x`.
pub(crate) fn factor(text: &str) -> Result<u32, Misread> {
    let text = text.trim();
    let help = "write how many times, as in `10x`";
    let (number, unit) = leading(text, help)?;
    if unit != "x" {
        return Err(Misread::new(format!("{} is not a factor", quoted(text)), help));
    }
    match u32::try_from(number) {
        Ok(0) => Err(Misread::new("`0x` leaves nothing", "write at least `1x`")),
        Ok(number) => Ok(number),
        Err(_) => Err(too_large(text)),
    }
}

/// A share such as `10%` or `0.5%`, of ten thousand.
pub(crate) fn share(text: &str) -> Result<u16, Misread> {
    let text = text.trim();
    let help = "write percent from `0%` to `100%`, as in `10%` or `0.5%`";
    let misread = || Misread::new(format!("{} is not a share", quoted(text)), help);
    let percent = text.strip_suffix('%').ok_or_else(misread)?.trim_end();
    let (whole, part) = percent.split_once('.').unwrap_or((percent, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return Err(misread());
    }
    if 2 < part.trim_end_matches('0').len() {
        let message = format!("{} is finer than shares are counted", quoted(text));
        return Err(Misread::new(message, "write at most two digits after the point"));
    }
    let hundredths = format!("{part:0<2}").get(..2).and_then(|part| part.parse::<u16>().ok());
    let whole = whole.parse::<u16>().ok().and_then(|whole| whole.checked_mul(100));
    let share = whole.zip(hundredths).and_then(|(whole, part)| whole.checked_add(part));
    share.filter(|share| *share <= 10_000).ok_or_else(|| {
        Misread::new(format!("{} is more than everything", quoted(text)), "write at most `100%`")
    })
}

/// The number that `text` starts with, and what follows it. `help` says what was expected.
pub(super) fn leading<'t>(text: &'t str, help: &str) -> Result<(u64, &'t str), Misread> {
    let is_number = |letter: char| letter.is_ascii_digit() || "_,.".contains(letter);
    let (number, rest) = text.split_at(text.find(|l| !is_number(l)).unwrap_or(text.len()));
    if !number.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(Misread::new(format!("{} does not start with a number", quoted(text)), help));
    }
    if number.contains(',') {
        let message = format!("{} has a comma", quoted(number));
        let plain: String = number.chars().filter(char::is_ascii_digit).collect();
        let help = format!("write {}, with `_` between digits if you like", quoted(&plain));
        return Err(Misread::new(message, help));
    }
    if number.contains('.') {
        let message = format!("{} is not a whole number", quoted(number));
        return Err(Misread::new(message, "write a whole number, in a smaller unit if need be"));
    }
    if number.split('_').any(str::is_empty) {
        let message = format!("{} has a `_` that is not between digits", quoted(number));
        return Err(Misread::new(message, "write it as in `10_000`"));
    }
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    // Only digits are left: what cannot be read is too large.
    let value = digits.parse().map_err(|_| too_large(number))?;
    Ok((value, rest.trim_start()))
}

/// The bytes of one `unit`.
pub(super) fn byte_unit(unit: &str) -> Option<u64> {
    BYTES.iter().find(|(name, _)| *name == unit).map(|(_, bytes)| *bytes)
}

/// The unit of bytes that `unit` looks like without being it.
pub(super) fn like_byte_unit(unit: &str) -> Option<&'static str> {
    // Single letters look like anything.
    let mut names = BYTES.iter().map(|(name, _)| *name).filter(|name| 1 < name.len());
    names.find(|name| name.eq_ignore_ascii_case(unit))
}

/// What the factor `unit` multiplies by.
pub(super) fn thousands(unit: &str) -> Option<u64> {
    FACTORS.iter().find(|(name, _)| *name == unit).map(|(_, times)| *times)
}

/// `number` times `times`, of the whole `text`.
pub(super) fn multiplied(number: u64, times: u64, text: &str) -> Result<u64, Misread> {
    number.checked_mul(times).ok_or_else(|| too_large(text))
}

pub(super) fn too_large(text: &str) -> Misread {
    Misread::new(format!("{} is too large", quoted(text)), "write a smaller number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<T: std::fmt::Debug + PartialEq>(
        read: fn(&str) -> Result<T, Misread>,
        text: &str,
        expected: Result<T, &str>,
    ) {
        let found = read(text).map_err(|misread| misread.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn counts_read_as_they_are_typed() {
        for (text, expected) in [
            ("0", 0),
            ("500", 500),
            ("10_000", 10_000),
            (" 10k ", 10_000),
            ("5 M", 5_000_000),
            ("18446744073709551615", u64::MAX),
        ] {
            check(count, text, Ok(expected));
        }
    }

    #[test]
    fn what_is_not_a_count_says_why() {
        let help = "write a whole number, as in `500`, `10_000`, `10k` or `5M`";
        check(count, "", Err(&format!("`` does not start with a number; {help}")));
        check(count, "-1", Err(&format!("`-1` does not start with a number; {help}")));
        check(count, "_1", Err(&format!("`_1` does not start with a number; {help}")));
        check(count, "10G", Err(&format!("`G` is not a factor; {help}")));
        check(
            count,
            "10,000",
            Err("`10,000` has a comma; write `10000`, with `_` between digits if you like"),
        );
        check(
            count,
            "1.5M",
            Err("`1.5` is not a whole number; \
                 write a whole number, in a smaller unit if need be"),
        );
        for text in ["1__0", "10_"] {
            let message = format!("`{text}` has a `_` that is not between digits");
            check(count, text, Err(&format!("{message}; write it as in `10_000`")));
        }
        for text in ["18446744073709551616", "18446744073709552k"] {
            check(count, text, Err(&format!("`{text}` is too large; write a smaller number")));
        }
    }

    #[test]
    fn factors_end_in_x() {
        check(factor, "10x", Ok(10));
        check(factor, "10 x", Ok(10));
        check(factor, "10", Err("`10` is not a factor; write how many times, as in `10x`"));
        check(factor, "0x", Err("`0x` leaves nothing; write at least `1x`"));
        check(factor, "4294967296x", Err("`4294967296x` is too large; write a smaller number"));
    }

    #[test]
    fn shares_are_exact_to_a_hundredth_of_a_percent() {
        for (text, expected) in [
            ("0%", 0),
            ("10%", 1_000),
            ("0.5%", 50),
            ("0.05 %", 5),
            ("99.99%", 9_999),
            ("100%", 10_000),
            ("100.000%", 10_000),
        ] {
            check(share, text, Ok(expected));
        }
        let help = "write percent from `0%` to `100%`, as in `10%` or `0.5%`";
        for text in ["", "%", "0.5", "-1%", ".5%", "5.%", "1e2%", "1_0%", "\u{663}%"] {
            check(share, text, Err(&format!("`{text}` is not a share; {help}")));
        }
        for text in ["100.01%", "101%", "65536%", "99999999999999999999%"] {
            check(
                share,
                text,
                Err(&format!("`{text}` is more than everything; write at most `100%`")),
            );
        }
        check(
            share,
            "0.125%",
            Err("`0.125%` is finer than shares are counted; \
                 write at most two digits after the point"),
        );
    }
}
