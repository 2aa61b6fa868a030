//! Building a queue.

use std::fmt;
use std::sync::Arc;

use tidegate_core::adapt::{self, Controller, SettingsError};
use tidegate_core::fair::Settings;
use tidegate_core::{Kind, Policy, Tick};
use tidegate_store::{Clock, SystemClock};

use crate::FairQueue;
use crate::resource::Resource;
use crate::shared::Shared;

/// Builds a [`FairQueue`].
#[derive(Debug)]
#[must_use]
pub struct FairQueueBuilder {
    resource: Resource,
    settings: Settings,
    clock: Option<Arc<dyn Clock>>,
}

impl FairQueueBuilder {
    pub(crate) fn in_flight(limit: u32) -> FairQueueBuilder {
        let resource = Resource::in_flight(limit);
        FairQueueBuilder { resource, settings: Settings::default(), clock: None }
    }

    pub(crate) fn rate(policy: Policy) -> Result<FairQueueBuilder, NotARate> {
        let resource = Resource::rate(policy)?;
        Ok(FairQueueBuilder { resource, settings: Settings::default(), clock: None })
    }

    pub(crate) fn adaptive(settings: adapt::Settings) -> Result<FairQueueBuilder, SettingsError> {
        let controller = Controller::new(settings, Tick::default())?;
        let resource = Resource::adaptive(controller);
        Ok(FairQueueBuilder { resource, settings: Settings::default(), clock: None })
    }

    /// Levels, bounds, floors and shedding.
    pub fn settings(mut self, settings: Settings) -> FairQueueBuilder {
        self.settings = settings;
        self
    }

    /// The clock to go by: a [`ManualClock`](tidegate_store::ManualClock) in tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> FairQueueBuilder {
        self.clock = Some(clock);
        self
    }

    /// The queue.
    pub fn build(self) -> FairQueue {
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        FairQueue { shared: Shared::new(self.resource, self.settings, clock) }
    }
}

/// A policy that cannot be handed out cell by cell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NotARate {
    /// The policy's algorithm.
    pub kind: Kind,
}

impl fmt::Display for NotARate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Concurrency => f.write_str("use `FairQueue::in_flight` for so many at a time"),
            Kind::LeakyQueue => f.write_str(
                "`leaky-queue` hands out turns by itself: use `token-bucket` with a burst of one",
            ),
            _ => f.write_str("this queue counts what is in flight: build one with `rate`"),
        }
    }
}

impl std::error::Error for NotARate {}
