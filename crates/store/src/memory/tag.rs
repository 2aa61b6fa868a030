//! What a key is known by in its shard: hash, then rule.

use super::rule::RuleId;

/// What a key is known by in its shard: hash, then rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Tag(pub(super) u64);

impl Tag {
    /// The tag of `hash` under `rule`. A hash of zero is the crowd's, and nobody else's.
    #[inline]
    pub(super) fn new(hash: u64, rule: RuleId) -> Tag {
        Tag((hash >> RULE_BITS).max(1) << RULE_BITS | u64::from(rule))
    }

    /// The same key, or crowd, under another rule.
    pub(super) fn under(self, rule: RuleId) -> Tag {
        Tag(hash_of(self.0) << RULE_BITS | u64::from(rule))
    }

    /// Under which the states of `rule` that had to make room are folded together.
    pub(super) const fn crowd(rule: RuleId) -> Tag {
        Tag(rule as u64)
    }
}

/// The rule in a tag.
#[expect(clippy::cast_possible_truncation, reason = "the lower bits are the rule")]
pub(super) const fn rule_of(tag: u64) -> RuleId {
    tag as RuleId
}

/// The part of a tag that says where it lives; the rest tells apart the rules of one key.
pub(super) const fn hash_of(tag: u64) -> u64 {
    tag >> RULE_BITS
}

/// How many bits of a tag name the rule.
pub(super) const RULE_BITS: u32 = RuleId::BITS;
