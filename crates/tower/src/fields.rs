//! The gate's fields as headers of a response.
//!
//! The policy's own is a long text that nearly always is that of the response before: it is sent
//! again. Numbers are not: to make one costs less than to count who has it.

use std::cell::RefCell;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use tidegate_gate::{Admission, Field, FieldValue, Fields};

/// Whose value counts where a response has a field already.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Wins {
    /// Ours: only we know what is left.
    Ours,
    /// Theirs: whoever wrote the refusal has thought of it.
    Theirs,
}

/// What a thread has written last.
#[derive(Default)]
struct Desk {
    fields: Fields,
    quotas: Option<HeaderValue>,
}

thread_local! {
    static DESK: RefCell<Desk> = RefCell::default();
}

/// Adds what the client is told.
pub(crate) fn write(admission: &Admission, headers: &mut HeaderMap, wins: Wins) {
    if admission.has_no_fields() {
        return;
    }
    DESK.with_borrow_mut(|Desk { fields, quotas }| {
        admission.write_fields(fields);
        for (field, value) in fields.iter() {
            // Rules with odd names cannot be read from a file; should one be odd, it is not told.
            let value = match value {
                FieldValue::Number(value) => Some(number(value)),
                FieldValue::Quotas { text, is_new } => {
                    if is_new {
                        *quotas = HeaderValue::from_str(text).ok();
                    }
                    quotas.clone()
                }
                FieldValue::Text(text) => HeaderValue::from_str(text).ok(),
            };
            let (Some(name), Some(value)) = (name(field), value) else { continue };
            if wins == Wins::Ours || !headers.contains_key(&name) {
                headers.insert(name, value);
            }
        }
    });
}

/// A number in as little memory as it needs: made of it directly, a value reserves some more.
#[inline]
fn number(number: u64) -> HeaderValue {
    let text = HeaderValue::from_str(itoa::Buffer::new().format(number));
    text.unwrap_or_else(|_| number.into())
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
