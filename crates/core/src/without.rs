//! What a limit does while the store that keeps its states does not answer.

/// What a limit does while its store does not answer.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum WithoutStore {
    /// It refuses.
    Closed,
    /// It decides by the same policy in this process, at this node's share of the quota.
    ///
    /// With as many nodes as there are, all of them together stay within the quota. The share of a
    /// window, a log or a number of permits is rounded down, but is never less than one cell; the
    /// share of a bucket is never slower than one cell in 366 days.
    Local {
        /// How many nodes share the quota; zero counts as one.
        nodes: u32,
    },
    /// It lets pass: nothing is limited until the store is back.
    Open,
}
