//! A queue in numbers.

use tidegate_core::fair::Reason;

/// Why requests are refused, in the order of what is counted.
pub(crate) const REASONS: [Reason; 7] = [
    Reason::Full,
    Reason::FlowFull,
    Reason::TooLate,
    Reason::PushedOut,
    Reason::Expired,
    Reason::Shed,
    Reason::TooWide,
];

/// A queue in numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stats {
    /// Requests that wait.
    pub waiting: u32,
    /// Cells that are out; none for a rate, and requests where their number is found out.
    pub in_flight: u64,
    /// Cells that there are, or requests.
    pub limit: u32,
    /// Tenants that are remembered, and groups of them: those who wait, have waited or still owe.
    /// While there is room for all, most are not looked at one by one.
    pub flows: usize,
    /// Requests that have started.
    pub started: u64,
    /// Requests that were refused, by reason.
    pub refused: [(Reason, u64); REASONS.len()],
}
