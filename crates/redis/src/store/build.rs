//! How a store is set up.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::Clock;

use super::RedisStore;
use crate::error::ConnectError;
use crate::gather::{Gather, Setup};
use crate::settings::Settings;
use crate::wire::Wire;

/// A store that is not connected yet.
#[derive(Clone, Debug)]
#[must_use = "nothing is connected yet"]
pub struct StoreBuilder {
    settings: Settings,
    prefix: Box<str>,
    deadline: Duration,
    judged_by: Option<Arc<dyn Clock>>,
}

impl StoreBuilder {
    /// Long enough for a busy server nearby, short enough for whoever waits.
    const DEADLINE: Duration = Duration::from_millis(20);
    /// States are kept for a second longer than they count: clocks of primary and replica differ.
    const SLACK_MILLIS: u64 = 1_000;
    /// The same for a clock of a test's own, which may stand still for long.
    const TEST_SLACK_MILLIS: u64 = 86_400_000;

    pub(super) fn new(settings: Settings) -> StoreBuilder {
        let (prefix, deadline) = ("tg:".into(), StoreBuilder::DEADLINE);
        StoreBuilder { settings, prefix, deadline, judged_by: None }
    }

    /// What the name of every key starts with; `tg:` unless set; short, because every key has it.
    ///
    /// Stores with different prefixes share a server without seeing each other.
    pub fn prefix(mut self, prefix: &str) -> StoreBuilder {
        // A brace would move the keys of a tenant apart.
        self.prefix = prefix.chars().filter(|it| !matches!(it, '{' | '}')).collect();
        self
    }

    /// How long a decision may take; 20 ms unless set.
    pub fn deadline(mut self, deadline: Duration) -> StoreBuilder {
        self.deadline = deadline;
        self
    }

    /// Has the scripts judge by this clock instead of their server's: for tests that do not sleep.
    ///
    /// States are then kept for a day longer than they count, since servers forget by their own.
    pub fn judged_by(mut self, clock: Arc<dyn Clock>) -> StoreBuilder {
        self.judged_by = Some(clock);
        self
    }

    /// Connects, and checks that the servers will do.
    pub async fn connect(self) -> Result<RedisStore, ConnectError> {
        let wire = Wire::connect(&self.settings).await?;
        let slack_millis = match self.judged_by {
            Some(_) => StoreBuilder::TEST_SLACK_MILLIS,
            None => StoreBuilder::SLACK_MILLIS,
        };
        let gather = Gather::new(wire, Setup { judged_by: self.judged_by, slack_millis });
        let (gather, prefix) = (Arc::new(gather), self.prefix.into());
        Ok(RedisStore { gather, prefix, deadline: self.deadline })
    }
}
