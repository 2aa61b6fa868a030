//! Why Redis did not decide.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{NothingToDebit, Span};

use crate::wire::CallError;

/// Why Redis did not decide a request. What to do then is the limiter's choice, rule by rule.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum StoreError {
    /// It was left alone, because it has failed several times in a row.
    Resting {
        /// When it is asked again, at the earliest.
        retry_after: Span,
    },
    /// The request certainly was not charged; what Redis said, and what to do.
    NotCharged(Arc<str>),
    /// Whether it was charged is not known: no answer came. It is never sent again.
    Unknown(Arc<str>),
    /// Too many requests wait for it.
    Busy,
    /// The rule is one of concurrency, which nothing can be debited to.
    NothingToDebit(NothingToDebit),
    /// A state under our name is none of ours, or was damaged.
    Damaged(Arc<str>),
}

impl StoreError {
    /// Whether the request certainly was not charged.
    pub fn is_certain(&self) -> bool {
        !matches!(self, StoreError::Unknown(_))
    }

    /// The reason in one word, for counters and headers.
    pub fn reason(&self) -> &'static str {
        match self {
            StoreError::Resting { .. } => "resting",
            StoreError::NotCharged(_) => "refused",
            StoreError::Unknown(_) => "unanswered",
            StoreError::Busy => "busy",
            StoreError::NothingToDebit(_) => "permits",
            StoreError::Damaged(_) => "damaged",
        }
    }
}

impl From<&CallError> for StoreError {
    fn from(error: &CallError) -> StoreError {
        let text = error.to_string().into();
        if error.is_certain() { StoreError::NotCharged(text) } else { StoreError::Unknown(text) }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Resting { retry_after } => write!(
                f,
                "Redis has failed several times in a row and is asked again in {retry_after}; \
                 see the lines before this one for the reason"
            ),
            StoreError::NotCharged(why) => write!(f, "Redis did not decide: {why}"),
            StoreError::Unknown(why) => write!(f, "Redis did not answer: {why}"),
            StoreError::Busy => f.write_str(
                "too many requests wait for Redis; it is too slow for what is asked of it",
            ),
            StoreError::NothingToDebit(why) => why.fmt(f),
            StoreError::Damaged(why) => write!(
                f,
                "a key of ours in Redis holds something else ({why}); choose another prefix, or \
                 delete the key"
            ),
        }
    }
}

impl std::error::Error for StoreError {}
