//! What HTTP clients are told: every dialect of it, in this one place.

use std::fmt::Write as _;

use arrayvec::ArrayVec;
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

/// Fields with their values, written one after the other in one text.
#[derive(Debug, Default)]
pub struct Fields {
    /// Kept when it is written anew, since it is needed all the time.
    text: String,
    ends: ArrayVec<(Field, usize), FIELDS>,
}

/// How many fields there are.
const FIELDS: usize = 9;

impl Fields {
    /// Each field with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Field, &str)> {
        self.ends.iter().scan(0, |start, (field, end)| {
            let value = &self.text[*start..*end];
            *start = *end;
            Some((*field, value))
        })
    }

    /// What was written since the last field is the value of this one. Nothing is no value.
    fn end(&mut self, field: Field) {
        let (start, end) = (self.ends.last().map_or(0, |(_, end)| *end), self.text.len());
        if start < end {
            self.ends.push((field, end));
        }
    }

    fn number(&mut self, field: Field, value: u64) {
        number(&mut self.text, value);
        self.end(field);
    }

    /// An item of a list, which has a comma before it: the first needs none.
    fn item(&mut self, item: &str) {
        let is_first = self.ends.last().map_or(0, |(_, end)| *end) == self.text.len();
        self.text.push_str(if is_first { &item[SEPARATOR.len()..] } else { item });
    }
}

impl Admission {
    /// The fields that the policy file asks for, one after the other.
    pub fn fields(&self, mut each: impl FnMut(Field, &str)) {
        let mut fields = Fields::default();
        self.write_fields(&mut fields);
        fields.iter().for_each(|(field, value)| each(field, value));
    }

    /// Whether nothing is told: it passes, and no limit is for it.
    pub fn has_no_fields(&self) -> bool {
        self.each.is_empty() && self.verdict.passes() && !self.by.is_fallback()
    }

    /// The same in place of what `fields` were before.
    pub fn write_fields(&self, fields: &mut Fields) {
        fields.text.clear();
        fields.ends.clear();
        let dialect = self.generation.rules.headers();
        if matches!(dialect, Headers::Both | Headers::Draft) {
            self.write_draft(fields);
        }
        if let Some(closest) = self.closest(|judged| self.is_shown(judged)) {
            match dialect {
                Headers::Both | Headers::Legacy => self.write_legacy(closest, fields),
                Headers::Envoy => self.write_envoy(closest, fields),
                Headers::GitHub => self.write_github(closest, fields),
                Headers::Draft | Headers::None => {}
            }
        }
        // A refusal says when to come back whatever else is told.
        if let Verdict::Deny { retry_after } = self.verdict {
            fields.number(Field::RetryAfter, seconds(retry_after).max(1));
        }
        if self.by.is_fallback() {
            fields.text.push_str(self.by.name());
            fields.end(Field::Fallback);
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

    fn write_draft(&self, fields: &mut Fields) {
        for judged in self.shown() {
            fields.item(&self.limit(judged).listed);
        }
        fields.end(Field::RateLimitPolicy);
        for judged in self.shown() {
            fields.item(&self.limit(judged).remains);
            number(&mut fields.text, judged.decision.remaining.into());
            fields.text.push_str(";t=");
            number(&mut fields.text, seconds(judged.decision.reset_after));
        }
        fields.end(Field::RateLimit);
    }

    fn unix_reset(&self, judged: &Judged) -> u64 {
        self.now.after(judged.decision.reset_after).get().div_ceil(1_000_000)
    }

    fn write_legacy(&self, closest: &Judged, fields: &mut Fields) {
        fields.number(Field::XLimit, closest.decision.limit.into());
        fields.number(Field::XRemaining, closest.decision.remaining.into());
        fields.number(Field::XReset, self.unix_reset(closest));
    }

    fn write_github(&self, closest: &Judged, fields: &mut Fields) {
        self.write_legacy(closest, fields);
        let used = closest.decision.limit.saturating_sub(closest.decision.remaining);
        fields.number(Field::XUsed, used.into());
        fields.text.push_str(&self.limit(closest).name_shown);
        fields.end(Field::XResource);
    }

    /// The third version of the draft, as Envoy sends it: the closest first, then all of them.
    fn write_envoy(&self, closest: &Judged, fields: &mut Fields) {
        number(&mut fields.text, closest.decision.limit.into());
        for judged in self.shown() {
            let window = seconds(self.answer(judged).window).max(1);
            let (limit, name) = (judged.decision.limit, &self.limit(judged).name_shown);
            let _ = write!(fields.text, ", {limit};w={window};name=\"{name}\"");
        }
        fields.end(Field::XLimit);
        fields.number(Field::XRemaining, closest.decision.remaining.into());
        fields.number(Field::XReset, seconds(closest.decision.reset_after));
    }
}

/// Whole seconds; promises round up.
pub(crate) fn seconds(span: Span) -> u64 {
    span.get().div_ceil(1_000_000)
}

fn number(text: &mut String, number: u64) {
    text.push_str(itoa::Buffer::new().format(number));
}
