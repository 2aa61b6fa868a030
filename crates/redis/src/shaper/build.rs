//! Building a fleet's shaper.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Grains, Kind, Policy, Quota, Span};
use tidegate_store::{Clock, SystemClock};

use super::{FleetShaper, Inner};
use crate::fleet::{Fleet, FleetChangeError};
use crate::limiter::FleetBuildError;
use crate::settings::Settings;
use crate::store::RedisStore;
use tidegate_core::WithoutStore;

/// Builds a [`FleetShaper`].
#[derive(Debug)]
#[must_use]
pub struct FleetShaperBuilder {
    name: Box<str>,
    quota: Quota,
    longest_wait: Span,
    without: WithoutStore,
    deadline: Option<Duration>,
    clock: Option<Arc<dyn Clock>>,
}

impl FleetShaperBuilder {
    pub(super) fn new(name: &str, quota: Quota) -> FleetShaperBuilder {
        FleetShaperBuilder {
            name: name.into(),
            quota,
            longest_wait: Span::MAX,
            without: WithoutStore::Closed,
            deadline: None,
            clock: None,
        }
    }

    /// How long a call waits at most; what would wait for longer is refused at once. Without it,
    /// for as long as the queue is.
    pub fn longest_wait(mut self, wait: impl Into<Span>) -> FleetShaperBuilder {
        self.longest_wait = wait.into();
        self
    }

    /// What is done while Redis does not answer. Without it, calls are refused: nobody then knows
    /// what the other nodes send.
    pub fn without_store(mut self, without: WithoutStore) -> FleetShaperBuilder {
        self.without = without;
        self
    }

    /// How long asking Redis may take; 100 ms unless set.
    pub fn deadline(mut self, deadline: Duration) -> FleetShaperBuilder {
        self.deadline = Some(deadline);
        self
    }

    /// The clock by which calls wait: a [`ManualClock`](tidegate_store::ManualClock) in tests,
    /// together with [`StoreBuilder::judged_by`](crate::StoreBuilder::judged_by).
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> FleetShaperBuilder {
        self.clock = Some(clock);
        self
    }

    /// Connects to `url`, with everything else as it usually is.
    pub async fn connect(self, url: &str) -> Result<FleetShaper, FleetBuildError> {
        let settings = Settings::from_url(url).map_err(FleetBuildError::Connect)?;
        let store = RedisStore::builder(settings).connect().await;
        self.store(store.map_err(FleetBuildError::Connect)?)
    }

    /// The shaper on a store that is connected already.
    pub fn store(self, store: RedisStore) -> Result<FleetShaper, FleetBuildError> {
        let wrong = |name: &str, error| FleetBuildError::Rule(name.into(), error);
        let policy = Policy::new(Kind::LeakyQueue, self.quota)
            .map_err(|error| wrong(&self.name, FleetChangeError::Quota(error)))?;
        let store = match self.deadline {
            Some(deadline) => store.within(deadline),
            None => store,
        };
        let fleet = Fleet::new(store);
        let rule = fleet.rule(&self.name, policy, self.without);
        let rule = rule.map_err(|error| wrong(&self.name, error))?;
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let (longest_wait, fullest) = (self.longest_wait, policy.grains().map_or(Span::MAX, fills));
        Ok(FleetShaper { inner: Arc::new(Inner { fleet, rule, longest_wait, fullest, clock }) })
    }
}

/// How long a full queue takes to empty.
fn fills(grains: &Grains) -> Span {
    let burst = u128::from(grains.burst()) * u128::from(grains.cell());
    Span::from_micros(u64::try_from(burst.div_ceil(grains.tick().into())).unwrap_or(u64::MAX))
}
