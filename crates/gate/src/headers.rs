//! What HTTP clients are told: every dialect of it, in this one place.

use std::fmt::Write as _;

use tidegate_config::Headers;
use tidegate_core::{Span, Verdict};

use crate::admission::{Admission, Judged};
use crate::generation::SEPARATOR;

/// A field of a response.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Field {
    /// By what the request was decided while Redis did not answer.
    Fallback,
    /// `RateLimit`
    RateLimit,
    /// `RateLimit-Policy`
    RateLimitPolicy,
    /// `Retry-After`
    RetryAfter,
    /// `X-RateLimit-Limit`
    XLimit,
    /// `X-RateLimit-Remaining`
    XRemaining,
    /// `X-RateLimit-Reset`
    XReset,
    /// `X-RateLimit-Resource`
    XResource,
    /// `X-RateLimit-Used`
    XUsed,
}

impl Field {
    /// The name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Field::Fallback => "x-ratelimit-fallback",
            Field::RateLimit => "ratelimit",
            Field::RateLimitPolicy => "ratelimit-policy",
            Field::RetryAfter => "retry-after",
            Field::XLimit => "x-ratelimit-limit",
            Field::XRemaining => "x-ratelimit-remaining",
            Field::XReset => "x-ratelimit-reset",
            Field::XResource => "x-ratelimit-resource",
            Field::XUsed => "x-ratelimit-used",
        }
    }
}

/// Takes a field, and what writes its value.
type EachField<'a> = dyn FnMut(Field, &mut dyn FnMut(&mut String)) + 'a;

impl Admission {
    /// The fields that the policy file asks for, one after the other.
    pub fn fields(&self, each: impl FnMut(Field, &str)) {
        self.fields_in(&mut String::with_capacity(128), each);
    }

    /// Whether nothing is told: it passes, and no limit is for it.
    pub fn has_no_fields(&self) -> bool {
        self.each.is_empty() && self.verdict.passes() && !self.by.is_fallback()
    }

    /// The same for whoever has a text to spare, in which each value is written.
    pub fn fields_in(&self, text: &mut String, mut each: impl FnMut(Field, &str)) {
        let dialect = self.generation.rules.headers();
        let mut field = |field: Field, write: &mut dyn FnMut(&mut String)| {
            text.clear();
            write(text);
            if !text.is_empty() {
                each(field, text);
            }
        };
        if matches!(dialect, Headers::Both | Headers::Draft) {
            field(Field::RateLimitPolicy, &mut |text| self.write_policies(text));
            field(Field::RateLimit, &mut |text| self.write_limits(text));
        }
        if let Some(closest) = self.closest(|judged| self.is_shown(judged)) {
            match dialect {
                Headers::Both | Headers::Legacy => self.legacy(closest, &mut field),
                Headers::Envoy => self.envoy(closest, &mut field),
                Headers::GitHub => self.github(closest, &mut field),
                Headers::Draft | Headers::None => {}
            }
        }
        // A refusal says when to come back whatever else is told.
        if let Verdict::Deny { retry_after } = self.verdict {
            field(Field::RetryAfter, &mut |text| number(text, seconds(retry_after).max(1)));
        }
        if self.by.is_fallback() {
            field(Field::Fallback, &mut |text| text.push_str(self.by.name()));
        }
    }

    fn shown(&self) -> impl Iterator<Item = &Judged> {
        self.each.iter().filter(|judged| !judged.is_shadow && self.is_shown(judged))
    }

    fn is_shown(&self, judged: &Judged) -> bool {
        self.generation.rule(judged.rule as usize).is_shown()
    }

    fn limit(&self, judged: &Judged) -> &crate::generation::Limit {
        let limits = self.generation.limits(judged.rule as usize, judged.variant as usize);
        &limits[usize::from(judged.part)]
    }

    fn write_policies(&self, text: &mut String) {
        for judged in self.shown() {
            text.push_str(next(text, &self.limit(judged).listed));
        }
    }

    fn write_limits(&self, text: &mut String) {
        for judged in self.shown() {
            text.push_str(next(text, &self.limit(judged).remains));
            number(text, judged.decision.remaining.into());
            text.push_str(";t=");
            number(text, seconds(judged.decision.reset_after));
        }
    }

    fn unix_reset(&self, judged: &Judged) -> u64 {
        self.now.after(judged.decision.reset_after).get().div_ceil(1_000_000)
    }

    fn legacy(&self, closest: &Judged, field: &mut EachField<'_>) {
        let decision = &closest.decision;
        field(Field::XLimit, &mut |text| number(text, decision.limit.into()));
        field(Field::XRemaining, &mut |text| number(text, decision.remaining.into()));
        field(Field::XReset, &mut |text| number(text, self.unix_reset(closest)));
    }

    fn github(&self, closest: &Judged, field: &mut EachField<'_>) {
        self.legacy(closest, field);
        let used = closest.decision.limit.saturating_sub(closest.decision.remaining);
        field(Field::XUsed, &mut |text| number(text, used.into()));
        let name = &self.limit(closest).name_shown;
        field(Field::XResource, &mut |text| text.push_str(name));
    }

    /// The third version of the draft, as Envoy sends it: the closest first, then all of them.
    fn envoy(&self, closest: &Judged, field: &mut EachField<'_>) {
        let decision = &closest.decision;
        field(Field::XLimit, &mut |text| {
            number(text, decision.limit.into());
            for judged in self.shown() {
                let window = seconds(self.answer(judged).window).max(1);
                let (limit, name) = (judged.decision.limit, &self.limit(judged).name_shown);
                let _ = write!(text, ", {limit};w={window};name=\"{name}\"");
            }
        });
        field(Field::XRemaining, &mut |text| number(text, decision.remaining.into()));
        field(Field::XReset, &mut |text| number(text, seconds(decision.reset_after)));
    }
}

/// Whole seconds; promises round up.
pub(crate) fn seconds(span: Span) -> u64 {
    span.get().div_ceil(1_000_000)
}

/// An item of a list, which has a comma before it: the first needs none.
fn next<'i>(text: &str, item: &'i str) -> &'i str {
    if text.is_empty() { &item[SEPARATOR.len()..] } else { item }
}

fn number(text: &mut String, number: u64) {
    text.push_str(itoa::Buffer::new().format(number));
}
