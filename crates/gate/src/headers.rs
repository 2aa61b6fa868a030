//! What HTTP clients are told: every dialect of it, in this one place.

use std::fmt::Write as _;

use arrayvec::ArrayVec;
use tidegate_config::Headers;
use tidegate_core::{Span, Verdict};

use crate::admission::{Admission, Judged, Place};
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

/// Fields with their values. Kept from one response to the next, since most of it stays.
#[derive(Debug, Default)]
pub struct Fields {
    told: ArrayVec<(Field, Written), FIELDS>,
    /// The texts, one after the other.
    text: String,
    /// The text of `RateLimit-Policy`.
    quotas: String,
    /// Whose quotas these are: of which generation, and of which limits.
    quotas_of: (u64, Vec<Place>),
    /// Whether they are not those of the response before.
    has_new_quotas: bool,
}

/// How the value of a field is kept.
#[derive(Clone, Copy, Debug)]
enum Written {
    Number(u64),
    Quotas,
    /// Up to here.
    Text(usize),
}

/// The value of a field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FieldValue<'f> {
    /// A number.
    Number(u64),
    /// A text that says the same for as long as a policy is in force.
    Quotas {
        /// The text.
        text: &'f str,
        /// Whether it was written just now, and not with the response before. It may be the same
        /// text.
        is_new: bool,
    },
    /// A text.
    Text(&'f str),
}

/// How many fields there are.
const FIELDS: usize = 9;

impl Fields {
    /// Each field with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Field, FieldValue<'_>)> {
        let mut start = 0;
        self.told.iter().map(move |(field, written)| {
            let value = match *written {
                Written::Number(number) => FieldValue::Number(number),
                Written::Quotas => {
                    FieldValue::Quotas { text: &self.quotas, is_new: self.has_new_quotas }
                }
                Written::Text(end) => {
                    let text = &self.text[start..end];
                    start = end;
                    FieldValue::Text(text)
                }
            };
            (*field, value)
        })
    }

    fn clear(&mut self) {
        self.told.clear();
        self.text.clear();
        self.has_new_quotas = false;
    }

    /// What was written since the last text is the value of this field.
    fn end(&mut self, field: Field) {
        self.told.push((field, Written::Text(self.text.len())));
    }

    fn number(&mut self, field: Field, value: u64) {
        self.told.push((field, Written::Number(value)));
    }
}

/// Adds an item to a list. It has a comma before it, which the first does not need.
fn item(list: &mut String, item: &str) {
    list.push_str(if list.is_empty() { &item[SEPARATOR.len()..] } else { item });
}

impl Admission {
    /// The fields that the policy file asks for, one after the other.
    pub fn fields(&self, mut each: impl FnMut(Field, &str)) {
        let mut fields = Fields::default();
        self.write_fields(&mut fields);
        fields.iter().for_each(|(field, value)| match value {
            FieldValue::Number(number) => each(field, itoa::Buffer::new().format(number)),
            FieldValue::Quotas { text, .. } | FieldValue::Text(text) => each(field, text),
        });
    }

    /// Whether nothing is told: it passes, and no limit is for it.
    pub fn has_no_fields(&self) -> bool {
        self.each.is_empty() && self.verdict.passes() && !self.by.is_fallback()
    }

    /// The same in place of what `fields` were before.
    pub fn write_fields(&self, fields: &mut Fields) {
        fields.clear();
        let dialect = self.generation.rules.headers();
        if let Some(closest) = self.closest(|judged| judged.is_shown) {
            if matches!(dialect, Headers::Both | Headers::Draft) {
                self.write_draft(fields);
            }
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
        self.each.iter().filter(|judged| judged.is_shown && !judged.is_shadow)
    }

    fn limit(&self, judged: &Judged) -> &crate::generation::Limit {
        let limits = self.generation.limits(judged.rule as usize, judged.variant as usize);
        &limits[usize::from(judged.part)]
    }

    fn write_draft(&self, fields: &mut Fields) {
        let (generation, places) = &fields.quotas_of;
        let is_known = *generation == self.generation.id
            && self.shown().map(Judged::place).eq(places.iter().copied());
        if !is_known {
            self.write_quotas(fields);
        }
        fields.told.push((Field::RateLimitPolicy, Written::Quotas));
        for judged in self.shown() {
            item(&mut fields.text, &self.limit(judged).remains);
            number(&mut fields.text, judged.decision.remaining.into());
            fields.text.push_str(";t=");
            number(&mut fields.text, seconds(judged.decision.reset_after));
        }
        fields.end(Field::RateLimit);
    }

    #[cold]
    fn write_quotas(&self, fields: &mut Fields) {
        fields.quotas_of = (self.generation.id, self.shown().map(Judged::place).collect());
        fields.has_new_quotas = true;
        fields.quotas.clear();
        for judged in self.shown() {
            item(&mut fields.quotas, &self.limit(judged).listed);
        }
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
