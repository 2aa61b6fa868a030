//! What a key is known by in its shard: hash, then rule.

use super::rule::RuleId;

/// What a key is known by in its shard: hash, then rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct SlotKey(pub(super) u64);

impl SlotKey {
    /// The tag of `hash` under `rule`.
    #[inline]
    pub(super) fn new(hash: u64, rule: RuleId) -> SlotKey {
        SlotKey((hash >> RULE_BITS) << RULE_BITS | u64::from(rule))
    }

    /// This key, or group, under another rule.
    pub(super) fn under(self, rule: RuleId) -> SlotKey {
        SlotKey(hash_of(self.0) << RULE_BITS | u64::from(rule))
    }

    /// Another hash under the same rule.
    pub(super) fn at_hash(self, hash: u64) -> SlotKey {
        SlotKey(hash << RULE_BITS | u64::from(rule_of(self.0)))
    }
}

/// The rule in a tag.
#[expect(clippy::cast_possible_truncation, reason = "the lower bits are the rule")]
pub(super) const fn rule_of(slot_key: u64) -> RuleId {
    slot_key as RuleId
}

/// The part of a tag that says where it lives; the rest tells apart the rules of one key.
pub(super) const fn hash_of(slot_key: u64) -> u64 {
    slot_key >> RULE_BITS
}

/// How many bits of a tag name the rule.
pub(super) const RULE_BITS: u32 = RuleId::BITS;
