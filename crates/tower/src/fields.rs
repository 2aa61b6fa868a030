//! The gate's fields as headers of a response.
//!
//! What most responses tell as the one before did, such as quotas, is kept and compared; the rest
//! is made anew.

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
    static DESK: RefCell<Desk> = RefCell::default();
}

#[derive(Default)]
struct Desk {
    text: String,
    kept: Kept,
}

/// Values that most responses share with the one before.
#[derive(Default)]
struct Kept {
    policy: Option<HeaderValue>,
    limit: Option<(u64, HeaderValue)>,
    reset: Option<(u64, HeaderValue)>,
}

/// Adds what the client is told.
pub(crate) fn write(admission: &Admission, headers: &mut HeaderMap, wins: Wins) {
    if admission.has_no_fields() {
        return;
    }
    DESK.with_borrow_mut(|Desk { text, kept }| {
        admission.tell(text, |field, value| {
            // Rules with odd names cannot be read from a file; should one be odd, it is not told.
            let Some(value) = kept.value(field, value) else { return };
            match wins {
                Wins::Ours => drop(headers.insert(name(field), value)),
                Wins::Theirs => drop(headers.entry(name(field)).or_insert(value)),
            }
        });
    });
}

impl Kept {
    #[inline]
    fn value(&mut self, field: Field, value: FieldValue<'_>) -> Option<HeaderValue> {
        match (field, value) {
            (Field::RateLimitPolicy, FieldValue::Text(text)) => match &self.policy {
                Some(kept) if kept.as_bytes() == text.as_bytes() => Some(kept.clone()),
                _ => {
                    self.policy = HeaderValue::from_str(text).ok();
                    self.policy.clone()
                }
            },
            (Field::XLimit, FieldValue::Number(number)) => keep(&mut self.limit, number),
            (Field::XReset, FieldValue::Number(number)) => keep(&mut self.reset, number),
            (_, FieldValue::Number(number)) => of_number(number),
            (_, FieldValue::Text(text)) => HeaderValue::from_str(text).ok(),
        }
    }
}

/// The value of `number`: the one that is kept, if it is that.
#[inline]
fn keep(kept: &mut Option<(u64, HeaderValue)>, number: u64) -> Option<HeaderValue> {
    match kept {
        Some((known, value)) if *known == number => Some(value.clone()),
        _ => {
            let value = of_number(number)?;
            *kept = Some((number, value.clone()));
            Some(value)
        }
    }
}

fn of_number(number: u64) -> Option<HeaderValue> {
    HeaderValue::from_str(itoa::Buffer::new().format(number)).ok()
}

fn name(field: Field) -> HeaderName {
    match field {
        Field::Fallback => const { HeaderName::from_static("x-ratelimit-fallback") },
        Field::RateLimit => const { HeaderName::from_static("ratelimit") },
        Field::RateLimitPolicy => const { HeaderName::from_static("ratelimit-policy") },
        Field::RetryAfter => header::RETRY_AFTER,
        Field::XLimit => const { HeaderName::from_static("x-ratelimit-limit") },
        Field::XRemaining => const { HeaderName::from_static("x-ratelimit-remaining") },
        Field::XReset => const { HeaderName::from_static("x-ratelimit-reset") },
        Field::XResource => const { HeaderName::from_static("x-ratelimit-resource") },
        Field::XUsed => const { HeaderName::from_static("x-ratelimit-used") },
        other => HeaderName::from_static(other.name()),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_gate::{Gate, Sample};

    use super::*;

    fn gate(limit: &str) -> Gate {
        Gate::from_text(&format!("rules: [{{ name: all, limit: {limit} }}]")).unwrap()
    }

    /// What is kept of one response is told in the next only where that says the same.
    #[test]
    fn every_response_tells_what_the_gate_says() {
        let gates = [gate("5/s"), gate("5/min"), gate("7/h"), gate("6/s")];
        for gate in gates.iter().cycle().take(24) {
            let admission = gate.decide(&Sample::new("GET /"));
            let mut headers = HeaderMap::new();
            write(&admission, &mut headers, Wins::Ours);
            let mut told = 0;
            admission.fields(|field, value| {
                told += 1;
                assert_eq!(headers[field.name()], value, "{field:?}");
            });
            assert_eq!(told, headers.len());
            assert!(5 <= told);
        }
    }

    #[test]
    fn theirs_stay_where_they_win() {
        let admission = gate("5/s").decide(&Sample::new("GET /"));
        for (wins, limit) in [(Wins::Theirs, "theirs"), (Wins::Ours, "5")] {
            let mut headers = HeaderMap::new();
            headers.insert("x-ratelimit-limit", HeaderValue::from_static("theirs"));
            write(&admission, &mut headers, wins);
            assert_eq!(headers["x-ratelimit-limit"], limit);
            assert_eq!(headers.len(), 5);
        }
    }
}
