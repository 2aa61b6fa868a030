//! Quotas of single keys.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use smallvec::SmallVec;

use crate::attribute::Attribute;
use crate::facts::{Facts, Part, Parts, VALUE_BYTES_MAX, Value};
use crate::matcher::Matcher;

/// Quotas of single keys.
#[derive(Debug, Default)]
pub(crate) struct Overrides {
    /// By the values of the key.
    pub(crate) by_values: HashMap<Box<[u8]>, Vec<Overridden>, RandomState>,
    /// What their keys are made of, in the order in which a request is asked for it.
    ways: Vec<Vec<Attribute>>,
}

/// A key with a quota of its own. Where its values are from is a part of who somebody is: a client
/// that sends the name of another in a header is not that other.
#[derive(Debug)]
pub(crate) struct Overridden {
    pub(crate) sources: Vec<Attribute>,
    /// The place of its variant.
    pub(crate) variant: usize,
}

impl Overrides {
    /// All of them, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Overridden> {
        self.by_values.values().flatten()
    }

    pub(crate) fn of(&self, parts: &[Part<'_>]) -> Option<usize> {
        if self.by_values.is_empty() {
            return None;
        }
        let mut key: SmallVec<[u8; 128]> = SmallVec::new();
        for part in parts {
            match &part.value {
                Value::Address(group) => add(&mut key, group.to_string().as_bytes()),
                Value::Bytes(bytes) => add(&mut key, bytes),
                Value::Missing => return None,
            }
        }
        let is_it = |known: &&Overridden| known.sources.iter().eq(parts.iter().map(|it| it.source));
        self.by_values.get(&key[..])?.iter().find(is_it).map(|known| known.variant)
    }

    /// The keys with a quota of their own that a request may be from beside `parts`, because it
    /// says what they are made of more than once: which the application takes is not for us to
    /// know.
    pub(crate) fn of_torn<'f>(
        &'f self,
        facts: &'f Facts<'_, '_>,
        parts: &[Part<'_>],
        within: &'f Matcher,
    ) -> Vec<(usize, Parts<'f>)> {
        let is_taken = |way: &&Vec<Attribute>| {
            let is_whole = parts.iter().all(|part| part.value != Value::Missing);
            is_whole && way.iter().eq(parts.iter().map(|part| part.source))
        };
        // What stands behind the one that was found is nobody's.
        let before = self.ways.iter().take_while(|way| !is_taken(way));
        let torn = before.filter(|way| way.iter().any(|source| facts.is_torn(source)));
        let keys = torn.flat_map(|way| keys_of(way, facts, within));
        keys.filter_map(|key| Some((self.of(&key)?, key))).collect()
    }

    /// Gives a key a variant; `false` if it has one.
    pub(crate) fn add(&mut self, sources: &[Attribute], values: &[String], variant: usize) -> bool {
        let mut key: SmallVec<[u8; 128]> = SmallVec::new();
        for value in values {
            add(&mut key, value.as_bytes());
        }
        let known = self.by_values.entry(key.into_vec().into()).or_default();
        if known.iter().any(|known| known.sources == sources) {
            return false;
        }
        if !self.ways.iter().any(|way| way == sources) {
            self.ways.push(sources.to_vec());
        }
        known.push(Overridden { sources: sources.to_vec(), variant });
        true
    }
}

/// Adds a value with its length, so that values do not run together.
fn add(key: &mut SmallVec<[u8; 128]>, value: &[u8]) {
    key.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_le_bytes());
    key.extend_from_slice(value);
}

/// The keys that a request has by one way, with each of the values that it says.
fn keys_of<'f>(
    way: &'f [Attribute],
    facts: &'f Facts<'_, '_>,
    within: &'f Matcher,
) -> Vec<Parts<'f>> {
    let mut keys = vec![Parts::new()];
    for source in way {
        let mut values = Parts::new();
        match facts.repeated(source) {
            Some(mut said) => {
                said.sort_unstable();
                said.dedup();
                said.retain(|value| !value.is_empty() && value.len() <= VALUE_BYTES_MAX);
                let part = |value| Part { source, value: Value::Bytes(value) };
                values.extend(said.into_iter().map(part));
            }
            None => drop(facts.push(source, Some(within), &mut values)),
        }
        let longer = |key: &Parts<'f>, value: &Part<'f>| {
            key.iter().chain([value]).cloned().collect::<Parts<'f>>()
        };
        let all = keys.iter().flat_map(|key| values.iter().map(move |value| longer(key, value)));
        keys = all.take(values.len().max(TORN_MAX)).collect();
    }
    keys
}

/// As many keys are looked for where several parts of one are said more than once; of one part,
/// each value that is said.
const TORN_MAX: usize = 1_024;
