//! Where a gate remembers: in this process, or in Redis for a fleet.

use std::fmt;

use tidegate_config::WithoutStore;
use tidegate_core::{Change, Policy, Tick};
use tidegate_store::{Clock, MemoryStore, Rule, TooManyRules};

/// A store of either kind.
#[derive(Debug)]
#[cfg_attr(
    feature = "redis",
    expect(
        clippy::large_enum_variant,
        reason = "there is one of it, and it is asked all the time"
    )
)]
pub(crate) enum AnyStore {
    #[cfg(feature = "redis")]
    Fleet(tidegate_redis::Fleet),
    Here(MemoryStore),
}

/// A rule of either kind.
#[derive(Clone, Debug)]
pub(crate) enum StoreRule {
    #[cfg(feature = "redis")]
    Fleet(tidegate_redis::SharedRule),
    Here(Rule),
}

/// A rule that is wanted: a new one, or what another becomes.
#[derive(Debug)]
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "some of it only Redis asks for"))]
pub(crate) struct Wanted<'k> {
    pub(crate) name: String,
    pub(crate) policy: Policy,
    pub(crate) without: WithoutStore,
    /// What it was until now: what was consumed is kept.
    pub(crate) before: Option<&'k StoreRule>,
    /// How it becomes what is wanted.
    pub(crate) change: Change,
    /// What its clients had besides: the most that was consumed counts, or in Redis the latest.
    pub(crate) besides: Vec<StoreRule>,
}

/// Why a store cannot do what is wanted of it.
#[derive(Debug)]
pub struct StoreFailure(Box<str>);

impl StoreFailure {
    pub(crate) fn new(message: impl Into<Box<str>>) -> StoreFailure {
        StoreFailure(message.into())
    }
}

impl AnyStore {
    /// The tick by which it counts.
    pub(crate) fn now(&self, clock: &dyn Clock) -> Tick {
        match self {
            #[cfg(feature = "redis")]
            AnyStore::Fleet(fleet) => fleet.server_now(),
            AnyStore::Here(_) => clock.now(),
        }
    }

    /// Whether a policy of this name counts where it counts now.
    pub(crate) fn takes_policy(&self, name: Option<&str>) -> bool {
        let _ = name;
        match self {
            #[cfg(feature = "redis")]
            AnyStore::Fleet(fleet) => {
                let store = fleet.store();
                store.for_policy(name).prefix() == store.prefix()
            }
            AnyStore::Here(_) => true,
        }
    }

    /// The store, if it is in this process.
    #[inline]
    #[cfg_attr(
        not(feature = "redis"),
        expect(clippy::unnecessary_wraps, reason = "with Redis there is another kind")
    )]
    pub(crate) fn here(&self) -> Option<&MemoryStore> {
        match self {
            #[cfg(feature = "redis")]
            AnyStore::Fleet(_) => None,
            AnyStore::Here(store) => Some(store),
        }
    }

    pub(crate) fn rule(
        &self,
        name: &str,
        policy: Policy,
        without: WithoutStore,
    ) -> Result<StoreRule, StoreFailure> {
        let _ = (name, without);
        match self {
            #[cfg(feature = "redis")]
            AnyStore::Fleet(fleet) => {
                let made = fleet.rule(name, policy, to_fleet(without));
                made.map(StoreRule::Fleet).map_err(|error| StoreFailure(error.to_string().into()))
            }
            AnyStore::Here(store) => Ok(StoreRule::Here(store.rule(policy)?)),
        }
    }

    /// All rules that are wanted, in their order. There is room for all of them, or nothing has
    /// happened.
    pub(crate) fn put(
        &self,
        wanted: &[Wanted<'_>],
        now: Tick,
    ) -> Result<Vec<StoreRule>, StoreFailure> {
        match self {
            #[cfg(feature = "redis")]
            AnyStore::Fleet(fleet) => put_in_fleet(fleet, wanted),
            AnyStore::Here(store) => {
                let besides: Vec<Vec<Rule>> = wanted.iter().map(Wanted::besides_here).collect();
                let here =
                    wanted.iter().zip(&besides).map(|(it, besides)| tidegate_store::Wanted {
                        policy: it.policy,
                        before: it.before.and_then(StoreRule::here),
                        change: it.change,
                        besides,
                    });
                let made = store.put(&here.collect::<Vec<_>>(), now)?;
                Ok(made.into_iter().map(StoreRule::Here).collect())
            }
        }
    }

    /// What a rule becomes: what was consumed is kept.
    pub(crate) fn change(
        &self,
        rule: &StoreRule,
        policy: Policy,
        without: WithoutStore,
        now: Tick,
    ) -> Result<StoreRule, StoreFailure> {
        let _ = without;
        match (self, rule) {
            #[cfg(feature = "redis")]
            (AnyStore::Fleet(fleet), StoreRule::Fleet(shared)) => {
                let (name, before, besides) = (shared.name().to_owned(), Some(rule), Vec::new());
                let change = Change::Quota;
                let wanted = Wanted { name, policy, without, before, change, besides };
                let made = put_in_fleet(fleet, std::slice::from_ref(&wanted))?;
                made.into_iter().next().ok_or_else(|| StoreFailure::new("no rule was made"))
            }
            (AnyStore::Here(store), StoreRule::Here(rule)) => {
                Ok(StoreRule::Here(store.swing(rule, policy, (Change::Quota, now))?))
            }
            #[cfg(feature = "redis")]
            _ => Err(StoreFailure("a rule of another store".into())),
        }
    }
}

impl Wanted<'_> {
    fn besides_here(&self) -> Vec<Rule> {
        self.besides.iter().filter_map(|it| it.here().cloned()).collect()
    }
}

impl StoreRule {
    /// The rule, if it is of a store in this process.
    #[inline]
    #[cfg_attr(
        not(feature = "redis"),
        expect(clippy::unnecessary_wraps, reason = "with Redis there is another kind")
    )]
    pub(crate) fn here(&self) -> Option<&Rule> {
        match self {
            #[cfg(feature = "redis")]
            StoreRule::Fleet(_) => None,
            StoreRule::Here(rule) => Some(rule),
        }
    }

    #[cfg(feature = "redis")]
    fn shared(&self) -> Option<&tidegate_redis::SharedRule> {
        match self {
            StoreRule::Fleet(rule) => Some(rule),
            StoreRule::Here(_) => None,
        }
    }
}

#[cfg(feature = "redis")]
fn put_in_fleet(
    fleet: &tidegate_redis::Fleet,
    wanted: &[Wanted<'_>],
) -> Result<Vec<StoreRule>, StoreFailure> {
    use tidegate_redis::{SharedRule, WantedRule};

    let besides = wanted.iter().map(|it| it.besides.iter().filter_map(StoreRule::shared).cloned());
    let besides: Vec<Vec<SharedRule>> = besides.map(Iterator::collect).collect();
    let wanted = wanted.iter().zip(&besides).map(|(it, besides)| WantedRule {
        name: &it.name,
        policy: it.policy,
        without: to_fleet(it.without),
        before: it.before.and_then(StoreRule::shared),
        change: it.change,
        besides,
    });
    let made = fleet.put(&wanted.collect::<Vec<_>>());
    let made = made.map_err(|error| StoreFailure::new(error.to_string()))?;
    Ok(made.into_iter().map(StoreRule::Fleet).collect())
}

#[cfg(feature = "redis")]
fn to_fleet(without: WithoutStore) -> tidegate_redis::WithoutStore {
    match without {
        WithoutStore::Closed => tidegate_redis::WithoutStore::Closed,
        WithoutStore::Local { nodes } => tidegate_redis::WithoutStore::Local { nodes },
        WithoutStore::Open => tidegate_redis::WithoutStore::Open,
    }
}

impl From<TooManyRules> for StoreFailure {
    fn from(error: TooManyRules) -> StoreFailure {
        StoreFailure::new(error.to_string())
    }
}

impl fmt::Display for StoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StoreFailure {}
