//! Opening a gate: its policy, its store, its clock.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate_config::{LoadError, Loaded, Report, Rules};
use tidegate_core::adapt::{Settings, SettingsError};
use tidegate_core::{Span, Tick};
use tidegate_store::{
    Clock, FollowsNodes, MemoryStore, Restored, RestoredRule, Store, StoreFailure, SystemClock,
};

use crate::adhoc::AdhocLimits;
use crate::gate::{Gate, Home, Inner};
use crate::in_force::PolicyInForce;
use crate::load::Adapt;
use crate::orphans::OrphanLimits;
use crate::per_core::PolicyRefs;
use crate::secret::KeySecret;
use crate::snapshot::{self, SnapshotProblem, SnapshotRestored};

/// Opens a [`Gate`].
#[derive(Debug, Default)]
#[must_use]
pub struct GateBuilder {
    policy: Option<Policy>,
    memory: Option<MemoryStore>,
    clock: Option<Arc<dyn Clock>>,
    restore: Option<PathBuf>,
    adaptive: Settings,
    secret: Option<KeySecret>,
    store: Option<Arc<dyn Store>>,
    beat: Beat,
}

/// How often a node says that it is there; `None` is never.
#[derive(Debug)]
struct Beat(Option<Duration>);

#[derive(Debug)]
enum Policy {
    Path(PathBuf),
    Rules(Arc<Rules>),
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

    /// Rules that were read already; several gates may go by the same ones.
    pub fn rules(mut self, rules: impl Into<Arc<Rules>>) -> GateBuilder {
        self.policy = Some(Policy::Rules(rules.into()));
        self
    }

    /// A store in this process, with a cap of your choice.
    pub fn memory(mut self, store: MemoryStore) -> GateBuilder {
        self.memory = Some(store);
        self
    }

    /// A store of your choice, as Redis for a fleet. If the policy has a name, and a store in Redis
    /// was given no prefix, the names of keys begin with it: see `RedisStore::for_policy`.
    pub fn store(mut self, store: impl Store + 'static) -> GateBuilder {
        self.store = Some(Arc::new(store));
        self
    }

    /// How often this node tells those that share its store that it is there: every three seconds
    /// unless said. So nodes know how many share the quota while the store does not answer. `None`
    /// is never: then the policy's `nodes` is all that is known, and others do not count this one.
    pub fn beat_every(mut self, beat: Option<Duration>) -> GateBuilder {
        self.beat = Beat(beat);
        self
    }

    /// Reads the policy now, and not when the gate is opened: for what depends on it.
    pub fn read(self) -> Result<GateBuilder, OpenError> {
        let rules = match self.policy {
            None => return Err(OpenError::NoPolicy),
            Some(Policy::Path(path)) => warned(Rules::from_path(&path).map_err(OpenError::Policy)?),
            Some(Policy::Rules(rules)) => rules,
            Some(Policy::Text(text)) => warned(Rules::from_text(&text).map_err(OpenError::Text)?),
        };
        Ok(GateBuilder { policy: Some(Policy::Rules(rules)), ..self })
    }

    /// The name of the policy, if it has one and was [read](GateBuilder::read).
    pub fn policy_name(&self) -> Option<&str> {
        match &self.policy {
            Some(Policy::Rules(rules)) => rules.name(),
            _ => None,
        }
    }

    /// Names those who are counted by a hash with this secret: in Redis, where addresses and names
    /// would stand as they are, and keys of overrides in snapshots. Every node needs the same one.
    pub fn key_secret(mut self, secret: KeySecret) -> GateBuilder {
        self.secret = Some(secret);
        self
    }

    /// The clock to go by: a [`ManualClock`](tidegate_store::ManualClock) in tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> GateBuilder {
        self.clock = Some(clock);
        self
    }

    /// Begins with what was consumed as of a snapshot that [`Gate::save`] wrote; with nothing, if
    /// there is no file at `path`. A store in this process takes the snapshot's place in size only;
    /// with states in Redis the file says how many nodes there were, and nothing else.
    ///
    /// A file that is damaged, or that another version wrote, is an error of
    /// [`GateBuilder::open`]: nothing of it is used. [`SnapshotProblem::set_aside`] renames it.
    pub fn restore(mut self, path: impl AsRef<Path>) -> GateBuilder {
        self.restore = Some(path.as_ref().to_owned());
        self
    }

    /// The bounds within which limits follow the load; see [`Gate::load`] and [`Gate::let_in`].
    pub fn adaptive(mut self, settings: Settings) -> GateBuilder {
        self.adaptive = settings;
        self
    }

    /// The gate, or what is wrong with its policy or its snapshot.
    pub fn open(self) -> Result<Gate, OpenError> {
        let builder = self.read()?;
        let Some(Policy::Rules(rules)) = builder.policy else { return Err(OpenError::NoPolicy) };
        let clock = builder.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let store: Arc<dyn Store> = match builder.store {
            Some(store) => store.for_policy(rules.name()).unwrap_or(store),
            None => Arc::new(builder.memory.unwrap_or_default()),
        };
        let now = store.now(&*clock);
        let (store, began_with, limits) = match builder.restore {
            Some(path) => begin_with(&path, store, now)?,
            None => (store, None, Vec::new()),
        };
        let orphans = OrphanLimits::new(limits);
        let limits = orphans.present(now);
        let adapt = Adapt::new(builder.adaptive, clock.now()).map_err(OpenError::Adaptive)?;
        adapt.look_at(clock.now());
        let rules = (rules, adapt.factor());
        let home = Arc::new(Home { store, clock, secret: builder.secret });
        let first = PolicyInForce::new(rules, (None, &limits), &home, now);
        let (first, taken_over, prepared) = first.map_err(OpenError::Store)?;
        drop(prepared.commit());
        orphans.claimed(taken_over.went_on.iter().map(|name| &**name));
        let (reloading, turning, saving) = (Mutex::new(()), Mutex::new(()), Mutex::new(()));
        let current = ArcSwap::from_pointee(PolicyRefs::new(&Arc::new(first)));
        let adhoc = AdhocLimits::default();
        let inner =
            Inner { current, home, adhoc, adapt, reloading, turning, saving, orphans, began_with };
        let gate = Gate(Arc::new(inner));
        if let Some(every) = builder.beat.0 {
            let follower = Follower(Arc::downgrade(&gate.0));
            gate.0.store.count_nodes(every, Box::new(follower));
        }
        Ok(gate)
    }
}

impl Default for Beat {
    fn default() -> Beat {
        Beat(Some(Duration::from_secs(3)))
    }
}

/// A gate whose limits go by the number of nodes.
struct Follower(Weak<Inner>);

impl FollowsNodes for Follower {
    fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }

    fn follow(&self) -> Result<(), StoreFailure> {
        match self.0.upgrade().map(|inner| Gate(inner).scale()) {
            Some(Err(error)) => Err(StoreFailure::new(error.to_string())),
            Some(Ok(())) | None => Ok(()),
        }
    }
}

/// The rules, once what is odd about them has been logged.
fn warned(loaded: Loaded) -> Arc<Rules> {
    let Loaded { rules, report, .. } = loaded;
    if 0 < report.warnings() {
        tracing::warn!(warnings = %report, "the policy has warnings");
    }
    Arc::new(rules)
}

/// A store, the snapshot that it began with, and the limits of that.
type Begun = (Arc<dyn Store>, Option<SnapshotRestored>, Vec<RestoredRule>);

/// The store with what a snapshot knows, if there is one.
fn begin_with(path: &Path, store: Arc<dyn Store>, now: Tick) -> Result<Begun, OpenError> {
    let Some(memory) = store.memory() else {
        if store.is_shared()
            && let Some(nodes) = snapshot::load_nodes(path).map_err(OpenError::Snapshot)?
        {
            store.set_nodes(nodes);
        }
        return Ok((store, None, Vec::new()));
    };
    let loaded = snapshot::load(path, memory.keys_max()).map_err(OpenError::Snapshot)?;
    let Some(loaded) = loaded else { return Ok((store, None, Vec::new())) };
    let Restored { store, at, states: keys, rules } = loaded;
    let (path, behind) = (path.display(), at.since(now));
    tracing::info!(%path, keys, "the snapshot was restored");
    if Span::ZERO < behind {
        tracing::warn!(
            %path, %behind,
            "the clock is behind the snapshot: nothing that was consumed is paid off until it has \
             caught up; if it was wrong then, remove the snapshot and start again"
        );
    }
    Ok((Arc::new(store), Some(SnapshotRestored { keys, at, behind }), rules))
}

/// Why there is no gate, or no other policy.
#[non_exhaustive]
pub enum OpenError {
    /// The bounds for limits that follow the load are wrong.
    Adaptive(SettingsError),
    /// Nobody said by which policy to decide.
    NoPolicy,
    /// The policy cannot be read, or is wrong.
    Policy(LoadError),
    /// Another name cannot be put in force: what is counted in Redis is kept under the first.
    Renamed {
        /// The name of the policy in force.
        from: Option<Box<str>>,
        /// The other's.
        to: Option<Box<str>>,
    },
    /// The snapshot to begin with is damaged, or cannot be read.
    Snapshot(SnapshotProblem),
    /// The store cannot keep its rules.
    Store(StoreFailure),
    /// The policy is wrong.
    Text(Report),
}

/// As it is shown, since `main` prints an error so that it returns.
impl fmt::Debug for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Adaptive(error) => error.fmt(f),
            OpenError::NoPolicy => f.write_str("there is no policy: give a file or a text"),
            OpenError::Policy(error) => error.fmt(f),
            OpenError::Renamed { from, to } => {
                let name = |name: &Option<Box<str>>| match name {
                    Some(name) => format!("the name `{name}`"),
                    None => "no name".to_owned(),
                };
                write!(
                    f,
                    "the policy has {} now and had {}: what is counted in Redis is kept under \
                     that; restart every node to begin anew under the other",
                    name(to),
                    name(from)
                )
            }
            OpenError::Snapshot(problem) => problem.fmt(f),
            OpenError::Store(error) => error.fmt(f),
            OpenError::Text(report) => report.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}
