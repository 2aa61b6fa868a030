//! Groups of threads, for what every request writes to: one of it for all would go from processor
//! to processor with every request, and all would wait for it.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many groups of threads there are.
pub const GROUPS: usize = 4;

thread_local! {
    static GROUP: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % GROUPS
    };
}

/// The group that this thread is of.
#[inline]
pub fn group() -> usize {
    GROUP.with(|group| *group)
}
