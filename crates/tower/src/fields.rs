//! The gate's fields as headers of a response.
//!
//! Most values are those of the response before: the policy always, the reset for a second. They
//! are sent again instead of being made again.

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
    sent: Sent,
}

/// Values that were sent, and may be sent again.
#[derive(Default)]
struct Sent {
    quotas: Option<HeaderValue>,
    limit: Option<(u64, HeaderValue)>,
    reset: Option<(u64, HeaderValue)>,
}

thread_local! {
    static DESK: RefCell<Desk> = RefCell::default();
}

/// Adds what the client is told.
pub(crate) fn write(admission: &Admission, headers: &mut HeaderMap, wins: Wins) {
    if admission.has_no_fields() {
        return;
    }
    DESK.with_borrow_mut(|Desk { fields, sent }| {
        admission.write_fields(fields);
        for (field, value) in fields.iter() {
            let (Some(name), Some(value)) = (name(field), sent.value(field, value)) else {
                continue;
            };
            if wins == Wins::Ours || !headers.contains_key(&name) {
                headers.insert(name, value);
            }
        }
    });
}

impl Sent {
    /// A value to send. Rules with odd names cannot be read from a file; should one be odd, it is
    /// not told.
    #[inline]
    fn value(&mut self, field: Field, value: FieldValue<'_>) -> Option<HeaderValue> {
        match (field, value) {
            (_, FieldValue::Quotas { text, is_new }) => {
                if is_new {
                    self.quotas = HeaderValue::from_str(text).ok();
                }
                self.quotas.clone()
            }
            (Field::XLimit, FieldValue::Number(number)) => Some(again(&mut self.limit, number)),
            (Field::XReset, FieldValue::Number(number)) => Some(again(&mut self.reset, number)),
            (_, FieldValue::Number(number)) => Some(number.into()),
            (_, FieldValue::Text(text)) => HeaderValue::from_str(text).ok(),
        }
    }
}

/// The value that was sent before if it is this one, or a new one.
#[inline]
fn again(sent: &mut Option<(u64, HeaderValue)>, number: u64) -> HeaderValue {
    match sent {
        Some((before, value)) if *before == number => value.clone(),
        _ => sent.insert((number, number.into())).1.clone(),
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
