//! How often each rule said what.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Verdict;

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

#[derive(Debug, Default)]
pub(crate) struct Counts {
    allowed: AtomicU64,
    delayed: AtomicU64,
    denied: AtomicU64,
    shadow_denied: AtomicU64,
}

impl Counts {
    pub(crate) fn add(&self, verdict: Verdict, is_shadow: bool) {
        let count = match (verdict, is_shadow) {
            (Verdict::Allow, _) => &self.allowed,
            (Verdict::Delay { .. }, _) => &self.delayed,
            (_, false) => &self.denied,
            (_, true) => &self.shadow_denied,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> RuleCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        RuleCounts {
            allowed: read(&self.allowed),
            delayed: read(&self.delayed),
            denied: read(&self.denied),
            shadow_denied: read(&self.shadow_denied),
        }
    }
}
