//! What HTTP clients are told: every dialect of it, in this one place.

use std::fmt::Write as _;
use std::ops::Range;

use smallvec::SmallVec;
use tidegate_config::Headers;
use tidegate_core::{Span, Verdict};

use crate::admission::{Admission, Judged};

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
    pub fn fields(&self, mut each: impl FnMut(Field, &str)) {
        let mut text = String::with_capacity(Admission::FIELDS_BYTES);
        let mut parts = SmallVec::<[(Field, Range<usize>); 8]>::new();
        self.write_fields(&mut text, |field, part| parts.push((field, part)));
        for (field, part) in parts {
            each(field, &text[part]);
        }
    }

    /// Whether nothing is told: it passes, and no limit is for it.
    pub fn has_no_fields(&self) -> bool {
        self.each.is_empty() && self.verdict.passes() && !self.by.is_fallback()
    }

    /// Bytes that the fields of three limits take in most dialects.
    pub const FIELDS_BYTES: usize = 320;

    /// The same in one text: `each` is told which part of it is for which field.
    pub fn write_fields(&self, text: &mut String, mut each: impl FnMut(Field, Range<usize>)) {
        let dialect = self.generation.rules.headers();
        let mut field = |field: Field, write: &mut dyn FnMut(&mut String)| {
            let start = text.len();
            write(text);
            if start < text.len() {
                each(field, start..text.len());
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
        for (at, judged) in self.shown().enumerate() {
            comma(text, at);
            text.push_str(&self.limit(judged).listed);
        }
    }

    fn write_limits(&self, text: &mut String) {
        for (at, judged) in self.shown().enumerate() {
            comma(text, at);
            text.push_str(&self.limit(judged).quoted);
            text.push_str(";r=");
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
        let name = &self.limit(closest).quoted;
        field(Field::XResource, &mut |text| text.push_str(name.trim_matches('"')));
    }

    /// The third version of the draft, as Envoy sends it: the closest first, then all of them.
    fn envoy(&self, closest: &Judged, field: &mut EachField<'_>) {
        let decision = &closest.decision;
        field(Field::XLimit, &mut |text| {
            number(text, decision.limit.into());
            for judged in self.shown() {
                let window = seconds(self.answer(judged).window).max(1);
                let (limit, name) = (judged.decision.limit, &self.limit(judged).quoted);
                let _ = write!(text, ", {limit};w={window};name={name}");
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

fn comma(text: &mut String, at: usize) {
    if 0 < at {
        text.push_str(", ");
    }
}

fn number(text: &mut String, number: u64) {
    text.push_str(itoa::Buffer::new().format(number));
}
