//! The gate's fields as headers of a response.
//!
//! Every value is made anew, even one that stays the same: to copy it costs no more than to count
//! who has it.

use std::cell::RefCell;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use tidegate_gate::{Admission, Field, FieldValue};

/// Whose value counts where a response has a field already.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wins {
    /// Ours: only we know what is left.
    Ours,
    /// Theirs: whoever wrote the refusal has thought of it.
    Theirs,
}

thread_local! {
    /// Where a thread writes.
    static DESK: RefCell<String> = RefCell::default();
}

/// Adds what the client is told.
pub(crate) fn write(admission: &Admission, headers: &mut HeaderMap, wins: Wins) {
    if admission.has_no_fields() {
        return;
    }
    DESK.with_borrow_mut(|text| {
        admission.tell(text, |field, value| {
            let Some(name) = name(field) else { return };
            if wins == Wins::Theirs && headers.contains_key(&name) {
                return;
            }
            match value {
                FieldValue::Number(value) => put(headers, name, itoa::Buffer::new().format(value)),
                FieldValue::Text(text) => put(headers, name, text),
            }
        });
    });
}

/// Rules with odd names cannot be read from a file; should one be odd, it is not told.
fn put(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
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
