//! Which rules count by the same key: it is looked up once for all of them.

use std::collections::HashMap;

use foldhash::quality::RandomState;

use crate::attribute::Attribute;
use crate::facts::{Facts, Part, Parts, Value};
use crate::identify::Identify;
use crate::plan::Who;
use crate::rule::{Action, Limit, Missing, Rule};

/// What a rule's key is taken from. Of one request, all rules with the same source have the same
/// key, but for keys that depend on the rule's own match: see [`KeySource::is_shared_with`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct KeySource(u32);

impl KeySource {
    /// For a key that also depends on the rule's match, or on how the path is read.
    pub(crate) const OF_ITS_OWN: KeySource = KeySource(0);

    /// Whether one key for this source is one for the other.
    pub fn is_shared_with(self, other: KeySource) -> bool {
        self == other && self != KeySource::OF_ITS_OWN
    }
}

/// Notes for every rule what its key is taken from. A name that stands for one attribute gives way
/// to that.
pub(crate) fn find_sources(list: &mut [Rule], identify: &Identify) {
    let mut known: HashMap<(Vec<Attribute>, Missing), u32, RandomState> = HashMap::default();
    for rule in list {
        let Action::Limit(limit) = &mut rule.action else { continue };
        for attribute in &mut limit.key {
            if let Some(only) = identify.only(attribute) {
                *attribute = only.clone();
            }
        }
        // Identities of the file are made of nothing that a match has named.
        if limit.key.iter().any(|attribute| matches!(attribute, Attribute::Named(_))) {
            continue;
        }
        let next = u32::try_from(known.len() + 1).unwrap_or(0);
        let source = known.entry((limit.key.clone(), limit.missing)).or_insert(next);
        limit.source = KeySource(*source);
        if let Some(steady) = &mut rule.steady {
            steady.source = limit.source;
        }
    }
}

/// The key of the rule that was looked at last. Many rules of a file count the same clients, and
/// these are looked up once.
#[derive(Debug, Default)]
pub(crate) struct LastKey<'f> {
    source: KeySource,
    parts: Parts<'f>,
}

impl<'f> LastKey<'f> {
    /// Finds the key that a rule counts; `false` if a part of it is missing, and the rule is
    /// skipped then.
    #[inline]
    pub(crate) fn look_up(
        &mut self,
        limit: &'f Limit,
        facts: &'f Facts<'_, '_>,
        rule: &'f Rule,
    ) -> bool {
        // What is taken from a path is another by another reading of it.
        let source = if facts.is_other() { KeySource::OF_ITS_OWN } else { limit.source };
        if source.is_shared_with(self.source) {
            return true;
        }
        self.parts.clear();
        self.source = source;
        for attribute in &limit.key {
            if facts.push(attribute, Some(&rule.matcher), &mut self.parts) {
                continue;
            }
            // What cannot be used is not missing: otherwise it would be a way around the rule.
            if limit.missing == Missing::Skip && !facts.is_unusable(attribute, Some(&rule.matcher))
            {
                self.source = KeySource::OF_ITS_OWN;
                return false;
            }
            self.parts.push(Part { source: attribute, value: Value::Missing });
        }
        true
    }

    /// As [`LastKey::look_up`], for a rule whose key is known to have this source, by the plain
    /// reading of a path.
    #[inline]
    pub(crate) fn look_up_plain(
        &mut self,
        source: KeySource,
        facts: &'f Facts<'_, '_>,
        rule: &'f Rule,
    ) -> bool {
        source.is_shared_with(self.source) || self.look_up_new(facts, rule)
    }

    #[inline(never)]
    fn look_up_new(&mut self, facts: &'f Facts<'_, '_>, rule: &'f Rule) -> bool {
        rule.limit().is_some_and(|limit| self.look_up(limit, facts, rule))
    }

    /// The variant for the key that was looked up. Where a request may be from several that have a
    /// quota of their own, it is from the one that has least.
    #[inline]
    pub(crate) fn variant(
        &mut self,
        limit: &'f Limit,
        facts: &'f Facts<'_, '_>,
        rule: &'f Rule,
    ) -> usize {
        let variant = limit.variant(facts, &self.parts);
        if limit.overrides.by_values.is_empty() {
            return variant;
        }
        let torn = limit.overrides.of_torn(facts, &self.parts, &rule.matcher);
        torn.into_iter().fold(variant, |variant, (other, parts)| {
            if !limit.variants[other].is_tighter_than(&limit.variants[variant]) {
                return variant;
            }
            (self.parts, self.source) = (parts, KeySource::OF_ITS_OWN);
            other
        })
    }

    pub(crate) fn who(&self) -> Who<'_, 'f> {
        Who { parts: &self.parts, source: self.source }
    }

    pub(crate) fn parts(&self) -> &[Part<'f>] {
        &self.parts
    }

    pub(crate) fn into_parts(self) -> Parts<'f> {
        self.parts
    }
}
