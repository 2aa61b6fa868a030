//! What every request writes to, once for each group of threads: one count for all would go from
//! processor to processor with every request, and all would wait for it.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::generation::Generation;

/// How many groups of threads there are.
pub(crate) const GROUPS: usize = 4;

thread_local! {
    static GROUP: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % GROUPS
    };
}

/// The group that this thread is of.
#[inline]
pub(crate) fn group() -> usize {
    GROUP.with(|group| *group)
}

/// A policy in force, as one group of threads has it: with a count of its own of those who do.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Lease(Arc<Generation>);

/// The same for each group.
#[derive(Debug)]
pub(crate) struct Leases([Arc<Lease>; GROUPS]);

impl Leases {
    pub(crate) fn new(generation: &Arc<Generation>) -> Leases {
        Leases([(); GROUPS].map(|()| Arc::new(Lease(Arc::clone(generation)))))
    }

    /// That of this thread.
    #[inline]
    pub(crate) fn mine(&self) -> &Arc<Lease> {
        &self.0[group()]
    }

    pub(crate) fn generation(&self) -> &Arc<Generation> {
        &self.0[0].0
    }
}

impl Deref for Lease {
    type Target = Generation;

    #[inline]
    fn deref(&self) -> &Generation {
        &self.0
    }
}
