//! The fields that clients see where limits are from envoyproxy/ratelimit's files.

use tidegate_config::EnvoyLimit;
use tidegate_core::Verdict;
use tidegate_gate::ratelimit_field::{ShownLimit, write, write_retry_after};
use tidegate_gate::{Field, Headers};

use super::proto::HeaderValue;

/// The fields of a response to which these limits said so.
pub(super) fn of(
    dialect: Headers,
    shown: &[(Verdict, ShownLimit<'_>)],
    verdict: Verdict,
) -> Vec<HeaderValue> {
    let mut fields = Vec::with_capacity(4);
    let mut each = |name: Field, value: &str| fields.push(field(name.name(), value.to_owned()));
    let closest = shown.iter().min_by_key(|(said, limit)| (said.passes(), limit.remaining));
    if let Some((_, closest)) = closest {
        let listed = shown.iter().map(|(_, limit)| *limit).take(LISTED_MAX);
        write(dialect, listed, closest, &mut each);
    }
    write_retry_after(verdict, &mut each);
    fields
}

pub(super) fn field(key: &str, value: String) -> HeaderValue {
    HeaderValue { key: key.to_owned(), value, raw_value: Vec::new() }
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
