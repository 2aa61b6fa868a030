//! The gate's fields as headers of a response.
//!
//! Most values are those of the response before: the policy always, the reset for a second. They
//! are sent again instead of being made and checked again.

use std::cell::RefCell;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use tidegate_gate::{Admission, Field, Fields};

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
    /// By their [`place`].
    sent: [Option<HeaderValue>; KEPT],
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
            let Some(name) = name(field) else { continue };
            if wins == Wins::Theirs && headers.contains_key(&name) {
                continue;
            }
            // Rules with odd names cannot be read from a file; should one be odd, it is not told.
            let value = match place(field) {
                Some(place) => again(&mut sent[place], value),
                None => HeaderValue::from_str(value).ok(),
            };
            if let Some(value) = value {
                headers.insert(name, value);
            }
        }
    });
}

/// The value that was sent before if it is this one, or a new one.
fn again(sent: &mut Option<HeaderValue>, value: &str) -> Option<HeaderValue> {
    if sent.as_ref().is_none_or(|sent| sent.as_bytes() != value.as_bytes()) {
        *sent = HeaderValue::from_str(value).ok();
    }
    sent.clone()
}

/// How many fields keep their values for a while.
const KEPT: usize = 3;

/// Where the value of a field is kept, unless it changes with every response.
fn place(field: Field) -> Option<usize> {
    match field {
        Field::RateLimitPolicy => Some(0),
        Field::XLimit => Some(1),
        Field::XReset => Some(2),
        _ => None,
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
