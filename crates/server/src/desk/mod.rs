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
use crate::limits;
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

    /// Notes what came of a reload.
    pub(crate) fn reloaded(&self, reloaded: &Reloaded) {
        let is_done = matches!(reloaded, Reloaded::Done { .. });
        self.metrics.reloaded(is_done);
        if is_done {
            self.warn_of_responses();
        }
    }

    /// Says in the log what of the policy needs the response: no door is told it.
    pub(crate) fn warn_of_responses(&self) {
        let rules = self.gate.rules();
        let all = rules.needs_response();
        if all.is_empty() {
            return;
        }
        let names = all[..all.len().min(limits::NAMES_IN_WARNING_MAX)].join(", ");
        let more = match all.len() - all.len().min(limits::NAMES_IN_WARNING_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        tracing::warn!(
            "warning[needs-response]: {names}{more}: the response settles this, and no door is \
             told it; `counts_when` counts every request, and a cost stays its `default` \
             (`tidegate explain needs-response`)"
        );
    }

    /// Puts the policy's file in force as it is now; nothing, if it is not in a file. To read a
    /// pipe again would be to wait for whoever writes to it.
    pub(crate) fn reload(&self) -> Option<Reloaded> {
        let policy = self.policy.as_deref().filter(|it| !it.exists() || Watch::can_be_of(it))?;
        let reloaded = self.gate.reload(policy);
        self.reloaded(&reloaded);
        Some(reloaded)
    }
}
