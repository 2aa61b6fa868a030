//! Policies in plain numbers, for stores that decide elsewhere.

use crate::quota::Grains;
use crate::tick::{Span, Tick};

/// What a policy's arithmetic runs on. Policies of the same shape read each other's states.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Shape {
    /// A fixed window of a calendar: this one, and the one after it.
    Calendar {
        /// The most cells in a window.
        limit: u32,
        /// Where the first starts, where the second does, and where that ends.
        boundaries: [Tick; 3],
    },
    /// A fixed window.
    FixedWindow {
        /// The most cells in a window.
        limit: u32,
        /// The windows' length.
        per: Span,
    },
    /// Token bucket, GCRA and leaky bucket.
    Line(Grains),
    /// Sliding log and concurrency.
    Log {
        /// The most cells among the events of a period.
        limit: u32,
        /// How long an event counts.
        per: Span,
    },
    /// A sliding window.
    SlidingWindow {
        /// The most cells in a window, by the estimate.
        limit: u32,
        /// The windows' length.
        per: Span,
    },
}
