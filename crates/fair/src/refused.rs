//! Why somebody did not get his turn.

use std::fmt;

use tidegate_core::Span;
use tidegate_core::fair::Reason;

/// A request that was not served.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refused {
    /// Why.
    pub reason: Reason,
    /// When it is likely to be served in time; nothing while it is not known how fast others are.
    pub retry_after: Option<Span>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.retry_after {
            Some(span) => write!(f, "{}: try again in {span}", self.reason),
            None => write!(f, "{}: try again later", self.reason),
        }
    }
}

impl std::error::Error for Refused {}
