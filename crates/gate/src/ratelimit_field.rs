//! Rate limit header fields: every dialect, for every door.
//!
//! A policy file or an option chooses the dialect. A door says which limits were asked, and puts
//! names and values where its responses have them.

use std::fmt::Write as _;

use tidegate_config::Headers;
use tidegate_core::{Span, Tick, Verdict};

/// A field of a response.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Field {
    /// `WWW-Authenticate`
    Authenticate,
    /// That the request was decided while Redis did not answer, or by what; only where the policy
    /// file asks for it.
    Fallback,
    /// `RateLimit-Limit`
    Limit,
    /// `RateLimit`
    RateLimit,
    /// `RateLimit-Policy`
    RateLimitPolicy,
    /// `RateLimit-Remaining`
    Remaining,
    /// `RateLimit-Reset`
    Reset,
    /// `Retry-After`
    RetryAfter,
    /// `X-RateLimit-Limit`
    XLimit,
    /// `X-RateLimit-Remaining`
    XRemaining,
    /// `X-RateLimit-Reset`
    XReset,
    /// `X-RateLimit-Resource`
    XResource,
    /// `X-RateLimit-Used`
    XUsed,
}

impl Field {
    /// The name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Field::Authenticate => "www-authenticate",
            Field::Fallback => "x-ratelimit-fallback",
            Field::Limit => "ratelimit-limit",
            Field::RateLimit => "ratelimit",
            Field::RateLimitPolicy => "ratelimit-policy",
            Field::Remaining => "ratelimit-remaining",
            Field::Reset => "ratelimit-reset",
            Field::RetryAfter => "retry-after",
            Field::XLimit => "x-ratelimit-limit",
            Field::XRemaining => "x-ratelimit-remaining",
            Field::XReset => "x-ratelimit-reset",
            Field::XResource => "x-ratelimit-resource",
            Field::XUsed => "x-ratelimit-used",
        }
    }
}

/// A limit that was asked, as clients see it.
#[derive(Clone, Copy, Debug)]
pub struct ShownLimit<'a> {
    /// Its name, of characters that may stand in a string of a structured field.
    pub name: &'a str,
    /// The most cells at once.
    pub quota: u32,
    /// The time in which the quota comes back in full.
    pub window: Span,
    /// What is counted, in the draft's word; nothing for requests.
    pub unit: Option<&'a str>,
    /// The most cells at once, by the decision.
    pub limit: u32,
    /// How many cells are left.
    pub remaining: u32,
    /// When all of them are: so long after the decision.
    pub reset_after: Span,
    /// And then it is this late.
    pub reset_at: Tick,
}

/// Writes the fields of a dialect about the limits of a response. `closest` speaks for all of them
/// where a dialect has room for one.
pub fn write<'a>(
    dialect: Headers,
    shown: impl Iterator<Item = ShownLimit<'a>>,
    closest: &ShownLimit<'a>,
    each: &mut impl FnMut(Field, &str),
) {
    match dialect {
        Headers::Both => {
            write_draft(shown, each);
            write_legacy(closest, each);
        }
        Headers::Draft => write_draft(shown, each),
        Headers::Envoy => write_envoy(shown, closest, each),
        Headers::GitHub => {
            write_legacy(closest, each);
            let used = closest.limit.saturating_sub(closest.remaining);
            each(Field::XUsed, itoa::Buffer::new().format(used));
            each(Field::XResource, closest.name);
        }
        Headers::Legacy => write_legacy(closest, each),
        Headers::None => {}
        Headers::RateLimit => {
            let names = [Field::Limit, Field::Remaining, Field::Reset];
            write_three(names, closest, seconds(closest.reset_after), each);
        }
    }
}

/// A refusal says when to come back, in every dialect.
pub fn write_retry_after(verdict: Verdict, each: &mut impl FnMut(Field, &str)) {
    if let Verdict::Deny { retry_after } = verdict {
        each(Field::RetryAfter, itoa::Buffer::new().format(seconds(retry_after).max(1)));
    }
}

/// `RateLimit-Policy` and `RateLimit`, of draft-ietf-httpapi-ratelimit-headers-11.
fn write_draft<'a>(
    shown: impl Iterator<Item = ShownLimit<'a>>,
    each: &mut impl FnMut(Field, &str),
) {
    let mut policies = String::with_capacity(LIST_BYTES);
    let mut limits = String::with_capacity(LIST_BYTES);
    for one in shown {
        let before = if limits.is_empty() { "\"" } else { ", \"" };
        put(&mut policies, &[before, one.name, "\";q="], one.quota.into());
        put(&mut policies, &[";w="], window_secs(one.window));
        if let Some(unit) = one.unit {
            let _ = write!(policies, ";qu=\"{unit}\"");
        }
        put(&mut limits, &[before, one.name, "\";r="], one.remaining.into());
        put(&mut limits, &[";t="], seconds(one.reset_after));
    }
    each(Field::RateLimitPolicy, &policies);
    each(Field::RateLimit, &limits);
}

/// Adds texts and a number.
fn put(list: &mut String, texts: &[&str], number: u64) {
    for text in texts {
        list.push_str(text);
    }
    list.push_str(itoa::Buffer::new().format(number));
}

fn write_legacy(closest: &ShownLimit<'_>, each: &mut impl FnMut(Field, &str)) {
    let names = [Field::XLimit, Field::XRemaining, Field::XReset];
    write_three(names, closest, closest.reset_at.get().div_ceil(1_000_000), each);
}

fn write_three(
    [limit, remaining, reset]: [Field; 3],
    closest: &ShownLimit<'_>,
    reset_secs: u64,
    each: &mut impl FnMut(Field, &str),
) {
    let mut digits = itoa::Buffer::new();
    each(limit, digits.format(closest.limit));
    each(remaining, digits.format(closest.remaining));
    each(reset, digits.format(reset_secs));
}

/// The third version of the draft, as Envoy sends it: the closest first, then all of them.
fn write_envoy<'a>(
    shown: impl Iterator<Item = ShownLimit<'a>>,
    closest: &ShownLimit<'a>,
    each: &mut impl FnMut(Field, &str),
) {
    let mut text = closest.limit.to_string();
    for ShownLimit { name, limit, window, .. } in shown {
        let _ = write!(text, ", {limit};w={};name=\"{name}\"", window_secs(window));
    }
    let mut digits = itoa::Buffer::new();
    each(Field::XLimit, &text);
    each(Field::XRemaining, digits.format(closest.remaining));
    each(Field::XReset, digits.format(seconds(closest.reset_after)));
}

fn window_secs(window: Span) -> u64 {
    seconds(window).max(1)
}

/// Whole seconds; promises round up.
pub(crate) fn seconds(span: Span) -> u64 {
    span.get().div_ceil(1_000_000)
}

/// About what a list takes.
const LIST_BYTES: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(dialect: Headers, expected: &[(&str, &str)]) {
        let of = |name, window, unit, remaining| ShownLimit {
            name,
            quota: 9,
            window,
            unit,
            limit: 9,
            remaining,
            reset_after: Span::from_micros(1_500_000),
            reset_at: Tick::from_micros(61_500_000),
        };
        let one = of("one", Span::from_millis(1), None, 7);
        let two = of("two", Span::from_secs(60), Some("content-bytes"), 3);
        let mut fields = Vec::new();
        let mut each = |field: Field, value: &str| fields.push((field.name(), value.to_owned()));
        write(dialect, [one, two].into_iter(), &two, &mut each);
        write_retry_after(Verdict::Deny { retry_after: Span::ZERO }, &mut each);
        let fields: Vec<(&str, &str)> =
            fields.iter().map(|(name, value)| (*name, &**value)).collect();
        assert_eq!(fields, [expected, &[("retry-after", "1")]].concat(), "{dialect:?}");
    }

    #[test]
    fn every_dialect_is_written_as_it_should_be() {
        let draft = [
            ("ratelimit-policy", r#""one";q=9;w=1, "two";q=9;w=60;qu="content-bytes""#),
            ("ratelimit", r#""one";r=7;t=2, "two";r=3;t=2"#),
        ];
        let legacy = [
            ("x-ratelimit-limit", "9"),
            ("x-ratelimit-remaining", "3"),
            ("x-ratelimit-reset", "62"),
        ];
        for dialect in Headers::ALL {
            match dialect {
                Headers::Both => check(dialect, &[&draft[..], &legacy].concat()),
                Headers::Draft => check(dialect, &draft),
                Headers::Envoy => {
                    let limits = r#"9, 9;w=1;name="one", 9;w=60;name="two""#;
                    let names = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
                    check(dialect, &[(names[0], limits), (names[1], "3"), (names[2], "2")]);
                }
                Headers::GitHub => {
                    let more = [("x-ratelimit-used", "6"), ("x-ratelimit-resource", "two")];
                    check(dialect, &[&legacy[..], &more].concat());
                }
                Headers::Legacy => check(dialect, &legacy),
                Headers::None => check(dialect, &[]),
                Headers::RateLimit => {
                    let names = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
                    check(dialect, &[(names[0], "9"), (names[1], "3"), (names[2], "2")]);
                }
            }
        }
    }
}
