//! How often each rule said what.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Verdict;

use crate::per_core::{GROUPS, group};

/// How often a rule said what, since the gate was opened; it outlives reloads.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct RuleCounts {
    /// Let pass at once.
    pub allowed: u64,
    /// Let pass later.
    pub delayed: u64,
    /// Refused, for a time or for ever.
    pub denied: u64,
    /// Would have refused, but is in shadow.
    pub shadow_denied: u64,
}

impl std::ops::AddAssign for RuleCounts {
    fn add_assign(&mut self, other: RuleCounts) {
        self.allowed += other.allowed;
        self.delayed += other.delayed;
        self.denied += other.denied;
        self.shadow_denied += other.shadow_denied;
    }
}

/// The counts of a rule, one for each group of threads.
#[derive(Debug, Default)]
pub(crate) struct Counts([Apart; GROUPS]);

/// One group's part, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Apart {
    allowed: AtomicU64,
    delayed: AtomicU64,
    denied: AtomicU64,
    shadow_denied: AtomicU64,
}

impl Counts {
    pub(crate) fn add(&self, verdict: Verdict, is_shadow: bool) {
        let apart = &self.0[group()];
        let count = match (verdict, is_shadow) {
            (Verdict::Allow, _) => &apart.allowed,
            (Verdict::Delay { .. }, _) => &apart.delayed,
            (_, false) => &apart.denied,
            (_, true) => &apart.shadow_denied,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> RuleCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut sum = RuleCounts::default();
        for apart in &self.0 {
            sum += RuleCounts {
                allowed: read(&apart.allowed),
                delayed: read(&apart.delayed),
                denied: read(&apart.denied),
                shadow_denied: read(&apart.shadow_denied),
            };
        }
        sum
    }
}
