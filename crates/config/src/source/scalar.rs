//! What a bare word means: the core schema of YAML 1.2, and the numbers of JSON.
//!
//! `no` and `on` are text. A whole number is one only as a program would print it: `007` and `+49`
//! stay as they were typed, so that an unquoted name never loses its zeros.

use super::Value;

/// A word without quotes.
pub(super) fn bare(word: &str) -> Value {
    match word {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ if is_number(word) => number(word),
        _ => Value::Text(word.to_owned()),
    }
}

/// A number as it was typed.
pub(super) fn number(typed: &str) -> Value {
    match typed.parse::<i64>() {
        Ok(whole) if whole.to_string() == typed => Value::Integer(whole),
        _ => Value::Fraction(typed.to_owned()),
    }
}

fn is_number(word: &str) -> bool {
    let unsigned = word.strip_prefix(['-', '+']).unwrap_or(word);
    is_decimal(unsigned)
        || matches!(unsigned, ".inf" | ".Inf" | ".INF")
        || matches!(word, ".nan" | ".NaN" | ".NAN")
        || word.strip_prefix("0x").is_some_and(|hex| is_all(hex, |b| b.is_ascii_hexdigit()))
        || word.strip_prefix("0o").is_some_and(|octal| is_all(octal, |b| matches!(b, b'0'..=b'7')))
}

fn is_decimal(unsigned: &str) -> bool {
    let (amount, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((amount, exponent)) => (amount, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, part) = amount.split_once('.').unwrap_or((amount, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let amount_holds = digits(whole) && digits(part) && !(whole.is_empty() && part.is_empty());
    let exponent_holds = exponent.is_none_or(|exponent| {
        let unsigned = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        is_all(unsigned, |byte| byte.is_ascii_digit())
    });
    amount_holds && exponent_holds
}

fn is_all(text: &str, holds: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.bytes().all(holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(word: &str, wanted: &str) {
        let kind = match bare(word) {
            Value::Null => "null".to_owned(),
            Value::Bool(flag) => format!("bool {flag}"),
            Value::Integer(whole) => format!("integer {whole}"),
            Value::Fraction(typed) => format!("fraction {typed}"),
            Value::Text(text) => format!("text {text}"),
            Value::List(_) | Value::Map(_) => "a tree".to_owned(),
        };
        assert_eq!(kind, wanted, "{word}");
    }

    #[test]
    fn only_the_words_of_the_core_schema_mean_something() {
        for (word, wanted) in [("~", "null"), ("null", "null"), ("", "null")] {
            check(word, wanted);
        }
        check("true", "bool true");
        check("FALSE", "bool false");
        for word in ["no", "yes", "on", "off", "y", "n", "tRUE", "nan", "inf", "none", "nil"] {
            check(word, &format!("text {word}"));
        }
    }

    #[test]
    fn whole_numbers_are_those_that_print_alike() {
        for word in ["0", "5", "-5", "9223372036854775807", "-9223372036854775808"] {
            check(word, &format!("integer {word}"));
        }
        for word in [
            "007",
            "+49",
            "-0",
            "0x1f",
            "0o17",
            "9223372036854775808",
            "1.5",
            "1.",
            ".5",
            "-.5",
            "1e9",
            "1.5E-3",
            "+.inf",
            ".nan",
            "1.10",
        ] {
            check(word, &format!("fraction {word}"));
        }
    }

    #[test]
    fn what_only_looks_like_a_number_is_text() {
        for word in [
            ".", "-", "+", "e5", ".e5", "1e", "1e+", "1_000", "0x", "0xg", "0o8", "1.2.3", "--1",
            "10/min", "1s", "12:30", "-0x1", "+.nan", "1e5.5", "٣",
        ] {
            check(word, &format!("text {word}"));
        }
    }
}
