//! The fields that clients see where limits are from envoyproxy/ratelimit's files.

use std::fmt::Write as _;

use tidegate_config::{EnvoyLimit, EnvoyUnit};
use tidegate_core::{Decision, Span, Verdict};

use super::proto::HeaderValue;

/// Which fields clients see.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum EnvoyFields {
    /// `RateLimit-Policy` and `RateLimit`, of every limit.
    #[default]
    Draft,
    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` of the closest limit, as
    /// envoyproxy/ratelimit sends them if it is told to.
    Ratelimit,
    /// Only `Retry-After`.
    None,
}

/// A limit that was asked, and what it said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told<'a> {
    pub(super) name: &'a str,
    pub(super) requests_per_unit: u32,
    pub(super) unit: EnvoyUnit,
    pub(super) decision: Decision,
    pub(super) reset_after: Span,
}

impl EnvoyFields {
    /// The fields of a response whose limits are `told`, those that do not refuse in shadow only.
    pub(super) fn of(self, told: &[Told<'_>], verdict: Verdict) -> Vec<HeaderValue> {
        let mut fields = Vec::with_capacity(4);
        match self {
            EnvoyFields::Draft if !told.is_empty() => {
                let (policies, limits) = lists(told);
                fields.push(field("ratelimit-policy", policies));
                fields.push(field("ratelimit", limits));
            }
            EnvoyFields::Ratelimit => fields.extend(trio(told).into_iter().flatten()),
            EnvoyFields::Draft | EnvoyFields::None => {}
        }
        if let Verdict::Deny { retry_after } = verdict {
            fields.push(field("retry-after", seconds(retry_after).max(1).to_string()));
        }
        fields
    }
}

fn lists(told: &[Told<'_>]) -> (String, String) {
    let (mut policies, mut limits) = (String::new(), String::new());
    for one in told.iter().take(LISTED_MAX) {
        if !policies.is_empty() {
            policies.push_str(", ");
            limits.push_str(", ");
        }
        let window = one.unit.duration().as_secs();
        let _ = write!(policies, "\"{}\";q={};w={window}", one.name, one.requests_per_unit);
        let (remaining, reset) = (one.decision.remaining, seconds(one.reset_after));
        let _ = write!(limits, "\"{}\";r={remaining};t={reset}", one.name);
    }
    (policies, limits)
}

fn trio(told: &[Told<'_>]) -> Option<[HeaderValue; 3]> {
    let closest =
        told.iter().min_by_key(|one| (one.decision.verdict.passes(), one.decision.remaining))?;
    Some([
        field("ratelimit-limit", closest.requests_per_unit.to_string()),
        field("ratelimit-remaining", closest.decision.remaining.to_string()),
        field("ratelimit-reset", seconds(closest.reset_after).to_string()),
    ])
}

pub(super) fn field(key: &str, value: String) -> HeaderValue {
    HeaderValue { key: key.to_owned(), value, raw_value: Vec::new() }
}

/// Promises round up.
fn seconds(span: Span) -> u64 {
    span.get().div_ceil(1_000_000)
}

/// What clients call a limit: its name, or the keys that lead to it. Only what may stand in a
/// string of a structured field.
pub(super) fn shown_name(limit: &EnvoyLimit) -> Box<str> {
    let name = limit.name.as_deref().unwrap_or(&limit.path);
    let plain = |letter: char| {
        let is_fine = letter.is_ascii_graphic() && !matches!(letter, '"' | '\\');
        if is_fine { letter } else { '-' }
    };
    let quotes = |letter: &char| limit.name.is_some() || *letter != '"';
    name.chars().filter(quotes).map(plain).take(NAME_CHARS_MAX).collect::<String>().into()
}

/// Long names would fill the headers of every response.
const NAME_CHARS_MAX: usize = 64;

/// Limits that fields list: more would fill the headers of every response.
const LISTED_MAX: usize = 16;

/// What clients call a limit that a request brought along.
pub(super) const OVERRIDE: &str = "override";
