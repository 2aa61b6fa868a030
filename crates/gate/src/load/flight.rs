//! Requests that an application lets into its service, and what comes of them.

use std::sync::Arc;

use tidegate_core::Span;
use tidegate_core::adapt::{Outcome, Started};

use crate::gate::{Gate, Inner};

/// A request in the service. Say what came of it with [`InFlight::finish`]; dropped without that,
/// nobody waited for it any longer.
#[derive(Debug)]
#[must_use = "the request counts as in flight for as long as this is kept"]
pub struct InFlight {
    gate: Arc<Inner>,
    started: Option<Started>,
}

impl Gate {
    /// Lets a request into the service if as few are in flight as the controller finds right.
    /// `waited` is how long it stood in a queue of the application's; zero if there is none.
    ///
    /// This is beside what rules say: it moves a limit of its own, and the factor of rules marked
    /// `adaptive`.
    pub fn let_in(&self, waited: Span) -> Option<InFlight> {
        let now = self.0.clock.now();
        let started = self.0.adapt.state().start(now, waited);
        self.0.adapt.look_at(now);
        self.advance_to(now);
        Some(InFlight { gate: Arc::clone(&self.0), started: Some(started?) })
    }
}

impl InFlight {
    /// Takes note of what came of it.
    pub fn finish(mut self, outcome: Outcome) {
        self.end(outcome);
    }

    fn end(&mut self, outcome: Outcome) {
        let now = self.gate.clock.now();
        if let Some(started) = self.started.take() {
            self.gate.adapt.state().finish(now, started, outcome);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.end(Outcome::Abandoned);
    }
}
