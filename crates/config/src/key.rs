//! Which rules count by the same key: it is looked up once for all of them.

use std::collections::HashMap;

use foldhash::quality::RandomState;

use crate::attribute::Attribute;
use crate::rule::{Action, Missing, Rule};

/// What a rule's key is taken from. Of one request, all rules with the same source have the same
/// key, but for keys that depend on the rule's own match: see [`KeySource::is_shared_with`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct KeySource(u32);

impl KeySource {
    /// For a key that also depends on the rule's match.
    pub(crate) const OF_ITS_OWN: KeySource = KeySource(0);

    /// Whether one key for this source is one for the other.
    pub fn is_shared_with(self, other: KeySource) -> bool {
        self == other && self != KeySource::OF_ITS_OWN
    }
}

/// Notes for every rule what its key is taken from.
pub(crate) fn find_sources(list: &mut [Rule]) {
    let mut known: HashMap<(Vec<Attribute>, Missing), u32, RandomState> = HashMap::default();
    for rule in list {
        let Action::Limit(limit) = &mut rule.action else { continue };
        // Identities of the file are made of nothing that a match has named.
        if limit.key.iter().any(|attribute| matches!(attribute, Attribute::Named(_))) {
            continue;
        }
        let next = u32::try_from(known.len() + 1).unwrap_or(0);
        let source = known.entry((limit.key.clone(), limit.missing)).or_insert(next);
        limit.source = KeySource(*source);
    }
}
