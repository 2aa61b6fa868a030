//! Where a gate remembers: in this process, or in Redis for a fleet.

use std::collections::HashMap;
use std::fmt;

use tidegate_config::WithoutStore;
use tidegate_core::{Policy, Tick};
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
    /// The name of the limit that it is a quota of; see `kept.rs`.
    pub(crate) limit: String,
    pub(crate) policy: Policy,
    /// What that is a part of, as under load; the policy itself if all of it is given out.
    pub(crate) whole: Policy,
    pub(crate) without: WithoutStore,
    /// What it was until now: what was consumed is kept.
    pub(crate) before: Option<&'k StoreRule>,
    /// Other quotas that keys had under its limit until now; see `kept.rs`.
    pub(crate) others: Vec<StoreRule>,
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
                let others = wanted.iter().map(|it| it.others.iter().filter_map(StoreRule::here));
                let others: Vec<Vec<Rule>> = others.map(|it| it.cloned().collect()).collect();
                let mut numbers = HashMap::new();
                let here = wanted.iter().zip(&others).map(|(it, others)| {
                    let next = numbers.len();
                    tidegate_store::Wanted {
                        policy: it.policy,
                        whole: it.whole,
                        before: it.before.and_then(StoreRule::here),
                        limit: *numbers.entry(&*it.limit).or_insert(next),
                        others,
                    }
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
                let (name, limit) = (shared.name().to_owned(), shared.name().to_owned());
                let (whole, before, others) = (policy, Some(rule), Vec::new());
                let wanted = Wanted { name, limit, policy, whole, without, before, others };
                let made = put_in_fleet(fleet, std::slice::from_ref(&wanted))?;
                made.into_iter().next().ok_or_else(|| StoreFailure::new("no rule was made"))
            }
            (AnyStore::Here(store), StoreRule::Here(rule)) => {
                Ok(StoreRule::Here(store.change(rule, policy, now)?))
            }
            #[cfg(feature = "redis")]
            _ => Err(StoreFailure("a rule of another store".into())),
        }
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

/// The most quotas that Redis is asked about for keys which have them no more.
#[cfg(feature = "redis")]
const OTHERS_MAX: usize = 64;

#[cfg(feature = "redis")]
fn put_in_fleet(
    fleet: &tidegate_redis::Fleet,
    wanted: &[Wanted<'_>],
) -> Result<Vec<StoreRule>, StoreFailure> {
    use tidegate_redis::{SharedRule, WantedRule};

    // Each is looked for by every request of a key that is not known.
    let few = |it: &&Wanted<'_>| it.others.len() <= OTHERS_MAX;
    let others = |it: &Wanted<'_>| -> Vec<SharedRule> {
        Some(it)
            .filter(few)
            .map_or(&[][..], |it| &it.others)
            .iter()
            .filter_map(StoreRule::shared)
            .cloned()
            .collect()
    };
    let others: Vec<Vec<SharedRule>> = wanted.iter().map(others).collect();
    let wanted = wanted.iter().zip(&others).map(|(it, others)| WantedRule {
        name: &it.name,
        limit: &it.limit,
        policy: it.policy,
        whole: it.whole,
        without: to_fleet(it.without),
        before: it.before.and_then(StoreRule::shared),
        others,
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
