//! Building a shaper.

use std::sync::Arc;

use tidegate_core::{Kind, Policy, Quota, Span};

use super::Shaper;
use super::line::Lines;
use crate::clock::{Clock, SystemClock};
use crate::key::Keys;
use crate::limiter::BuildError;
use crate::sync::Mutex;

/// Builds a [`Shaper`].
#[derive(Debug)]
#[must_use]
pub struct ShaperBuilder {
    quota: Quota,
    longest_wait: Span,
    keys_max: usize,
    clock: Option<Arc<dyn Clock>>,
}

impl ShaperBuilder {
    /// More partners than anybody has.
    const KEYS_MAX: usize = 65_536;

    pub(super) fn new(quota: Quota) -> ShaperBuilder {
        let keys_max = ShaperBuilder::KEYS_MAX;
        ShaperBuilder { quota, longest_wait: Span::MAX, keys_max, clock: None }
    }

    /// How long a call waits at most; what would wait for longer is refused at once. Without it,
    /// for as long as the queue is.
    pub fn longest_wait(mut self, wait: impl Into<Span>) -> ShaperBuilder {
        self.longest_wait = wait.into();
        self
    }

    /// How many keys have calls in the queue, or had until lately, at most; 65,536 unless set. A
    /// new key above that is refused until one of the others is done.
    pub fn keys_max(mut self, keys: usize) -> ShaperBuilder {
        self.keys_max = keys;
        self
    }

    /// The clock to go by: a [`ManualClock`](crate::ManualClock) in tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> ShaperBuilder {
        self.clock = Some(clock);
        self
    }

    /// The shaper, or what is wrong with its quota.
    pub fn build(self) -> Result<Shaper, BuildError> {
        let policy = Policy::new(Kind::LeakyQueue, self.quota)
            .map_err(|error| BuildError::Quota { name: "shaper".into(), error })?;
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let lines = Mutex::new(Lines::new(self.keys_max));
        let (longest_wait, keys) = (self.longest_wait, Keys::new());
        Ok(Shaper { policy, longest_wait, keys, clock, lines })
    }
}
