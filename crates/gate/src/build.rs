//! Opening a gate: its policy, its store, its clock.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tidegate_config::{LoadError, Report, Rules};
use tidegate_store::{Clock, MemoryStore, SystemClock};

use crate::gate::{Gate, Inner};
use crate::generation::Generation;
use crate::plain::Book;
use crate::store::{AnyStore, StoreFailure};

/// Opens a [`Gate`].
#[derive(Debug, Default)]
#[must_use]
pub struct GateBuilder {
    policy: Option<Policy>,
    memory: Option<MemoryStore>,
    clock: Option<Arc<dyn Clock>>,
    #[cfg(feature = "redis")]
    fleet: Option<tidegate_redis::Fleet>,
}

#[derive(Debug)]
enum Policy {
    Path(PathBuf),
    Rules(Box<Rules>),
    Text(String),
}

impl GateBuilder {
    /// The policy file, or a folder of them.
    pub fn file(mut self, path: impl AsRef<Path>) -> GateBuilder {
        self.policy = Some(Policy::Path(path.as_ref().to_owned()));
        self
    }

    /// A policy in YAML.
    pub fn text(mut self, policy: &str) -> GateBuilder {
        self.policy = Some(Policy::Text(policy.to_owned()));
        self
    }

    /// Rules that were read already.
    pub fn rules(mut self, rules: Rules) -> GateBuilder {
        self.policy = Some(Policy::Rules(Box::new(rules)));
        self
    }

    /// A store in this process, with a cap of your choice.
    pub fn memory(mut self, store: MemoryStore) -> GateBuilder {
        self.memory = Some(store);
        self
    }

    /// States in Redis, shared by a fleet.
    #[cfg(feature = "redis")]
    pub fn fleet(mut self, fleet: tidegate_redis::Fleet) -> GateBuilder {
        self.fleet = Some(fleet);
        self
    }

    /// The clock to go by: a [`ManualClock`](tidegate_store::ManualClock) in tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> GateBuilder {
        self.clock = Some(clock);
        self
    }

    /// The gate, or what is wrong with its policy.
    pub fn open(self) -> Result<Gate, OpenError> {
        let rules = match self.policy {
            None => return Err(OpenError::NoPolicy),
            Some(Policy::Path(path)) => Rules::from_path(&path).map_err(OpenError::Policy)?.rules,
            Some(Policy::Rules(rules)) => *rules,
            Some(Policy::Text(text)) => Rules::from_text(&text).map_err(OpenError::Text)?.rules,
        };
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let memory = self.memory.unwrap_or_default();
        #[cfg(feature = "redis")]
        let store = self.fleet.map_or(AnyStore::Here(memory), AnyStore::Fleet);
        #[cfg(not(feature = "redis"))]
        let store = AnyStore::Here(memory);
        let now = store.now(&*clock);
        let first = Generation::new(rules, None, &store, now).map_err(OpenError::Store)?;
        let (current, reloading) = (ArcSwap::from_pointee(first), std::sync::Mutex::new(()));
        Ok(Gate(Arc::new(Inner { current, store, clock, plain: Book::default(), reloading })))
    }
}

/// Why there is no gate, or no other policy.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Nobody said by which policy to decide.
    NoPolicy,
    /// The policy cannot be read, or is wrong.
    Policy(LoadError),
    /// The store cannot keep its rules.
    Store(StoreFailure),
    /// The policy is wrong.
    Text(Report),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::NoPolicy => f.write_str("there is no policy: give a file or a text"),
            OpenError::Policy(error) => error.fmt(f),
            OpenError::Store(error) => error.fmt(f),
            OpenError::Text(report) => report.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}
