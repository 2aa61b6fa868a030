//! Building a limiter: its rules in plain words, and every mistake named.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Credits, Kind, Policy, Quota, QuotaError, WithoutStore};

use super::rule::{LimiterRule, Scope};
use super::shared::SharedLimiter;
use super::wait::WaitList;
use super::{AnyClock, Limiter};
use crate::clock::{Clock, SystemClock};
use crate::key::KeyTooLong;
use crate::memory::{MemoryStore, TooManyRules};
use crate::store::{Store, StoreFailure};

/// Builds a [`Limiter`], or a [`SharedLimiter`] on any other store.
#[derive(Debug)]
#[must_use]
pub struct LimiterBuilder {
    rules: Vec<Asked>,
    store: Option<MemoryStore>,
    clock: Option<Arc<dyn Clock>>,
}

/// A rule as it was asked for.
#[derive(Debug)]
struct Asked {
    name: Box<str>,
    scope: Scope,
    policy: Result<Policy, QuotaError>,
    credits: Option<Credits>,
    without: WithoutStore,
    remembers_refusals: Option<bool>,
    formerly: Vec<Result<Policy, QuotaError>>,
}

/// A rule that is possible, as it is to be made.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) name: Box<str>,
    pub(super) scope: Scope,
    pub(super) policy: Policy,
    pub(super) without: WithoutStore,
    pub(super) remembers_refusals: Option<bool>,
    pub(super) formerly: Vec<Policy>,
}

/// What can be given as a policy: a quota is a token bucket, and a kind with a quota is that kind.
pub trait ToPolicy {
    /// The policy, or why there is none.
    fn to_policy(self) -> Result<Policy, QuotaError>;
}

impl ToPolicy for Quota {
    fn to_policy(self) -> Result<Policy, QuotaError> {
        Policy::token_bucket(self)
    }
}

impl ToPolicy for (Kind, Quota) {
    fn to_policy(self) -> Result<Policy, QuotaError> {
        Policy::new(self.0, self.1)
    }
}

impl ToPolicy for Policy {
    fn to_policy(self) -> Result<Policy, QuotaError> {
        Ok(self)
    }
}

impl LimiterBuilder {
    pub(super) fn new() -> LimiterBuilder {
        LimiterBuilder { rules: Vec::new(), store: None, clock: None }
    }

    /// A rule that counts each key by itself.
    pub fn each(self, name: &str, policy: impl ToPolicy) -> LimiterBuilder {
        self.rule(name, Scope::Each, policy)
    }

    /// A rule that counts everybody together, whatever the key.
    pub fn all(self, name: &str, policy: impl ToPolicy) -> LimiterBuilder {
        self.rule(name, Scope::All, policy)
    }

    /// Has the rule that was added last save what is not used, for bursts: then a second rule
    /// judges together with it, which is called the same with `-peak` and says how fast saved cells
    /// go.
    ///
    /// ```
    /// use tidegate_core::{Credits, Quota, Span};
    /// use tidegate_store::Limiter;
    ///
    /// let limiter = Limiter::builder()
    ///     .each("per-client", Quota::per_second(10))
    ///     .credits(Credits::new(Span::from_secs(30), 10))
    ///     .build()?;
    /// let answer = limiter.key("ada").decide_each();
    /// // Ten at once, of which one is gone; three hundred more are saved.
    /// assert_eq!(answer.of("per-client").map(|it| it.remaining), Some(309));
    /// assert_eq!(answer.of("per-client-peak").map(|it| it.remaining), Some(9));
    /// # Ok::<(), tidegate_store::BuildError>(())
    /// ```
    pub fn credits(mut self, credits: Credits) -> LimiterBuilder {
        if let Some(rule) = self.rules.last_mut() {
            rule.credits = Some(credits);
        }
        self
    }

    /// What the rule that was added last does while a store elsewhere does not answer. Without it,
    /// it decides by the whole quota in this process: every node then lets that much pass.
    pub fn without_store(mut self, without: WithoutStore) -> LimiterBuilder {
        if let Some(rule) = self.rules.last_mut() {
            rule.without = without;
        }
        self
    }

    /// Whether the rule that was added last refuses again by itself what a store elsewhere has
    /// refused, until time allows it. Without it, it does unless it hands out permits.
    pub fn remember_refusals(mut self, yes: bool) -> LimiterBuilder {
        if let Some(rule) = self.rules.last_mut() {
            rule.remembers_refusals = Some(yes);
        }
        self
    }

    /// The policy that the rule that was added last had before this process began: what was
    /// consumed under it in a store elsewhere is carried over.
    ///
    /// A node that starts with a new quota does not know the old one by itself, and every key would
    /// start fresh. Keep the old one here for as long as its states last: an hour for a quota of so
    /// many an hour.
    pub fn formerly(mut self, policy: impl ToPolicy) -> LimiterBuilder {
        if let Some(rule) = self.rules.last_mut() {
            rule.formerly.push(policy.to_policy());
        }
        self
    }

    /// The store in this process to keep states in: one with a cap of your choice.
    pub fn store(mut self, store: MemoryStore) -> LimiterBuilder {
        self.store = Some(store);
        self
    }

    /// The clock to go by: a [`ManualClock`](crate::ManualClock) in tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> LimiterBuilder {
        self.clock = Some(clock);
        self
    }

    /// The limiter in this process, or the first mistake.
    pub fn build(self) -> Result<Limiter, BuildError> {
        let planned = planned(self.rules)?;
        let store = self.store.unwrap_or_default();
        let made = planned.into_iter().map(|planned| {
            let rule = store.rule(planned.policy).map_err(|TooManyRules| BuildError::TooMany)?;
            Ok((planned.name, LimiterRule::new(planned.scope, rule)))
        });
        let rules = made.collect::<Result<_, BuildError>>()?;
        let clock = match self.clock {
            None => AnyClock::System(SystemClock::new()),
            Some(clock) => AnyClock::Other(clock),
        };
        Ok(Limiter { rules, store, clock, waiting: WaitList::default() })
    }

    /// The limiter on any store, or the first mistake: its answers are awaited, and other processes
    /// count by the same states if the store is shared.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate_core::Quota;
    /// use tidegate_store::{Limiter, MemoryStore};
    ///
    /// // In production this may be a store in Redis.
    /// let store = Arc::new(MemoryStore::new());
    /// let limiter =
    ///     Limiter::builder().each("per-client", Quota::per_minute(100)).build_on(store)?;
    /// # let asked = async {
    /// let answer = limiter.decide("ada").await;
    /// println!("{:?}, by {}", answer.verdict(), answer.by());
    /// # };
    /// # drop(asked);
    /// # Ok::<(), tidegate_store::BuildError>(())
    /// ```
    pub fn build_on(self, store: Arc<dyn Store>) -> Result<SharedLimiter, BuildError> {
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        SharedLimiter::new(planned(self.rules)?, store, clock)
    }

    fn rule(mut self, name: &str, scope: Scope, policy: impl ToPolicy) -> LimiterBuilder {
        self.rules.push(Asked {
            name: name.into(),
            scope,
            policy: policy.to_policy(),
            credits: None,
            without: WithoutStore::Local { nodes: 1 },
            remembers_refusals: None,
            formerly: Vec::new(),
        });
        self
    }
}

/// The rules that are to be made, or the first mistake.
fn planned(rules: Vec<Asked>) -> Result<Vec<Planned>, BuildError> {
    if rules.is_empty() {
        return Err(BuildError::NoRules);
    }
    let mut planned: Vec<Planned> = Vec::with_capacity(rules.len());
    for asked in rules {
        for rule in asked.planned()? {
            if planned.iter().any(|other| other.name == rule.name) {
                return Err(BuildError::SameName { name: rule.name });
            }
            if MemoryStore::LIMITS_MAX <= planned.len() {
                return Err(BuildError::TooMany);
            }
            planned.push(rule);
        }
    }
    Ok(planned)
}

impl Asked {
    /// What it is judged by: one rule, or two where something is saved. What was consumed under
    /// former policies is theirs, with the same credits.
    fn planned(self) -> Result<Vec<Planned>, BuildError> {
        let wrong = |error| BuildError::Quota { name: self.name.clone(), error };
        let Some(credits) = self.credits else {
            let policy = self.policy.map_err(wrong)?;
            let formerly = self.formerly.into_iter().collect::<Result<_, _>>().map_err(wrong)?;
            let Asked { name, scope, without, remembers_refusals, .. } = self;
            return Ok(vec![Planned {
                name,
                scope,
                policy,
                without,
                remembers_refusals,
                formerly,
            }]);
        };
        let both = |policy: Result<Policy, QuotaError>| credits.policies(&policy?);
        let policies = both(self.policy).map_err(wrong)?;
        let formerly = self.formerly.into_iter().map(both);
        let formerly: Vec<[Policy; 2]> = formerly.collect::<Result<_, _>>().map_err(wrong)?;
        let Asked { name, scope, without, remembers_refusals, .. } = self;
        let names = [name.clone(), format!("{name}-peak").into()];
        let parts = names.into_iter().zip(policies).enumerate();
        let plan = |(part, (name, policy)): (usize, (Box<str>, Policy))| {
            let formerly = formerly.iter().map(|policies| policies[part]).collect();
            Planned { name, scope, policy, without, remembers_refusals, formerly }
        };
        Ok(parts.map(plan).collect())
    }
}

/// Why there is no limiter.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub enum BuildError {
    /// The name of a rule for everybody is too long to be a key.
    NameTooLong(KeyTooLong),
    /// A limiter without rules lets everything pass.
    NoRules,
    /// The quota of a rule is not possible.
    Quota {
        /// The rule.
        name: Box<str>,
        /// What is wrong with it.
        error: QuotaError,
    },
    /// Two rules have one name.
    SameName {
        /// The name.
        name: Box<str>,
    },
    /// The store cannot keep the rules.
    Store(StoreFailure),
    /// More rules than one request may be judged by.
    TooMany,
}

/// As it is shown, since `main` prints an error so that it returns.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::NameTooLong(error) => error.fmt(f),
            BuildError::Store(error) => error.fmt(f),
            BuildError::NoRules => {
                f.write_str("a limiter without rules lets everything pass: add one with `each`")
            }
            BuildError::Quota { name, error } => write!(f, "rule `{name}`: {error}"),
            BuildError::SameName { name } => {
                write!(f, "two rules are called `{name}`: give each a name of its own")
            }
            BuildError::TooMany => write!(
                f,
                "a limiter has at most {} rules: judge by fewer, or use several limiters",
                MemoryStore::LIMITS_MAX
            ),
        }
    }
}

impl std::error::Error for BuildError {}
