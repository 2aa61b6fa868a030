//! The rules of a limiter: named, and changed while requests go on.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tidegate_core::QuotaError;

use crate::memory::TooManyRules;
use crate::store::StoreFailure;
use crate::sync::{AtomicBool, Mutex, Ordering, lock};

/// The rules of a limiter, in the order in which they were added.
#[derive(Debug)]
pub(super) struct Rules<R> {
    pub(super) names: Box<[Box<str>]>,
    pub(super) each: Box<[LimiterRule<R>]>,
}

/// A rule of a limiter, as its store keeps it.
#[derive(Debug)]
pub(super) struct LimiterRule<R> {
    scope: Scope,
    first: R,
    /// Whether `latest` is the rule now. Most are never changed, and pay for one load.
    changed: AtomicBool,
    latest: Mutex<Option<Arc<R>>>,
}

/// What a rule counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Scope {
    /// Everybody together.
    All,
    /// Each key by itself.
    Each,
}

/// A rule as it is now.
pub(super) enum Present<'a, R> {
    First(&'a R),
    Latest(Arc<R>),
}

impl<R> Rules<R> {
    /// The rule called `name`.
    pub(super) fn get(&self, name: &str) -> Option<&LimiterRule<R>> {
        let index = self.names.iter().position(|known| **known == *name)?;
        self.each.get(index)
    }

    /// The place of the rule called `name`.
    pub(super) fn find(&self, name: &str) -> Result<usize, UnknownRule> {
        let place = self.names.iter().position(|known| **known == *name);
        place.ok_or_else(|| UnknownRule { name: name.into(), names: self.names.clone() })
    }
}

impl<R> FromIterator<(Box<str>, LimiterRule<R>)> for Rules<R> {
    fn from_iter<I: IntoIterator<Item = (Box<str>, LimiterRule<R>)>>(rules: I) -> Rules<R> {
        let (names, each): (Vec<Box<str>>, Vec<LimiterRule<R>>) = rules.into_iter().unzip();
        Rules { names: names.into(), each: each.into() }
    }
}

impl<R> LimiterRule<R> {
    pub(super) fn new(scope: Scope, first: R) -> LimiterRule<R> {
        let (changed, latest) = (AtomicBool::new(false), Mutex::new(None));
        LimiterRule { scope, first, changed, latest }
    }

    pub(super) fn scope(&self) -> Scope {
        self.scope
    }

    #[inline]
    pub(super) fn present(&self) -> Present<'_, R> {
        if self.changed.load(Ordering::Acquire) {
            self.latest()
        } else {
            Present::First(&self.first)
        }
    }

    #[inline(never)]
    fn latest(&self) -> Present<'_, R> {
        match &*lock(&self.latest) {
            Some(latest) => Present::Latest(Arc::clone(latest)),
            None => Present::First(&self.first),
        }
    }

    /// Makes another rule of the present one, one change after the other.
    pub(super) fn change(
        &self,
        change: impl FnOnce(&R) -> Result<R, ChangeError>,
    ) -> Result<(), ChangeError> {
        let mut latest = lock(&self.latest);
        let next = change(latest.as_deref().unwrap_or(&self.first))?;
        *latest = Some(Arc::new(next));
        self.changed.store(true, Ordering::Release);
        Ok(())
    }
}

impl<R> Deref for Present<'_, R> {
    type Target = R;

    #[inline]
    fn deref(&self) -> &R {
        match self {
            Present::First(rule) => rule,
            Present::Latest(rule) => rule,
        }
    }
}

/// Why a rule was not changed; it stays as it was.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub enum ChangeError {
    /// The new quota is not possible.
    Quota(QuotaError),
    /// The store cannot do it.
    Store(StoreFailure),
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
            ChangeError::Store(error) => error.fmt(f),
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
    names: Box<[Box<str>]>,
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
