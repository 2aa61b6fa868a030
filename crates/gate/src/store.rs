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
    /// What its clients had besides, in this process: the most that was consumed counts.
    pub(crate) besides: Vec<Rule>,
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

    /// All rules that are wanted, in their order. In this process there is room for all of them, or
    /// nothing has happened.
    pub(crate) fn put(
        &self,
        wanted: &[Wanted<'_>],
        now: Tick,
    ) -> Result<Vec<StoreRule>, StoreFailure> {
        match self {
            #[cfg(feature = "redis")]
            AnyStore::Fleet(_) => wanted.iter().map(|it| self.put_one(it, now)).collect(),
            AnyStore::Here(store) => {
                let here = wanted.iter().map(|it| tidegate_store::Wanted {
                    policy: it.policy,
                    before: it.before.and_then(StoreRule::here),
                    change: it.change,
                    besides: &it.besides,
                });
                let made = store.put(&here.collect::<Vec<_>>(), now)?;
                Ok(made.into_iter().map(StoreRule::Here).collect())
            }
        }
    }

    #[cfg(feature = "redis")]
    fn put_one(&self, wanted: &Wanted<'_>, now: Tick) -> Result<StoreRule, StoreFailure> {
        match wanted.before {
            Some(before) => {
                self.becomes(before, (wanted.policy, wanted.without), (wanted.change, now))
            }
            None => self.rule(&wanted.name, wanted.policy, wanted.without),
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
        self.becomes(rule, (policy, without), (Change::Quota, now))
    }

    fn becomes(
        &self,
        rule: &StoreRule,
        (policy, without): (Policy, WithoutStore),
        (change, now): (Change, Tick),
    ) -> Result<StoreRule, StoreFailure> {
        let _ = without;
        match (self, rule) {
            // What it does without Redis belongs to a rule: to do something else it is another one,
            // which was this one before.
            #[cfg(feature = "redis")]
            (AnyStore::Fleet(fleet), StoreRule::Fleet(rule))
                if rule.without() != to_fleet(without) =>
            {
                let next = fleet.store().rule(rule.name(), policy).formerly(rule.policy());
                let made = fleet.rule_of(next, to_fleet(without));
                made.map(StoreRule::Fleet).map_err(|error| StoreFailure(error.to_string().into()))
            }
            #[cfg(feature = "redis")]
            (AnyStore::Fleet(fleet), StoreRule::Fleet(rule)) => {
                let changed = match change {
                    Change::Part => fleet.scale(rule, policy),
                    Change::Quota => fleet.change(rule, policy),
                };
                changed.map_err(|error| StoreFailure(error.to_string().into()))?;
                Ok(StoreRule::Fleet(rule.clone()))
            }
            (AnyStore::Here(store), StoreRule::Here(rule)) => {
                Ok(StoreRule::Here(store.swing(rule, policy, (change, now))?))
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
