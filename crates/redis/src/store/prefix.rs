//! What the names of a store's keys begin with: who has the same counts together.

use std::sync::Arc;

use super::RedisStore;

/// Without a name.
pub(super) const USUAL_PREFIX: &str = "tg:";

/// What the name of every key begins with.
#[derive(Clone, Debug)]
pub(super) struct Prefix {
    pub(super) text: Arc<str>,
    /// Whether it was given when the store was built.
    pub(super) is_given: bool,
}

impl RedisStore {
    /// What the name of every key begins with.
    pub fn prefix(&self) -> &str {
        &self.prefix.text
    }

    /// This store for a policy of this name, which may have none: its keys begin with `tg:NAME:`. A
    /// store that was built with a prefix keeps that.
    #[must_use]
    pub fn for_policy(&self, name: Option<&str>) -> RedisStore {
        if self.prefix.is_given {
            return self.clone();
        }
        let text = name.map_or(USUAL_PREFIX.into(), prefix_of);
        RedisStore { prefix: Prefix { text: text.into(), is_given: false }, ..self.clone() }
    }
}

/// The prefix that goes with a name. No tenant follows without its brace, so that no name with
/// another name behind it is taken for a third.
pub(super) fn prefix_of(name: &str) -> String {
    format!("{USUAL_PREFIX}{name}:")
}
