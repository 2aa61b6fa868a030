//! The policy in force, once for each group of threads: every request counts as one who uses it.

use std::ops::Deref;
use std::sync::Arc;

pub(crate) use tidegate_store::apart::{GROUPS, group};

use crate::generation::Generation;

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
