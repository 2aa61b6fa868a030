//! A rule of a limiter: named, and changed while requests go on.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tidegate_core::{Policy, QuotaError, Tick};

use crate::memory::{MemoryStore, Rule, TooManyRules};
use crate::sync::{AtomicBool, Mutex, Ordering, lock};

/// A rule of a limiter.
#[derive(Debug)]
pub(super) struct NamedRule {
    name: Box<str>,
    scope: Scope,
    first: Rule,
    /// Whether `latest` is the rule now. Most are never changed, and pay for one load.
    changed: AtomicBool,
    latest: Mutex<Option<Arc<Rule>>>,
}

/// Whom a rule counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Scope {
    /// Everybody together.
    All,
    /// Each key by itself.
    Each,
}

/// A rule as it is now.
pub(super) enum Present<'a> {
    First(&'a Rule),
    Latest(Arc<Rule>),
}

impl NamedRule {
    pub(super) fn new(name: Box<str>, scope: Scope, first: Rule) -> NamedRule {
        let (changed, latest) = (AtomicBool::new(false), Mutex::new(None));
        NamedRule { name, scope, first, changed, latest }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn scope(&self) -> Scope {
        self.scope
    }

    #[inline]
    pub(super) fn present(&self) -> Present<'_> {
        if self.changed.load(Ordering::Acquire) {
            self.latest()
        } else {
            Present::First(&self.first)
        }
    }

    #[inline(never)]
    fn latest(&self) -> Present<'_> {
        match &*lock(&self.latest) {
            Some(latest) => Present::Latest(Arc::clone(latest)),
            None => Present::First(&self.first),
        }
    }

    pub(super) fn change(
        &self,
        store: &MemoryStore,
        policy: Policy,
        now: Tick,
    ) -> Result<(), ChangeError> {
        let mut latest = lock(&self.latest);
        let present = latest.as_deref().unwrap_or(&self.first);
        let next = store.change(present, policy, now).map_err(ChangeError::TooMany)?;
        *latest = Some(Arc::new(next));
        self.changed.store(true, Ordering::Release);
        Ok(())
    }
}

impl Deref for Present<'_> {
    type Target = Rule;

    #[inline]
    fn deref(&self) -> &Rule {
        match self {
            Present::First(rule) => rule,
            Present::Latest(rule) => rule,
        }
    }
}

/// Why a rule was not changed; it stays as it was.
#[derive(Clone, Copy, Eq, PartialEq)]
#[non_exhaustive]
pub enum ChangeError {
    /// The new quota is not possible.
    Quota(QuotaError),
    /// Too many changes for one store.
    TooMany(TooManyRules),
    /// No rule has this name.
    UnknownRule,
}

/// As it is shown, since `main` prints an error so that it returns.
impl fmt::Debug for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::Quota(error) => error.fmt(f),
            ChangeError::TooMany(error) => error.fmt(f),
            ChangeError::UnknownRule => {
                f.write_str("no rule has this name: give one that the limiter was built with")
            }
        }
    }
}

impl std::error::Error for ChangeError {}

/// No rule of a limiter has this name.
#[derive(Clone, Eq, PartialEq)]
pub struct UnknownRule {
    name: Box<str>,
    names: Vec<Box<str>>,
}

impl UnknownRule {
    /// The place of the rule called `name` among `names`.
    #[doc(hidden)]
    pub fn find<'n>(
        name: &str,
        mut names: impl Iterator<Item = &'n str> + Clone,
    ) -> Result<usize, UnknownRule> {
        let all = names.clone();
        names
            .position(|known| known == name)
            .ok_or_else(|| UnknownRule { name: name.into(), names: all.map(Into::into).collect() })
    }
}

impl fmt::Display for UnknownRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no rule is called `{}`; the limiter has `{}`",
            self.name,
            self.names.join("`, `")
        )
    }
}

/// As it is shown, since `main` prints an error so that it returns.
impl fmt::Debug for UnknownRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for UnknownRule {}
