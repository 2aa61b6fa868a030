//! Limits as they are typed: `100/min`, `10MB/s`, `40000 tokens/min`, `20 in flight`.
//!
//! Nothing is guessed: what could be read in two ways, such as `10m/s` or `10 mb/s`, is refused.

mod number;
mod period;

use self::number::{byte_unit, leading, like_byte_unit, multiplied, thousands, too_large};
pub(crate) use self::number::{count, factor, share};
use self::period::period;
pub(crate) use self::period::{CalendarUnit, Period, duration};
use crate::misread::{Misread, did_you_mean, quoted};
use crate::suggest::did_you_mean as nearest;

/// The most characters of a unit that a limit names.
const UNIT_MAX: usize = 32;

const FORM: &str = "write so many per period, as in `100/min`, `30/10s` or `1 per 2h`, \
                    or `20 in flight`, `unlimited` or `block`";

/// How much may pass.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Limit {
    /// Everything.
    Unlimited,
    /// Nothing.
    Block,
    /// So many at the same time: at least one, at most 2^32 - 1.
    InFlight { cells: u64 },
    /// So many over a time.
    Rate { amount: Amount, per: Period },
}

/// So many cells, and what they are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Amount {
    /// At least one.
    pub(crate) cells: u64,
    pub(crate) unit: Unit,
}

/// What a cell is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Unit {
    /// One request: also when nothing is said.
    Requests,
    Bytes,
    /// Whatever the caller counts under this name.
    Named(String),
}

/// A limit such as `100/min`, `1 per 2h`, `20 in flight`, `unlimited` or `block`.
pub(crate) fn limit(text: &str) -> Result<Limit, Misread> {
    let text = text.trim();
    match text {
        "unlimited" => return Ok(Limit::Unlimited),
        "block" => return Ok(Limit::Block),
        _ => {}
    }
    if let Some(number) = in_flight(text) {
        return cells_in_flight(number, text);
    }
    if let Some((cells, per)) = text.split_once('/').or_else(|| split_at_per(text)) {
        return Ok(Limit::Rate { amount: amount(cells)?, per: period(per)? });
    }
    Err(not_a_limit(text))
}

/// What stands before `in flight` or `concurrent`.
fn in_flight(text: &str) -> Option<&str> {
    let before = |text: &'_ str, word: &str| -> Option<usize> {
        let before = text.strip_suffix(word)?;
        before.ends_with(char::is_whitespace).then(|| before.trim_end().len())
    };
    let end = match before(text, "flight") {
        Some(end) => before(text.get(..end)?, "in"),
        None => before(text, "concurrent"),
    };
    text.get(..end?)
}

fn cells_in_flight(number: &str, text: &str) -> Result<Limit, Misread> {
    match count(number)? {
        0 => Err(nothing(text)),
        cells if cells <= u32::MAX.into() => Ok(Limit::InFlight { cells }),
        _ => Err(too_large(text)),
    }
}

/// What stands around the word `per`.
fn split_at_per(text: &str) -> Option<(&str, &str)> {
    text.match_indices("per").find_map(|(at, word)| {
        let (before, after) = (text.get(..at)?, text.get(at.checked_add(word.len())?..)?);
        let alone = before.ends_with(char::is_whitespace) && after.starts_with(char::is_whitespace);
        alone.then_some((before, after))
    })
}

/// So many cells, such as `100`, `10k`, `10MB` or `40000 tokens`.
fn amount(text: &str) -> Result<Amount, Misread> {
    let text = text.trim();
    let (number, rest) = leading(text, FORM)?;
    let after_number = text.get(..text.len().saturating_sub(rest.len())).unwrap_or(text);
    // `10tokens` is as likely a slip in `10 MB` as a name, so names stand by themselves.
    let apart = after_number.ends_with(char::is_whitespace);
    let (first, second) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let second = second.trim_start();
    let (times, unit) = match (byte_unit(first), thousands(first)) {
        (Some(bytes), _) if second.is_empty() => (bytes, Unit::Bytes),
        (None, Some(times)) => (times, unit(second)?),
        (None, None) if rest.is_empty() || apart => (1, unit(rest)?),
        _ => return Err(not_a_unit(rest)),
    };
    match multiplied(number, times, text)? {
        0 => Err(nothing(text)),
        cells => Ok(Amount { cells, unit }),
    }
}

/// What is counted: nothing said, or one word of three letters or more.
fn unit(name: &str) -> Result<Unit, Misread> {
    match name {
        "" | "request" | "requests" => return Ok(Unit::Requests),
        "byte" | "bytes" => return Ok(Unit::Bytes),
        _ => {}
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let plain = name.bytes().all(is_name) && name.starts_with(|first: char| first.is_alphabetic());
    if plain && (3..=UNIT_MAX).contains(&name.len()) && like_byte_unit(name).is_none() {
        return Ok(Unit::Named(name.to_owned()));
    }
    Err(not_a_unit(name))
}

/// Checks a name for what is counted, as `unit` gives it.
pub(crate) fn unit_name(name: &str) -> Result<(), Misread> {
    let help = "write a word of three letters or more, or `B`, `kB`, `KiB`, `MB` or `MiB`";
    unit(name).map(drop).map_err(|misread| Misread::new(misread.message, help))
}

fn not_a_unit(name: &str) -> Misread {
    let form = "write a number alone, with k or M, in bytes, or with what is counted after a \
                space, as in `100`, `10k`, `10MB` or `40000 tokens`";
    let meant = like_byte_unit(name).or_else(|| nearest(name, ["k", "bytes", "requests"]));
    Misread::new(format!("{} is not a unit", quoted(name)), did_you_mean(meant, form))
}

fn nothing(text: &str) -> Misread {
    let message = format!("{} lets nothing pass", quoted(text));
    Misread::new(message, "write `block` if that is meant, or at least 1")
}

fn not_a_limit(text: &str) -> Misread {
    if amount(text).is_ok() {
        let with = |period| quoted(&format!("{text}{period}"));
        let help = format!("write {}, {} or {}", with("/s"), with("/min"), with("/day"));
        return Misread::new(format!("{} has no period", quoted(text)), help);
    }
    let message = format!("{} is not a limit", quoted(text));
    Misread::new(message, did_you_mean(nearest(text, ["unlimited", "block"]), FORM))
}

#[cfg(test)]
mod tests;
