//! Building a fleet's limiter: its rules in plain words, and every mistake named.

use std::fmt;
use std::time::Duration;

use smallvec::{SmallVec, smallvec};
use tidegate_core::{Credits, Policy, QuotaError};
use tidegate_store::{KeyTooLong, MemoryStore, ToPolicy};

use super::FleetLimiter;
use super::rule::{NamedRule, Scope};
use crate::error::ConnectError;
use crate::fleet::{Fleet, FleetChangeError};
use crate::rule::FleetRule;
use crate::settings::Settings;
use crate::store::RedisStore;
use tidegate_core::WithoutStore;
use tidegate_store::TextKey as FleetKey;

/// Builds a [`FleetLimiter`].
#[derive(Debug)]
#[must_use]
pub struct FleetLimiterBuilder {
    rules: Vec<Asked>,
    deadline: Option<Duration>,
    local_keys_max: usize,
    is_required: bool,
}

/// A rule as it was asked for.
#[derive(Debug)]
struct Asked {
    name: Box<str>,
    for_all: bool,
    policy: Result<Policy, QuotaError>,
    without: WithoutStore,
    remembers_refusals: Option<bool>,
    formerly: Vec<Result<Policy, QuotaError>>,
    credits: Option<Credits>,
}

impl FleetLimiterBuilder {
    pub(super) fn new() -> FleetLimiterBuilder {
        let local_keys_max = Fleet::LOCAL_KEYS_MAX;
        FleetLimiterBuilder {
            rules: Vec::new(),
            deadline: None,
            local_keys_max,
            is_required: false,
        }
    }

    /// A rule that counts each key by itself.
    pub fn each(self, name: &str, policy: impl ToPolicy) -> FleetLimiterBuilder {
        self.rule(name, false, policy)
    }

    /// A rule that counts everybody together, whatever the key.
    pub fn all(self, name: &str, policy: impl ToPolicy) -> FleetLimiterBuilder {
        self.rule(name, true, policy)
    }

    /// Has the rule that was added last save what is not used, for bursts: then a second rule
    /// judges together with it, which is called the same with `-peak` and says how fast saved cells
    /// go.
    pub fn credits(mut self, credits: Credits) -> FleetLimiterBuilder {
        if let Some(rule) = self.rules.last_mut() {
            rule.credits = Some(credits);
        }
        self
    }

    /// What the rule that was added last does while Redis does not answer. Without it, it decides
    /// by the whole quota in this process: every node then lets that much pass.
    pub fn without_store(mut self, without: WithoutStore) -> FleetLimiterBuilder {
        if let Some(rule) = self.rules.last_mut() {
            rule.without = without;
        }
        self
    }

    /// Whether the rule that was added last refuses again by itself what Redis has refused, until
    /// time allows it. See [`FleetRule::remember_refusals`].
    pub fn remember_refusals(mut self, yes: bool) -> FleetLimiterBuilder {
        if let Some(rule) = self.rules.last_mut() {
            rule.remembers_refusals = Some(yes);
        }
        self
    }

    /// The policy that the rule that was added last had before this process began: what was
    /// consumed under it is carried over. See [`FleetRule::formerly`].
    pub fn formerly(mut self, policy: impl ToPolicy) -> FleetLimiterBuilder {
        if let Some(rule) = self.rules.last_mut() {
            rule.formerly.push(policy.to_policy());
        }
        self
    }

    /// How long a decision may take before it is made without Redis; 100 ms unless set.
    pub fn deadline(mut self, deadline: Duration) -> FleetLimiterBuilder {
        self.deadline = Some(deadline);
        self
    }

    /// The most keys that are counted here while Redis does not answer; a million unless set.
    pub fn local_keys_max(mut self, keys: usize) -> FleetLimiterBuilder {
        self.local_keys_max = keys;
        self
    }

    /// Fails to connect while nobody answers. Unless set, the limiter begins without Redis, as it
    /// goes on without it: each rule does as [`FleetLimiterBuilder::without_store`] says.
    pub fn required(mut self) -> FleetLimiterBuilder {
        self.is_required = true;
        self
    }

    /// Connects to `url`, with everything else as it usually is.
    pub async fn connect(self, url: &str) -> Result<FleetLimiter, FleetBuildError> {
        let settings = Settings::from_url(url).map_err(FleetBuildError::Connect)?;
        let mut store = RedisStore::builder(settings);
        if let Some(deadline) = self.deadline {
            store = store.deadline(deadline);
        }
        if self.is_required {
            store = store.required();
        }
        self.store(store.connect().await.map_err(FleetBuildError::Connect)?)
    }

    /// The limiter on a store that is connected already.
    pub fn store(self, store: RedisStore) -> Result<FleetLimiter, FleetBuildError> {
        if self.rules.is_empty() {
            return Err(FleetBuildError::NoRules);
        }
        let store = match self.deadline {
            Some(deadline) => store.within(deadline),
            None => store,
        };
        let local = MemoryStore::with_keys_max(self.local_keys_max);
        let fleet = Fleet::with_local(store, local);
        let mut rules: Vec<NamedRule> = Vec::with_capacity(self.rules.len());
        for asked in self.rules {
            for asked in asked.apart()? {
                if rules.iter().any(|rule| rule.name() == &*asked.name) {
                    return Err(FleetBuildError::SameName(asked.name));
                }
                if RedisStore::LIMITS_MAX <= rules.len() {
                    return Err(FleetBuildError::TooMany);
                }
                rules.push(asked.named(&fleet)?);
            }
        }
        Ok(FleetLimiter { fleet, rules: rules.into() })
    }

    fn rule(mut self, name: &str, for_all: bool, policy: impl ToPolicy) -> FleetLimiterBuilder {
        let (name, policy) = (name.into(), policy.to_policy());
        let without = WithoutStore::Local { nodes: 1 };
        self.rules.push(Asked {
            name,
            for_all,
            policy,
            without,
            remembers_refusals: None,
            formerly: Vec::new(),
            credits: None,
        });
        self
    }
}

impl Asked {
    /// The rules that it comes to: itself, or two where something is saved. What was consumed under
    /// former policies is the first one's, with the same credits.
    fn apart(self) -> Result<SmallVec<[Asked; 2]>, FleetBuildError> {
        let Some(credits) = self.credits else { return Ok(smallvec![self]) };
        let name = self.name.clone();
        let wrong = |error| FleetBuildError::Rule(name.clone(), FleetChangeError::Quota(error));
        let both = |policy: Result<Policy, QuotaError>| {
            policy.and_then(|policy| credits.policies(&policy)).map_err(wrong)
        };
        let [saves, bounds] = both(self.policy)?;
        let (mut formerly, mut formerly_peak) = (Vec::new(), Vec::new());
        for policy in self.formerly {
            let [first, peak] = both(policy)?;
            formerly.push(Ok(first));
            formerly_peak.push(Ok(peak));
        }
        let peak = Asked {
            name: format!("{}-peak", self.name).into(),
            policy: Ok(bounds),
            formerly: formerly_peak,
            ..self
        };
        let first = Asked { name, policy: Ok(saves), formerly, credits: None, ..peak };
        Ok(smallvec![first, peak])
    }

    fn named(self, fleet: &Fleet) -> Result<NamedRule, FleetBuildError> {
        let wrong = |name: &str, error| FleetBuildError::Rule(name.into(), error);
        let checked = |policy: Result<Policy, QuotaError>| {
            policy.map_err(|error| wrong(&self.name, FleetChangeError::Quota(error)))
        };
        let mut rule = FleetRule::new(&self.name, checked(self.policy)?);
        for policy in self.formerly {
            rule = rule.formerly(checked(policy)?);
        }
        if let Some(yes) = self.remembers_refusals {
            rule = rule.remember_refusals(yes);
        }
        let scope = if self.for_all {
            Scope::All(FleetKey::new(("all", &*self.name)).map_err(FleetBuildError::NameTooLong)?)
        } else {
            Scope::Each
        };
        let shared = fleet.rule_of(rule, self.without).map_err(|error| wrong(&self.name, error))?;
        Ok(NamedRule { shared, scope })
    }
}

/// Why there is no limiter.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum FleetBuildError {
    /// Redis could not be connected to.
    Connect(ConnectError),
    /// A rule's name is too long.
    NameTooLong(KeyTooLong),
    /// No rule was given.
    NoRules,
    /// A rule, by its name, is not possible.
    Rule(Box<str>, FleetChangeError),
    /// Two rules have this name.
    SameName(Box<str>),
    /// More rules than one request can be judged by.
    TooMany,
}

impl fmt::Display for FleetBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FleetBuildError::Connect(error) => error.fmt(f),
            FleetBuildError::NameTooLong(error) => error.fmt(f),
            FleetBuildError::NoRules => {
                f.write_str("a limiter without rules limits nothing: add one with `each` or `all`")
            }
            FleetBuildError::Rule(name, error) => write!(f, "rule `{name}`: {error}"),
            FleetBuildError::SameName(name) => {
                write!(f, "two rules are called `{name}`: give each a name of its own")
            }
            FleetBuildError::TooMany => write!(
                f,
                "more than {} rules: a request is judged by all of them at once; leave some out",
                RedisStore::LIMITS_MAX
            ),
        }
    }
}

impl std::error::Error for FleetBuildError {}
