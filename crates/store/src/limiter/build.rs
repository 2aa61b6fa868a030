//! Building a limiter: its rules in plain words, and every mistake named.

use std::fmt;
use std::sync::Arc;

use arrayvec::ArrayVec;
use tidegate_core::{Credits, Kind, Policy, Quota, QuotaError};

use super::rule::{NamedRule, Scope};
use super::wait::WaitList;
use super::{AnyClock, Limiter};
use crate::clock::{Clock, SystemClock};
use crate::memory::{MemoryStore, TooManyRules};

/// Builds a [`Limiter`].
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

    /// The store to keep states in: one with a cap of your choice.
    pub fn store(mut self, store: MemoryStore) -> LimiterBuilder {
        self.store = Some(store);
        self
    }

    /// The clock to go by: a [`ManualClock`](crate::ManualClock) in tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> LimiterBuilder {
        self.clock = Some(clock);
        self
    }

    /// The limiter, or the first mistake.
    pub fn build(self) -> Result<Limiter, BuildError> {
        if self.rules.is_empty() {
            return Err(BuildError::NoRules);
        }
        let store = self.store.unwrap_or_default();
        let mut rules: Vec<NamedRule> = Vec::with_capacity(self.rules.len());
        for asked in self.rules {
            let scope = asked.scope;
            for (name, policy) in asked.policies()? {
                if rules.iter().any(|rule| rule.name() == &*name) {
                    return Err(BuildError::SameName { name });
                }
                if MemoryStore::LIMITS_MAX <= rules.len() {
                    return Err(BuildError::TooMany);
                }
                let rule = store.rule(policy).map_err(|TooManyRules| BuildError::TooMany)?;
                rules.push(NamedRule::new(name, scope, rule));
            }
        }
        let clock = match self.clock {
            None => AnyClock::System(SystemClock::new()),
            Some(clock) => AnyClock::Other(clock),
        };
        Ok(Limiter { rules, store, clock, waiting: WaitList::default() })
    }

    fn rule(mut self, name: &str, scope: Scope, policy: impl ToPolicy) -> LimiterBuilder {
        let (name, policy) = (name.into(), policy.to_policy());
        self.rules.push(Asked { name, scope, policy, credits: None });
        self
    }
}

impl Asked {
    /// What it is judged by: one policy, or two where something is saved.
    fn policies(self) -> Result<ArrayVec<(Box<str>, Policy), 2>, BuildError> {
        let wrong = |error| BuildError::Quota { name: self.name.clone(), error };
        let base = self.policy.map_err(wrong)?;
        let mut policies = ArrayVec::new();
        if let Some(credits) = self.credits {
            let [saves, bounds] = credits.policies(&base).map_err(wrong)?;
            let peak = format!("{}-peak", self.name).into();
            policies.extend([(self.name, saves), (peak, bounds)]);
        } else {
            policies.push((self.name, base));
        }
        Ok(policies)
    }
}

/// Why there is no limiter.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub enum BuildError {
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
