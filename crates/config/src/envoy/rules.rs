//! The trees of all domains, as they are searched.

use std::collections::HashMap;

use super::EnvoyLimit;
use crate::glob::Glob;

/// The limits of all domains.
#[derive(Clone, Debug, Default)]
pub struct EnvoyRules {
    pub(super) domains: HashMap<Box<str>, Level>,
    /// In the order of the files.
    pub(super) limits: Vec<EnvoyLimit>,
}

/// The descriptors below a descriptor, or below a domain.
#[derive(Clone, Debug, Default)]
pub(super) struct Level(HashMap<Box<str>, OfKey>);

/// The descriptors of one key.
#[derive(Clone, Debug, Default)]
struct OfKey {
    exact: HashMap<Box<str>, Descriptor>,
    /// In the order of the file.
    patterns: Vec<(Box<str>, Glob, Descriptor)>,
    bare: Option<Box<Descriptor>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Descriptor {
    /// Its number among the limits.
    pub(super) limit: Option<usize>,
    pub(super) below: Level,
}

impl EnvoyRules {
    /// Whether there is such a domain.
    pub fn has_domain(&self, domain: &str) -> bool {
        self.domains.contains_key(domain)
    }

    /// The names of the domains, sorted.
    pub fn domains(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.domains.keys().map(|name| &**name).collect();
        names.sort_unstable();
        names
    }

    /// Every limit, in the order of the files.
    pub fn limits(&self) -> &[EnvoyLimit] {
        &self.limits
    }

    /// The number of the limit that a descriptor is for, among [`EnvoyRules::limits`].
    ///
    /// Keys and values are as they came, be it that they are no UTF-8.
    pub fn find<'a>(
        &self,
        domain: &str,
        entries: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Option<usize> {
        let mut level = self.domains.get(domain)?;
        let mut limit = None;
        for (key, value) in entries {
            let next = level.0.get(str::from_utf8(key).ok()?)?.find(value)?;
            (level, limit) = (&next.below, next.limit);
        }
        limit
    }
}

impl Level {
    /// Puts a descriptor in its place; gives it back if that is taken.
    pub(super) fn add(&mut self, key: &str, value: &str, it: Descriptor) -> bool {
        let of_key = self.0.entry(key.into()).or_default();
        if of_key.has(value) {
            return false;
        }
        if value.is_empty() {
            of_key.bare = Some(Box::new(it));
        } else if value.contains('*') {
            of_key.patterns.push((value.into(), Glob::new(value), it));
        } else {
            of_key.exact.insert(value.into(), it);
        }
        true
    }
}

impl OfKey {
    fn find(&self, value: &[u8]) -> Option<&Descriptor> {
        let by_pattern = || {
            let mut patterns = self.patterns.iter();
            patterns.find(|(_, glob, _)| glob.matches(value)).map(|(_, _, it)| it)
        };
        let by_value = str::from_utf8(value).ok().and_then(|value| self.exact.get(value));
        by_value.or_else(by_pattern).or(self.bare.as_deref())
    }

    fn has(&self, value: &str) -> bool {
        let is_pattern = self.patterns.iter().any(|(pattern, _, _)| **pattern == *value);
        is_pattern || self.exact.contains_key(value) || value.is_empty() && self.bare.is_some()
    }
}
