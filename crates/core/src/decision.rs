//! What an algorithm answers.

use crate::tick::{Span, Tick};

/// The answer to one request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Decision {
    /// May it pass?
    pub verdict: Verdict,
    /// The most cells that could ever pass at once.
    pub limit: u32,
    /// How many more cells would pass right now.
    pub remaining: u32,
    /// How long until the key is as good as fresh, if nobody asks.
    pub reset_after: Span,
}

impl Decision {
    /// A verdict that no limit has spoken, so that there are no numbers.
    pub const fn of_no_limit(verdict: Verdict) -> Decision {
        Decision { verdict, limit: 0, remaining: 0, reset_after: Span::ZERO }
    }
}

/// Whether a request may pass, and if not, when it might.
///
/// The set is closed on purpose: every door has to say what it does with each of the four.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Verdict {
    /// It passes now, and has been charged.
    Allow,
    /// It passes, and has been charged, but should start only after this long.
    Delay {
        /// How long to hold it.
        by: Span,
    },
    /// It does not pass, and has not been charged.
    Deny {
        /// After this long, the request would pass if nobody else asks.
        retry_after: Span,
    },
    /// It costs more than the limit can ever hold: waiting does not help.
    Never,
}

impl Verdict {
    /// Whether the request was let through, now or later.
    pub const fn passes(self) -> bool {
        matches!(self, Verdict::Allow | Verdict::Delay { .. })
    }

    /// The verdict of two limits together: the harder word, and the longer wait.
    pub fn and(self, other: Verdict) -> Verdict {
        use Verdict::{Allow, Delay, Deny, Never};
        match (self, other) {
            (Never, _) | (_, Never) => Never,
            (Deny { retry_after: a }, Deny { retry_after: b }) => Deny { retry_after: a.max(b) },
            (deny @ Deny { .. }, _) | (_, deny @ Deny { .. }) => deny,
            (Delay { by: a }, Delay { by: b }) => Delay { by: a.max(b) },
            (delay @ Delay { .. }, _) | (_, delay @ Delay { .. }) => delay,
            (Allow, Allow) => Allow,
        }
    }
}

/// What was charged, and when: what a refund needs to find it again.
///
/// It cannot be copied, so one charge is refunded at most once.
#[derive(Debug, Eq, PartialEq)]
#[must_use = "keep it to refund the charge, or drop it to let the charge stand"]
pub struct Receipt {
    pub(crate) at: Tick,
    pub(crate) cost: u32,
}

impl Receipt {
    /// The receipt of `cost` cells charged at `at`, for stores that wrote it down somewhere.
    pub const fn new(at: Tick, cost: u32) -> Receipt {
        Receipt { at, cost }
    }

    /// When it was charged; for a queue, when its slot ends.
    pub const fn at(&self) -> Tick {
        self.at
    }

    /// How many cells were charged.
    pub const fn cost(&self) -> u32 {
        self.cost
    }
}
