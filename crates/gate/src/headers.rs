//! The fields of a response to a request that was decided about.

use tidegate_config::{FallbackHeader, Unit};

use crate::admission::{Admission, Judged, Reason};
use crate::ratelimit_field::{self, Field, ShownLimit};

impl Admission {
    /// The fields that the policy file asks for, one after the other.
    pub fn fields(&self, mut each: impl FnMut(Field, &str)) {
        if let Some(closest) = self.closest(|judged| judged.is_shown) {
            let shown = self.each.iter().filter(|judged| judged.is_shown && !judged.is_shadow);
            let shown = shown.map(|judged| self.shown(judged));
            let dialect = self.in_force.rules.headers();
            ratelimit_field::write(dialect, shown, &self.shown(closest), &mut each);
        }
        ratelimit_field::write_retry_after(self.verdict, &mut each);
        if self.reason == Reason::UnknownKey
            && let Some(challenge) = self.in_force.rules.challenge()
        {
            each(Field::Authenticate, &challenge);
        }
        if let Some(fallback) = self.fallback() {
            each(Field::Fallback, fallback);
        }
    }

    /// What the policy has clients see of a decision that was made without the store.
    fn fallback(&self) -> Option<&'static str> {
        if !self.by.is_fallback() {
            return None;
        }
        match self.in_force.rules.fallback_header() {
            FallbackHeader::Full => Some(self.by.name()),
            FallbackHeader::None => None,
            FallbackHeader::Plain => Some("yes"),
        }
    }

    fn shown(&self, judged: &Judged) -> ShownLimit<'_> {
        let (rule, variant) = (judged.rule as usize, judged.variant as usize);
        let limit = &self.in_force.limits(rule, variant)[usize::from(judged.part)];
        let decision = judged.decision();
        let since = judged.settled_at().unwrap_or(self.now);
        ShownLimit {
            name: &limit.name_shown,
            quota: limit.cells,
            window: limit.window,
            unit: unit_word(self.in_force.rule(rule).unit()),
            limit: decision.limit,
            remaining: decision.remaining,
            reset_after: decision.reset_after,
            reset_at: since.after(decision.reset_after),
        }
    }
}

/// What is counted, as the draft says it. It has no word for a thousand bytes, nor for what users
/// count themselves.
fn unit_word(unit: &Unit) -> Option<&str> {
    let is_plain = |it: char| matches!(it, ' '..='~') && !"\"\\".contains(it);
    match unit {
        Unit::Bytes("B") => Some("content-bytes"),
        Unit::Bytes(word) => Some(word),
        Unit::InFlight => Some("concurrent-requests"),
        Unit::Named(word) => word.chars().all(is_plain).then_some(word),
        Unit::Requests => None,
    }
}
