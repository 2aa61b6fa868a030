//! A rule of a fleet's limiter: whom it counts.

use crate::fleet::SharedRule;
use tidegate_store::TextKey as FleetKey;

/// Whom a rule counts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scope {
    /// Everybody together: one key for all.
    All(FleetKey),
    /// Each key by itself.
    Each,
}

/// A rule that requests call by its name.
pub(super) struct NamedRule {
    pub(super) shared: SharedRule,
    pub(super) scope: Scope,
}

impl NamedRule {
    pub(super) fn name(&self) -> &str {
        self.shared.name()
    }
}
