//! The gate's fields as headers of a response.
//!
//! Most responses tell the same five: these are copied as a whole and filled in, quotas and resets
//! often with what the response before told.

use std::cell::RefCell;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use tidegate_gate::{Admission, Desk, Field, FieldValue, Usual};

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
    static OWN: RefCell<Own> = RefCell::default();
}

#[derive(Default)]
struct Own {
    desk: Desk,
    kept: Kept,
    page: Page,
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
    OWN.with_borrow_mut(|Own { desk, kept, page }| {
        // Most responses have a type by now and nothing else.
        if headers.len() == 1
            && let Some(content_type) = headers.get_mut(header::CONTENT_TYPE)
            && let Some(usual) = admission.usual(desk)
            && let Some(told) = page.told(content_type, &usual, kept)
        {
            *headers = told;
        } else {
            write_each(admission, headers, wins, desk);
        }
    });
}

/// Adds one field after the other.
#[inline(never)]
fn write_each(admission: &Admission, headers: &mut HeaderMap, wins: Wins, desk: &mut Desk) {
    admission.tell(desk, |field, value| {
        let value = match value {
            FieldValue::Number(number) => of_number(number),
            FieldValue::Text(text) => of_text(text),
        };
        // Rules with odd names cannot be read from a file; should one be odd, it is not told.
        let Some(value) = value else { return };
        match wins {
            Wins::Ours => drop(headers.insert(name(field), value)),
            Wins::Theirs => drop(headers.entry(name(field)).or_insert(value)),
        }
    });
}

/// The headers of a response that has a type and the usual fields, to be copied and filled in.
///
/// Field by field their names would be hashed, and the seventh header, a length, would make the
/// map grow beyond what an allocator keeps at hand.
struct Page {
    /// All empty. A length keeps room for one. Nothing if maps do not keep the order in which they
    /// were filled: they need not.
    headers: Option<HeaderMap>,
}

const EMPTY: HeaderValue = HeaderValue::from_static("");

impl Default for Page {
    fn default() -> Page {
        let names: Vec<HeaderName> =
            std::iter::once(header::CONTENT_TYPE).chain(Field::USUAL.map(name)).collect();
        let with_length = names.iter().cloned().chain([header::CONTENT_LENGTH]);
        let headers: HeaderMap = with_length.map(|name| (name, EMPTY)).collect();
        let is_in_order = copy(&headers).keys().eq(names.iter());
        Page { headers: is_in_order.then_some(headers) }
    }
}

/// A copy without a length, but with room for one.
fn copy(headers: &HeaderMap) -> HeaderMap {
    let mut copy = headers.clone();
    copy.remove(header::CONTENT_LENGTH);
    copy
}

impl Page {
    /// Headers that tell this, with the type, which is taken; `None` and nothing taken if one of
    /// the values cannot be sent.
    fn told(
        &self,
        content_type: &mut HeaderValue,
        usual: &Usual<'_>,
        kept: &mut Kept,
    ) -> Option<HeaderMap> {
        let mut headers = copy(self.headers.as_ref()?);
        let mut values = headers.values_mut();
        let first = values.next()?;
        // As in `Field::USUAL`.
        *values.next()? = kept.policy(usual.policy)?;
        *values.next()? = of_text(usual.ratelimit)?;
        *values.next()? = keep(&mut kept.limit, usual.limit.into())?;
        *values.next()? = of_number(usual.remaining.into())?;
        *values.next()? = keep(&mut kept.reset, usual.reset)?;
        *first = std::mem::replace(content_type, EMPTY);
        Some(headers)
    }
}

impl Kept {
    #[inline]
    fn policy(&mut self, text: &str) -> Option<HeaderValue> {
        if self.policy.as_ref().is_none_or(|kept| kept.as_bytes() != text.as_bytes()) {
            self.policy = of_text(text);
        }
        self.policy.clone()
    }
}

/// The value of `number`: the one that is kept, if it is that.
#[inline]
fn keep(kept: &mut Option<(u64, HeaderValue)>, number: u64) -> Option<HeaderValue> {
    if kept.as_ref().is_none_or(|(known, _)| *known != number) {
        *kept = of_number(number).map(|value| (number, value));
    }
    kept.as_ref().map(|(_, value)| value.clone())
}

fn of_text(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(text).ok()
}

fn of_number(number: u64) -> Option<HeaderValue> {
    of_text(itoa::Buffer::new().format(number))
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

    fn told(admission: &Admission) -> Vec<(String, String)> {
        let mut told = Vec::new();
        admission.fields(|field, value| told.push((field.name().to_owned(), value.to_owned())));
        told
    }

    fn typed() -> HeaderMap {
        HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"))])
    }

    /// Adds the fields to a response that has these headers already, which stay as they are.
    #[track_caller]
    fn check(admission: &Admission, before: &HeaderMap) {
        for wins in [Wins::Ours, Wins::Theirs] {
            let mut headers = before.clone();
            write(admission, &mut headers, wins);
            let told = told(admission);
            for (name, value) in &told {
                assert_eq!(headers[name], value, "{name}");
            }
            for (name, value) in before {
                assert_eq!(headers.get_all(name).iter().filter(|it| *it == value).count(), 1);
            }
            assert_eq!(headers.len(), told.len() + before.len());
        }
    }

    /// What is kept of one response is told in the next only where that says the same; whether a
    /// response has a type or more than that, or neither, makes no difference.
    #[test]
    fn every_response_tells_what_the_gate_says() {
        let mut cookies = typed();
        for cookie in ["a=1", "b=2"] {
            cookies.append(header::SET_COOKIE, HeaderValue::from_static(cookie));
        }
        let other = HeaderMap::from_iter([(header::ETAG, HeaderValue::from_static("e"))]);
        let befores = [typed(), HeaderMap::new(), cookies, other];
        let gates = [gate("5/s"), gate("5/min"), gate("7/h"), gate("6/s")];
        for (at, before) in befores.iter().cycle().take(24).enumerate() {
            for gate in &gates[at % 3..] {
                check(&gate.decide(&Sample::new("GET /")), before);
            }
        }
    }

    #[test]
    fn other_dialects_are_told_as_they_are() {
        for dialect in ["both", "draft", "legacy", "github", "envoy", "none"] {
            let policy = format!("headers: {dialect}\nrules: [{{ name: all, limit: 2/h }}]");
            let gate = Gate::from_text(&policy).unwrap();
            for _ in 0..3 {
                check(&gate.decide(&Sample::new("GET /")), &typed());
            }
        }
    }

    /// Maps need not keep the order in which they are filled; these do, and pages are of use.
    #[test]
    fn a_page_is_in_order() {
        assert!(Page::default().headers.is_some());
    }

    /// There is room for a length, and none is told that nobody has said.
    #[test]
    fn a_page_has_no_length_of_its_own() {
        let mut headers = typed();
        write(&gate("5/s").decide(&Sample::new("GET /")), &mut headers, Wins::Ours);
        assert!(!headers.contains_key(header::CONTENT_LENGTH));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("7"));
        assert_eq!((headers.len(), &headers[header::CONTENT_LENGTH]), (7, &"7".parse().unwrap()));
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
