//! How a store is set up.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tidegate_store::Clock;
use tokio::runtime::Handle;

use super::RedisStore;
use super::prefix::{Prefix, USUAL_PREFIX, prefix_of};
use crate::error::ConnectError;
use crate::flat::Sink as _;
use crate::gather::{Gather, Setup};
use crate::script::SLACK_MILLIS;
use crate::settings::Settings;
use crate::wire::{CallError, Refusal, Script, ScriptCall, Wire, slot_of};

/// A store that is not connected yet.
#[derive(Clone, Debug)]
#[must_use = "nothing is connected yet"]
pub struct StoreBuilder {
    settings: Settings,
    prefix: Option<Box<str>>,
    deadline: Duration,
    judged_by: Option<Arc<dyn Clock>>,
}

/// What every script does, on a key of ours: a user that may not do it sees the error at once.
static TRY: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "redis.call('MGET', KEYS[1]) redis.call('GET', KEYS[1]) redis.call('EXISTS', KEYS[1]) \
         redis.call('PSETEX', KEYS[1], 1, '') redis.call('DEL', KEYS[1]) \
         redis.call('SET', KEYS[1], 1, 'PX', 1, 'GET') redis.call('INCRBY', KEYS[1], 1) \
         redis.call('PEXPIREAT', KEYS[1], 1) return 1",
    )
});

/// Checks that our user may do what scripts do. Whatever else is wrong shows when it matters.
async fn may_write(wire: &Wire, prefix: &str) -> Result<(), ConnectError> {
    let name = format!("{prefix}{{%}}try");
    let slot = slot_of(name.as_bytes());
    let mut call = ScriptCall::new(&TRY, slot, 1, name.len());
    call.push(name.as_bytes());
    let lane = wire.lane_of(slot);
    for result in wire.run(lane, vec![call], Duration::from_secs(1)).await {
        if let Err(CallError::NotRun(Refusal::NoPermission(reason))) = result {
            let address = wire.health().nodes.into_iter().map(|node| node.address).next();
            let (address, reason) = (address.unwrap_or_default(), reason.to_string());
            return Err(ConnectError::NoPermission { address, reason });
        }
    }
    Ok(())
}

impl StoreBuilder {
    /// Long enough for a server and a process that share a busy machine, where one of a thousand
    /// answers takes 80 ms; short enough for a client.
    const DEADLINE: Duration = Duration::from_millis(100);
    /// [`SLACK_MILLIS`] for a clock of a test's own, which may stand still for long.
    const TEST_SLACK_MILLIS: u64 = 86_400_000;

    pub(super) fn new(settings: Settings) -> StoreBuilder {
        let (prefix, deadline) = (None, StoreBuilder::DEADLINE);
        StoreBuilder { settings, prefix, deadline, judged_by: None }
    }

    /// What the name of every key starts with; `tg:` unless set; short, because every key has it.
    ///
    /// Stores with different prefixes share a server without seeing each other.
    pub fn prefix(mut self, prefix: &str) -> StoreBuilder {
        // A brace would move the keys of a tenant apart.
        self.prefix = Some(prefix.chars().filter(|it| !matches!(it, '{' | '}')).collect());
        self
    }

    /// The prefix that goes with a name: `tg:NAME:`. Applications of different names share a server
    /// without seeing each other, and a user for `tg:*` serves them all.
    pub fn named(self, name: &str) -> StoreBuilder {
        self.prefix(&prefix_of(name))
    }

    /// How long a decision may take; 100 ms unless set.
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

    /// Fails to connect while nobody answers. See [`Settings::required`].
    pub fn required(mut self) -> StoreBuilder {
        self.settings = self.settings.required();
        self
    }

    /// Connects, and checks that the servers will do. Where nobody answers yet, the store begins
    /// without, and takes them into use when they are there.
    pub async fn connect(self) -> Result<RedisStore, ConnectError> {
        let wire = Wire::connect(&self.settings).await?;
        let prefix = self.prefix.as_deref().unwrap_or(USUAL_PREFIX);
        if wire.health().is_connected() {
            may_write(&wire, prefix).await?;
        }
        let slack_millis = match self.judged_by {
            Some(_) => StoreBuilder::TEST_SLACK_MILLIS,
            None => SLACK_MILLIS,
        };
        let (judged_by, runtime) = (self.judged_by, Handle::current());
        let gather = Gather::new(wire, Setup { judged_by, slack_millis, runtime });
        let (gather, is_given) = (Arc::new(gather), self.prefix.is_some());
        let prefix = Prefix { text: prefix.into(), is_given };
        Ok(RedisStore { gather, prefix, deadline: self.deadline.into() })
    }
}
