//! Exports the states of a store while it goes on deciding.
//!
//! Shard by shard: what is in one is copied under its lock, and made bytes of once the lock is
//! free. The shards of the three sizes are copied together, because a change of quota can move a
//! key from one to another; it would be in neither otherwise, and begin afresh.

use std::io::{self, Write};

use tidegate_core::{Policy, State, Tick};

use super::groups::Group;
use super::limit_table::{LimitTable, read};
use super::rule::{Rule, RuleId};
use super::shard::Shard;
use super::slot_key::{hash_of, rule_of};
use super::{MemoryStore, Table};
use crate::key::Keys;
use crate::snapshot::{
    Block, BlockWriter, Declared, Entry, Exported, Footer, Header, NamedRule, StatesWriter,
};
use crate::sync::lock;

impl MemoryStore {
    /// Writes the states of `rules` to `out`, as of about `now`; [`MemoryStore::restore`] reads
    /// them. Other rules are left out.
    ///
    /// Decisions go on meanwhile: none waits for longer than it takes to copy one shard, a few
    /// thousand keys, and nothing is written while a lock is held. Each state is one that its key
    /// really had, in the course of this call; a decision that is made during it may or may not be
    /// in the snapshot, whatever another one is that was made before or after it.
    ///
    /// The snapshot holds the seed of the keys. Who knows it can aim at collisions, so it is to be
    /// kept from others.
    pub fn export(
        &self,
        rules: &[NamedRule<'_>],
        now: Tick,
        out: &mut dyn Write,
    ) -> io::Result<Exported> {
        let mut out = BlockWriter::new(out)?;
        out.block(Block::Header, &self.header(now).to_bytes())?;
        let mut known = Known::new(rules);
        let mut states = StatesWriter::default();
        let mut copy = Copied::default();
        for shard in 0..self.tables[0].shards() {
            for (policy, entry) in self.entries(shard, &mut known, &mut copy, now) {
                let rule = known.declare(entry.rule, policy, &mut states, &mut out)?;
                states.push(&Entry { rule, ..entry }, &policy, &mut out)?;
            }
        }
        states.flush(&mut out)?;
        // At the end: what is not in the snapshot may have been forgotten only just now.
        let swept_at = [0, 1, 2].map(|table: usize| self.tables[table].swept_at());
        let (states, sum) = (states.states(), out.sum());
        let footer = Footer { rules: known.declared as u64, states, swept_at, sum };
        out.block(Block::Footer, &footer.to_bytes())?;
        let owing = known.rules.iter().map(|rule| rule.owing).collect();
        Ok(Exported { bytes: out.bytes(), states, owing })
    }

    fn header(&self, now: Tick) -> Header {
        let (seed, shard_bits) = (self.keys.seed(), self.tables[0].bits());
        Header {
            at: now,
            seed,
            sample: Keys::seeded(seed, u64::BITS).sample(),
            shard_bits,
            hash_bits: self.keys.bits().min(shard_bits + HASH_BITS),
            keys_max: self.keys_max as u64,
        }
    }

    /// The states in the shards of this number, of rules that are known.
    fn entries(
        &self,
        shard: usize,
        known: &mut Known<'_>,
        copy: &mut Copied,
        now: Tick,
    ) -> Vec<(Policy, Entry)> {
        // Every id in the copy stays whose it is, and its rule what it is.
        let _no_ids_given_up = lock(&self.naming);
        self.copy(shard, copy);
        // After the copy: every id in it is known by now.
        let limit_table = read(&self.limit_table);
        known.look_up(&limit_table);
        known.entries(copy, (shard, self.tables[0].bits()), (&limit_table, now))
    }

    /// Copies what is in the shards of this number, of each size.
    fn copy(&self, shard: usize, copy: &mut Copied) {
        copy.clear();
        let [one, two, lists] = [0, 1, 2].map(|table: usize| self.tables[table].lock(shard));
        for shard in [&one, &two, &lists] {
            copy.groups.extend(shard.rest.groups.each());
        }
        copy.words[0].extend_from_slice(one.slots().words());
        copy.words[1].extend_from_slice(two.slots().words());
        lists.copy_lists(|slot_key, state| copy.add_list(slot_key, state));
    }
}

/// Bits of a hash that a tag holds.
pub(super) const HASH_BITS: u32 = u64::BITS - RuleId::BITS;

/// What was in the shards of one number.
#[derive(Debug, Default)]
struct Copied {
    /// Slots of one word of state, and of two, empty ones included.
    words: [Vec<u64>; 2],
    /// Groups of keys that there was no room for.
    groups: Vec<Group>,
    /// Each list by its tag, with what it has seen, and how many events it has.
    lists: Vec<(u64, (Tick, bool), usize)>,
    /// The events of all lists, one after the other.
    events: Vec<(Tick, u32)>,
}

impl Copied {
    fn clear(&mut self) {
        self.words.iter_mut().for_each(Vec::clear);
        self.groups.clear();
        self.lists.clear();
        self.events.clear();
    }

    fn add_list(&mut self, slot_key: u64, state: &State) {
        let before = self.events.len();
        self.events.extend(state.events());
        let count = self.events.len() - before;
        self.lists.push((slot_key, state.seen().unwrap_or_default(), count));
    }

    /// Every tag, its state as it is under the policy of that tag's rule, and how wide its group is
    /// if it is one; `None` for rules that are not exported.
    fn each(
        &self,
        policy_of: impl Fn(RuleId) -> Option<Policy>,
        mut each: impl FnMut(u64, State, Option<u64>),
    ) {
        for group in &self.groups {
            if let Some(policy) = policy_of(rule_of(group.slot_key.0)) {
                each(group.slot_key.0, policy.of_gist(group.gist), Some(group.width));
            }
        }
        for (words, stride) in self.words.iter().zip([2, 3]) {
            for slot in words.chunks_exact(stride).filter(|slot| slot[0] != 0) {
                if let Some(policy) = policy_of(rule_of(slot[0])) {
                    let second = slot.get(2).copied().unwrap_or(0);
                    each(slot[0], policy.unpack([slot[1], second]), None);
                }
            }
        }
        let mut events = &self.events[..];
        for &(slot_key, seen, count) in &self.lists {
            let (own, rest) = events.split_at(count);
            events = rest;
            let policy = policy_of(rule_of(slot_key));
            let list = policy.and_then(|policy| policy.list(seen, own.iter().copied()));
            if let Some(state) = list {
                each(slot_key, state, None);
            }
        }
    }
}

/// The rules that are exported, and the ids under which their states are written.
struct Known<'a> {
    rules: Vec<KnownRule<'a>>,
    /// By id, the rule's place in the list; nothing for those that are left out.
    by_id: Vec<Option<usize>>,
    /// The version of the book in which they were looked up.
    version: Option<u64>,
    /// How many rules have been declared.
    declared: usize,
}

struct KnownRule<'a> {
    named: NamedRule<'a>,
    /// The policies under which it was declared, and its number under each.
    declared: Vec<(Policy, usize)>,
    owing: u64,
}

impl<'a> Known<'a> {
    fn new(rules: &[NamedRule<'a>]) -> Known<'a> {
        let known = rules.iter();
        let known = known.map(|it| KnownRule { named: *it, declared: Vec::new(), owing: 0 });
        Known { rules: known.collect(), by_id: Vec::new(), version: None, declared: 0 }
    }

    /// Notes which id is of which rule, if that has changed.
    fn look_up(&mut self, limit_table: &LimitTable) {
        if self.version.replace(limit_table.version()) != Some(limit_table.version()) {
            let rules: Vec<Rule> = self.rules.iter().map(|it| it.named.rule.clone()).collect();
            self.by_id = limit_table.places(&rules);
        }
    }

    /// The states of a copy, rule by rule and policy by policy: each under that by which its key
    /// was last asked about.
    fn entries(
        &mut self,
        copy: &Copied,
        (shard, bits): (usize, u32),
        (limit_table, now): (&LimitTable, Tick),
    ) -> Vec<(Policy, Entry)> {
        let mut entries = Vec::new();
        let by_id = &self.by_id;
        let rule_of_id = |id: RuleId| by_id.get(usize::from(id)).copied().flatten();
        let policy_of = |id| rule_of_id(id).and(limit_table.policy(id)).copied();
        copy.each(policy_of, |slot_key, state, width| {
            let id = rule_of(slot_key);
            let Some((rule, policy)) = rule_of_id(id).zip(policy_of(id)) else { return };
            // The shard's bits first, then those that are in the tag: the hash as it was.
            let first = (shard as u64).wrapping_shl(u64::BITS - bits);
            let hash = first | hash_of(slot_key).wrapping_shl(RuleId::BITS - bits);
            let group = width.map(|width| width.wrapping_shl(RuleId::BITS - bits));
            entries.push((id, policy, Entry { rule, hash, group, state }));
        });
        entries.sort_by_key(|(id, _, entry)| (entry.rule, *id, entry.group.is_some()));
        for (_, policy, entry) in &entries {
            self.rules[entry.rule].owing += u64::from(!policy.is_fresh(&entry.state, now));
        }
        entries.into_iter().map(|(_, policy, entry)| (policy, entry)).collect()
    }

    /// The number of a rule under a policy; it is declared before its first state.
    fn declare(
        &mut self,
        rule: usize,
        policy: Policy,
        states: &mut StatesWriter,
        out: &mut BlockWriter<'_>,
    ) -> io::Result<usize> {
        let KnownRule { named, declared, .. } = &mut self.rules[rule];
        if let Some((_, number)) = declared.iter().find(|(known, _)| *known == policy) {
            return Ok(*number);
        }
        states.flush(out)?;
        let NamedRule { name, limit, .. } = *named;
        out.block(Block::Rule, &Declared { name, limit, policy }.to_bytes())?;
        declared.push((policy, self.declared));
        self.declared += 1;
        Ok(self.declared - 1)
    }
}

impl Shard {
    /// Shows every list beside its tag.
    fn copy_lists(&self, mut each: impl FnMut(u64, &State)) {
        for index in (0..self.slots().len()).filter(|&index| self.slots().slot_key(index) != 0) {
            if let Some(state) = self.list(index) {
                each(self.slots().slot_key(index), state);
            }
        }
    }
}

impl Table {
    /// How many shards there are.
    pub(super) fn shards(&self) -> usize {
        1 << self.bits()
    }
}
