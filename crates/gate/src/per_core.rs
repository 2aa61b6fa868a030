//! The policy in force, once for each group of threads: every request counts as one who uses it.

use std::ops::Deref;
use std::sync::Arc;

pub(crate) use tidegate_store::per_core::{GROUPS, group};

use crate::in_force::PolicyInForce;

/// A policy in force, as one group of threads has it: with a count of its own of those who do.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct PolicyRef(Arc<PolicyInForce>);

/// A [`PolicyRef`] for each group.
#[derive(Debug)]
pub(crate) struct PolicyRefs([Arc<PolicyRef>; GROUPS]);

impl PolicyRefs {
    pub(crate) fn new(in_force: &Arc<PolicyInForce>) -> PolicyRefs {
        PolicyRefs([(); GROUPS].map(|()| Arc::new(PolicyRef(Arc::clone(in_force)))))
    }

    /// That of this thread.
    #[inline]
    pub(crate) fn mine(&self) -> &Arc<PolicyRef> {
        &self.0[group()]
    }

    pub(crate) fn in_force(&self) -> &Arc<PolicyInForce> {
        &self.0[0].0
    }
}

impl Deref for PolicyRef {
    type Target = PolicyInForce;

    #[inline]
    fn deref(&self) -> &PolicyInForce {
        &self.0
    }
}
