//! The gate's fields as headers of a response.

use std::ops::Range;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;
use tidegate_gate::{Admission, Field};

/// Whose value counts where a response has a field already.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wins {
    /// Ours: only we know what is left.
    Ours,
    /// Theirs: whoever wrote the refusal has thought of it.
    Theirs,
}

/// Adds what the client is told.
pub(crate) fn write(admission: &Admission, headers: &mut HeaderMap, wins: Wins) {
    if admission.has_no_fields() {
        return;
    }
    // One buffer for all values: each of them is a part of it.
    let mut text = String::with_capacity(Admission::FIELDS_BYTES);
    let mut fields = SmallVec::<[(Field, Range<usize>); 8]>::new();
    admission.write_fields(&mut text, |field, range| fields.push((field, range)));
    let text = Bytes::from(text);
    for (field, range) in fields {
        let Some(name) = name(field) else { continue };
        if wins == Wins::Theirs && headers.contains_key(&name) {
            continue;
        }
        // Rules with odd names cannot be read from a file; should one be odd, it is not told.
        if let Ok(value) = HeaderValue::from_maybe_shared(text.slice(range)) {
            headers.insert(name, value);
        }
    }
}

fn name(field: Field) -> Option<HeaderName> {
    Some(match field {
        Field::Fallback => const { HeaderName::from_static("x-ratelimit-fallback") },
        Field::RateLimit => const { HeaderName::from_static("ratelimit") },
        Field::RateLimitPolicy => const { HeaderName::from_static("ratelimit-policy") },
        Field::RetryAfter => header::RETRY_AFTER,
        Field::XLimit => const { HeaderName::from_static("x-ratelimit-limit") },
        Field::XRemaining => const { HeaderName::from_static("x-ratelimit-remaining") },
        Field::XReset => const { HeaderName::from_static("x-ratelimit-reset") },
        Field::XResource => const { HeaderName::from_static("x-ratelimit-resource") },
        Field::XUsed => const { HeaderName::from_static("x-ratelimit-used") },
        other => HeaderName::from_bytes(other.name().as_bytes()).ok()?,
    })
}
