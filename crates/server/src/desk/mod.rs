//! What all doors ask: one gate, one guard, and what is held for callers.

mod held;
mod id;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_gate::{Gate, Reloaded, Watch};
use tidegate_store::ManualClock;

use crate::auth::Guard;
use crate::body::Budget;
use crate::metrics::Metrics;
use crate::settings::Bounds;
use crate::trace::Traces;

pub(crate) use self::held::{Held, HeldFor};
pub(crate) use self::id::Id;

/// What all doors ask.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) gate: Gate,
    pub(crate) guard: Guard,
    pub(crate) held: Held,
    pub(crate) metrics: Metrics,
    pub(crate) traces: Traces,
    /// The clock that somebody else moves, in tests.
    pub(crate) manual: Option<Arc<ManualClock>>,
    /// Where the policy is, if it is in a file.
    pub(crate) policy: Option<PathBuf>,
    pub(crate) bounds: Bounds,
    /// What bodies of requests take until they are read.
    pub(crate) bodies: Budget,
    is_ready: AtomicBool,
}

impl Desk {
    pub(crate) fn new(
        gate: Gate,
        guard: Guard,
        manual: Option<Arc<ManualClock>>,
        policy: Option<PathBuf>,
        bounds: Bounds,
    ) -> Desk {
        let (held, metrics, bodies) = (Held::default(), Metrics::default(), Budget::default());
        let (traces, is_ready) = (Traces::default(), AtomicBool::new(false));
        Desk { gate, guard, held, metrics, traces, manual, policy, bounds, bodies, is_ready }
    }

    /// Whether traffic should be sent here.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ready(&self, is_ready: bool) {
        self.is_ready.store(is_ready, Ordering::Relaxed);
    }

    /// Puts the policy's file in force as it is now; nothing, if it is not in a file. To read a
    /// pipe again would be to wait for whoever writes to it.
    pub(crate) fn reload(&self) -> Option<Reloaded> {
        let policy = self.policy.as_deref().filter(|it| !it.exists() || Watch::can_be_of(it))?;
        let reloaded = self.gate.reload(policy);
        self.metrics.reloaded(matches!(reloaded, Reloaded::Done { .. }));
        Some(reloaded)
    }
}
