//! What comes of asking for a slot: the same in this process and in a fleet.

use std::fmt;

use tidegate_core::{Decision, Span, Verdict};

use crate::by::By;

/// A slot whose time has come: the call is to be sent now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Slot {
    /// How long it has waited, from when it asked.
    pub waited: Span,
    /// By what it was decided.
    pub by: By,
}

/// Why there is no slot for a call. It has not been counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum NoSlot {
    /// The queue is full, or the wait longer than the call may wait.
    Refused {
        /// After this long, the call gets a slot in time if nobody else asks.
        retry_after: Span,
        /// By what it was decided.
        by: By,
    },
    /// It costs more than the queue can ever hold, or its key is too long: waiting does not help.
    Never,
}

impl Slot {
    /// A slot that has come `waited` after it was asked for.
    pub const fn new(waited: Span, by: By) -> Slot {
        Slot { waited, by }
    }
}

impl NoSlot {
    /// What a decision about a call means that may wait for at most `within`: how long it waits, or
    /// why it does not.
    ///
    /// `decision` is that of a peek: its numbers are those before the call is charged.
    pub fn judge(decision: Decision, within: Span, by: By) -> Result<Span, NoSlot> {
        let by_now = match decision.verdict {
            Verdict::Never => return Err(NoSlot::Never),
            // Time pays a queue until it is empty, and that is when the next one starts.
            Verdict::Deny { .. } => decision.reset_after,
            Verdict::Delay { by } => by,
            Verdict::Allow => Span::ZERO,
        };
        let too_long = Span::from_micros(by_now.get().saturating_sub(within.get()));
        match decision.verdict {
            Verdict::Deny { retry_after } => {
                Err(NoSlot::Refused { retry_after: retry_after.max(too_long), by })
            }
            _ if Span::ZERO < too_long => Err(NoSlot::Refused { retry_after: too_long, by }),
            _ => Ok(by_now),
        }
    }
}

impl fmt::Display for NoSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoSlot::Refused { retry_after, .. } => {
                write!(f, "no slot in time: try again in {retry_after}, or allow a longer wait")
            }
            NoSlot::Never => f.write_str(
                "no slot ever: the call costs more than the queue holds, or its key is too long; \
                 make it smaller, or give the quota a larger burst",
            ),
        }
    }
}

impl std::error::Error for NoSlot {}
