//! The gate's fields as headers of a response.
//!
//! Most responses tell the same five: these are copied as a whole and filled in, quotas and resets
//! often with what the response before told.

use std::cell::RefCell;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use tidegate_gate::{Admission, Desk, Edition, Field, FieldValue, Usual};

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
    page: Page,
}

/// Adds what the client is told.
pub(crate) fn write(admission: &Admission, headers: &mut HeaderMap, wins: Wins) {
    if admission.has_no_fields() {
        return;
    }
    OWN.with_borrow_mut(|Own { desk, page }| {
        if let Some(common) = Common::of(headers)
            && let Some(usual) = admission.usual(desk)
            && let Some(told) = page.told(common, &usual)
        {
            *headers = told;
        } else {
            write_each(admission, headers, wins, desk);
        }
    });
}

/// What most responses have by now: a type, and a length or nothing else.
struct Common<'h> {
    content_type: &'h mut HeaderValue,
    length: Option<&'h mut HeaderValue>,
}

impl<'h> Common<'h> {
    fn of(headers: &'h mut HeaderMap) -> Option<Common<'h>> {
        let mut headers = headers.iter_mut();
        let (name, content_type) = headers.next()?;
        let length = headers.next();
        let is_common = name == header::CONTENT_TYPE
            && length.as_ref().is_none_or(|(name, _)| *name == header::CONTENT_LENGTH)
            && headers.next().is_none();
        is_common.then_some(Common { content_type, length: length.map(|(_, value)| value) })
    }
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

/// The headers of the response before, to be copied for the next: most tell the same policy, limit
/// and reset.
///
/// Field by field their names would be hashed, and the seventh header, a length, would make the
/// map grow beyond what an allocator keeps at hand.
struct Page {
    /// A type, the usual fields and a length, those empty that are told anew each time. Nothing if
    /// maps do not keep the order in which they were filled: they need not.
    headers: Option<HeaderMap>,
    /// What stands in it.
    policy: Option<Edition>,
    limit: Option<u32>,
    reset: Option<u64>,
}

const EMPTY: HeaderValue = HeaderValue::from_static("");

impl Default for Page {
    fn default() -> Page {
        let names: Vec<HeaderName> =
            std::iter::once(header::CONTENT_TYPE).chain(Field::USUAL.map(name)).collect();
        let with_length = names.iter().cloned().chain([header::CONTENT_LENGTH]);
        let headers: HeaderMap = with_length.map(|name| (name, EMPTY)).collect();
        let is_in_order = without_length(&headers).keys().eq(names.iter());
        let headers = is_in_order.then_some(headers);
        Page { headers, policy: None, limit: None, reset: None }
    }
}

/// A copy without a length, but with room for one.
fn without_length(headers: &HeaderMap) -> HeaderMap {
    let mut copy = headers.clone();
    copy.remove(header::CONTENT_LENGTH);
    copy
}

impl Page {
    /// Headers that tell this, with the type and the length that there are, which are taken; `None`
    /// and nothing taken if one of the values cannot be sent.
    fn told(&mut self, common: Common<'_>, usual: &Usual<'_>) -> Option<HeaderMap> {
        let ratelimit = HeaderValue::from_bytes(usual.ratelimit).ok()?;
        let remaining = HeaderValue::from_bytes(usual.remaining).ok()?;
        let page = self.with_kept(usual)?;
        let mut headers = if common.length.is_some() { page.clone() } else { without_length(page) };
        let mut values = headers.values_mut();
        // As in `Field::USUAL`, after the type.
        let (of_type, of_ratelimit) = (values.next()?, values.nth(1)?);
        let of_remaining = values.nth(1)?;
        (*of_ratelimit, *of_remaining) = (ratelimit, remaining);
        if let Some(length) = common.length {
            *values.last()? = std::mem::replace(length, EMPTY);
        }
        *of_type = std::mem::replace(common.content_type, EMPTY);
        Some(headers)
    }

    /// The headers of before with what seldom changes as it is now; `None` if that cannot be sent.
    #[inline]
    fn with_kept(&mut self, usual: &Usual<'_>) -> Option<&HeaderMap> {
        if self.policy != Some(usual.edition)
            || self.limit != Some(usual.limit)
            || self.reset != Some(usual.reset)
        {
            self.keep(usual)?;
        }
        self.headers.as_ref()
    }

    /// Writes anew what is not the same: with buckets, every client has a reset of its own.
    #[inline(never)]
    fn keep(&mut self, usual: &Usual<'_>) -> Option<()> {
        let mut values = self.headers.as_mut()?.values_mut();
        // As in `Field::USUAL`, after the type.
        let (policy, limit, reset) = (values.nth(1)?, values.nth(1)?, values.nth(1)?);
        if self.policy != Some(usual.edition) {
            *policy = of_text(usual.policy)?;
            self.policy = Some(usual.edition);
        }
        if self.limit != Some(usual.limit) {
            *limit = of_number(usual.limit.into())?;
            self.limit = Some(usual.limit);
        }
        if self.reset != Some(usual.reset) {
            *reset = of_number(usual.reset)?;
            self.reset = Some(usual.reset);
        }
        Some(())
    }
}

fn of_text(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(text).ok()
}

fn of_number(number: u64) -> Option<HeaderValue> {
    of_text(itoa::Buffer::new().format(number))
}

fn name(field: Field) -> HeaderName {
    match field {
        Field::Authenticate => header::WWW_AUTHENTICATE,
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
    use std::sync::Arc;

    use tidegate_gate::{Gate, Sample};
    use tidegate_store::ManualClock;

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
        let (mut long, mut tagged) = (typed(), typed());
        long.insert(header::CONTENT_LENGTH, HeaderValue::from_static("7"));
        tagged.extend(other.clone());
        let mut bare = long.clone();
        bare.remove(header::CONTENT_TYPE);
        let mut full = long.clone();
        full.extend(other.clone());
        let befores = [typed(), HeaderMap::new(), long, cookies, other, tagged, bare, full];
        // Each lets all kinds of response pass before it refuses.
        let gates = [gate("12/s"), gate("24/min"), gate("37/h"), gate("36/s")];
        for (at, before) in befores.iter().cycle().take(48).enumerate() {
            for gate in &gates[at % 3..] {
                // Once after another gate, and once after itself.
                for _ in 0..=at % 2 {
                    check(&gate.decide(&Sample::new("GET /")), before);
                }
            }
        }
    }

    /// In windows of a calendar resets are the same for all, so that nothing else changes.
    #[test]
    fn a_policy_or_a_limit_may_change_alone() {
        let gate = |rules: &str| {
            let clock = Arc::new(ManualClock::new());
            Gate::builder().text(&format!("rules: [{rules}]")).clock(clock).open().unwrap()
        };
        let of_all = |name| format!("{{ name: {name}, algorithm: fixed-window, limit: 9/d }}");
        for name in ["one", "two"] {
            let gate = gate(&of_all(name));
            check(&gate.decide(&Sample::new("GET /")), &typed());
        }
        let each = "{ name: each, key: header:x, algorithm: fixed-window, limit: 5/d }";
        let gate = gate(&format!("{each}, {}", of_all("all")));
        let mut limits = Vec::new();
        for client in 0..8 {
            let admission = gate.decide(&Sample::new("GET /").with_header("x", client.to_string()));
            check(&admission, &typed());
            limits.push(admission.decision().limit);
        }
        assert_eq!(limits, [5, 5, 5, 5, 5, 9, 9, 9], "the limit that speaks");
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
