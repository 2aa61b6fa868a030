//! What HTTP clients are told: every dialect of it, in this one place.

use std::fmt::Write as _;

use tidegate_config::{FallbackHeader, Headers};
use tidegate_core::{Span, Verdict};

use crate::admission::{Admission, Judged, Reason};
use crate::draft::{Draft, Edition};
use crate::generation::Limit;

/// A field of a response.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Field {
    /// `WWW-Authenticate`
    Authenticate,
    /// That the request was decided while Redis did not answer, or by what; only where the policy
    /// file asks for it.
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
    /// What is told of a request that passes unless the policy file says otherwise, in this order.
    pub const USUAL: [Field; 5] =
        [Field::RateLimitPolicy, Field::RateLimit, Field::XLimit, Field::XRemaining, Field::XReset];

    /// The name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Field::Authenticate => "www-authenticate",
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

/// The value of a field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FieldValue<'f> {
    /// A number.
    Number(u64),
    /// A text.
    Text(&'f str),
}

/// The usual five fields: [`Field::USUAL`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Usual<'d> {
    /// `RateLimit-Policy`
    pub policy: &'d str,
    /// Where this is the same, the policy is.
    pub edition: Edition,
    /// `RateLimit`
    pub ratelimit: &'d [u8],
    /// `X-RateLimit-Limit`
    pub limit: u32,
    /// `X-RateLimit-Remaining`, in digits
    pub remaining: &'d [u8],
    /// `X-RateLimit-Reset`
    pub reset: u64,
}

/// Where a thread writes what clients are told. Whose it is makes no difference: it spares the next
/// response what this one has written already.
#[derive(Debug, Default)]
pub struct Desk {
    draft: Draft,
    /// For what is written from its beginning each time.
    text: String,
}

impl Admission {
    /// The fields that the policy file asks for, one after the other.
    pub fn fields(&self, mut each: impl FnMut(Field, &str)) {
        self.tell(&mut Desk::default(), |field, value| match value {
            FieldValue::Number(number) => each(field, itoa::Buffer::new().format(number)),
            FieldValue::Text(text) => each(field, text),
        });
    }

    /// Whether nothing is told: it passes, and no limit is for it.
    pub fn has_no_fields(&self) -> bool {
        self.each.is_empty() && self.verdict.passes() && self.fallback().is_none()
    }

    /// The usual five fields, if they are told and no other.
    pub fn usual<'d>(&self, desk: &'d mut Desk) -> Option<Usual<'d>> {
        let is_usual = self.generation.rules.headers() == Headers::Both
            && self.verdict.passes()
            && self.fallback().is_none();
        if !is_usual {
            return None;
        }
        let closest = self.closest(|judged| judged.is_shown)?;
        let draft = &mut desk.draft;
        draft.write(self.generation.id, self.shown(), |judged| self.limit(judged));
        let edition = draft.edition();
        Some(Usual {
            policy: draft.listed(),
            edition,
            ratelimit: draft.text(),
            limit: closest.decision().limit,
            remaining: draft.remaining(closest.place())?,
            reset: self.unix_reset(closest),
        })
    }

    /// The same as [`Admission::fields`], with numbers as numbers.
    pub fn tell(&self, desk: &mut Desk, mut each: impl FnMut(Field, FieldValue<'_>)) {
        let dialect = self.generation.rules.headers();
        if dialect != Headers::None
            && let Some(closest) = self.closest(|judged| judged.is_shown)
        {
            if matches!(dialect, Headers::Both | Headers::Draft) {
                self.tell_draft(&mut desk.draft, &mut each);
            }
            match dialect {
                Headers::Both | Headers::Legacy => self.tell_legacy(closest, &mut each),
                Headers::Envoy => self.tell_envoy(closest, &mut desk.text, &mut each),
                Headers::GitHub => self.tell_github(closest, &mut each),
                Headers::Draft | Headers::None => {}
            }
        }
        // A refusal says when to come back whatever else is told.
        if let Verdict::Deny { retry_after } = self.verdict {
            each(Field::RetryAfter, FieldValue::Number(seconds(retry_after).max(1)));
        }
        if self.reason == Reason::UnknownKey
            && let Some(challenge) = self.generation.rules.challenge()
        {
            each(Field::Authenticate, FieldValue::Text(&challenge));
        }
        if let Some(fallback) = self.fallback() {
            each(Field::Fallback, FieldValue::Text(fallback));
        }
    }

    /// What the policy has clients told of a decision that was made without the store.
    #[inline]
    fn fallback(&self) -> Option<&'static str> {
        if !self.by.is_fallback() {
            return None;
        }
        match self.generation.rules.fallback_header() {
            FallbackHeader::Full => Some(self.by.name()),
            FallbackHeader::None => None,
            FallbackHeader::Plain => Some("yes"),
        }
    }

    /// What the limits said that clients are told of.
    #[inline]
    fn shown(&self) -> impl Iterator<Item = &Judged> + Clone {
        self.each.iter().filter(|judged| judged.is_shown && !judged.is_shadow)
    }

    #[inline]
    fn limit(&self, judged: &Judged) -> &Limit {
        let limits = self.generation.limits(judged.rule as usize, judged.variant as usize);
        &limits[usize::from(judged.part)]
    }

    fn tell_draft(&self, draft: &mut Draft, each: &mut impl FnMut(Field, FieldValue<'_>)) {
        draft.write(self.generation.id, self.shown(), |judged| self.limit(judged));
        each(Field::RateLimitPolicy, FieldValue::Text(draft.listed()));
        let text = String::from_utf8_lossy(draft.text());
        each(Field::RateLimit, FieldValue::Text(&text));
    }

    fn unix_reset(&self, judged: &Judged) -> u64 {
        let at = judged.settled_at().unwrap_or(self.now);
        at.after(judged.decision().reset_after).get().div_ceil(1_000_000)
    }

    #[inline]
    fn tell_legacy(&self, closest: &Judged, each: &mut impl FnMut(Field, FieldValue<'_>)) {
        let decision = closest.decision();
        each(Field::XLimit, FieldValue::Number(decision.limit.into()));
        each(Field::XRemaining, FieldValue::Number(decision.remaining.into()));
        each(Field::XReset, FieldValue::Number(self.unix_reset(closest)));
    }

    fn tell_github(&self, closest: &Judged, each: &mut impl FnMut(Field, FieldValue<'_>)) {
        self.tell_legacy(closest, each);
        let decision = closest.decision();
        let used = decision.limit.saturating_sub(decision.remaining);
        each(Field::XUsed, FieldValue::Number(used.into()));
        each(Field::XResource, FieldValue::Text(&self.limit(closest).name_shown));
    }

    /// The third version of the draft, as Envoy sends it: the closest first, then all of them.
    fn tell_envoy(
        &self,
        closest: &Judged,
        text: &mut String,
        each: &mut impl FnMut(Field, FieldValue<'_>),
    ) {
        text.clear();
        let _ = write!(text, "{}", closest.decision().limit);
        for judged in self.shown() {
            let Limit { name_shown, window, .. } = self.limit(judged);
            let (limit, window) = (judged.decision().limit, seconds(*window).max(1));
            let _ = write!(text, ", {limit};w={window};name=\"{name_shown}\"");
        }
        each(Field::XLimit, FieldValue::Text(text));
        each(Field::XRemaining, FieldValue::Number(closest.decision().remaining.into()));
        each(Field::XReset, FieldValue::Number(seconds(closest.decision().reset_after)));
    }
}

/// Whole seconds; promises round up.
pub(crate) fn seconds(span: Span) -> u64 {
    span.get().div_ceil(1_000_000)
}
