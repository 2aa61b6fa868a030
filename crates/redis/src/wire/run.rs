//! Which data it is that a charge went to.
//!
//! A server that was restarted, or another one that has taken its place, may know nothing of what
//! was charged before; then a refund would give away what others have charged since. So runs are
//! counted: whenever a lane connects to a server that says another `run_id` than the last one did,
//! or none, a new one begins, for all lanes. That errs on the side of less.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A time during which no server was known to lose its data.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct ServerRun(u64);

/// Counts them, for all lanes.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs(Arc<AtomicU64>);

impl Runs {
    pub(super) fn now(&self) -> ServerRun {
        ServerRun(self.0.load(Ordering::Acquire))
    }

    /// To be called before anything can be sent to the server whose run it is.
    pub(super) fn begin(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}
