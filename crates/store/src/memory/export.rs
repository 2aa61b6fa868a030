//! Exports the states of a store while it goes on deciding.
//!
//! Shard by shard: what is in one is copied under its lock, and made bytes of once the lock is
//! free. The shards of the three sizes are copied together, because a change of quota can move a
//! key from one to another; it would be in neither otherwise, and begin afresh.

use std::io::{self, Write};

use tidegate_core::{Policy, State, Tick};

use super::book::{Book, read};
use super::groups::Group;
use super::rule::{Rule, RuleId};
use super::shard::Shard;
use super::tag::{hash_of, rule_of};
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
            for entry in self.entries(shard, &mut known, &mut copy, now) {
                known.declare(entry.rule, &mut states, &mut out)?;
                let declared = Entry { rule: known.rules[entry.rule].declared, ..entry };
                states.push(&declared, &known.rules[entry.rule].latest.policy, &mut out)?;
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
    ) -> Vec<Entry> {
        // Every id in the copy stays whose it is.
        let _no_ids_given_up = lock(&self.naming);
        self.copy(shard, copy);
        // After the copy: every id in it is known by now.
        known.look_up(&read(&self.book));
        known.entries(copy, (shard, self.tables[0].bits()), now)
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
        lists.copy_lists(|tag, state| copy.add_list(tag, state));
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

    fn add_list(&mut self, tag: u64, state: &State) {
        let before = self.events.len();
        self.events.extend(state.events());
        let count = self.events.len() - before;
        self.lists.push((tag, state.seen().unwrap_or_default(), count));
    }

    /// Every tag, its state as it is under the policy of that tag's rule, and how wide its group is
    /// if it is one; `None` for rules that are not exported.
    fn each(
        &self,
        policy_of: impl Fn(RuleId) -> Option<Policy>,
        mut each: impl FnMut(u64, State, Option<u64>),
    ) {
        for group in &self.groups {
            if let Some(policy) = policy_of(rule_of(group.tag.0)) {
                each(group.tag.0, policy.of_gist(group.gist), Some(group.width));
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
        for &(tag, seen, count) in &self.lists {
            let (own, rest) = events.split_at(count);
            events = rest;
            let policy = policy_of(rule_of(tag));
            let list = policy.and_then(|policy| policy.list(seen, own.iter().copied()));
            if let Some(state) = list {
                each(tag, state, None);
            }
        }
    }
}

/// The rules that are exported, and the ids under which their states are written.
struct Known<'a> {
    rules: Vec<KnownRule<'a>>,
    /// By id: the rule's place in the list, and one more. Zero for those that are left out.
    by_id: Vec<usize>,
    /// How often ids had been given up when they were looked up.
    collected: u64,
    /// How many rules have been declared.
    declared: usize,
}

struct KnownRule<'a> {
    named: NamedRule<'a>,
    /// What it has become; looked up again when it has changed.
    latest: Rule,
    /// The policy under which it was declared, if it was yet, and its number there.
    policy: Option<Policy>,
    declared: usize,
    owing: u64,
}

impl<'a> Known<'a> {
    fn new(rules: &[NamedRule<'a>]) -> Known<'a> {
        let known = rules.iter().map(|named| KnownRule {
            named: *named,
            latest: named.rule.clone(),
            policy: None,
            declared: 0,
            owing: 0,
        });
        Known { rules: known.collect(), by_id: Vec::new(), collected: 0, declared: 0 }
    }

    /// Notes what has become of rules that were changed.
    fn look_up(&mut self, book: &Book) {
        let is_new = self.by_id.is_empty() || self.collected != book.collected();
        if is_new {
            self.by_id = vec![0; usize::from(RuleId::MAX) + 1];
            self.collected = book.collected();
        }
        for (place, rule) in (1..).zip(&mut self.rules) {
            if !is_new && !rule.latest.is_changed() {
                continue;
            }
            if let Some(latest) = rule.named.rule.latest() {
                rule.latest = (*latest).clone();
            }
            for id in rule.latest.ids() {
                self.by_id[usize::from(id)] = place;
            }
        }
    }

    /// The states of a copy as they are under the latest policy of their rules, rule by rule.
    fn entries(&mut self, copy: &Copied, (shard, bits): (usize, u32), now: Tick) -> Vec<Entry> {
        let mut entries = Vec::new();
        let (rules, by_id) = (&self.rules, &self.by_id);
        let rule_of_id = |id: RuleId| by_id[usize::from(id)].checked_sub(1);
        let policy_of = |id| rules[rule_of_id(id)?].latest.policy_of(id);
        copy.each(policy_of, |tag, mut state, width| {
            let Some(rule) = rule_of_id(rule_of(tag)) else { return };
            rules[rule].latest.carry(rule_of(tag), &mut state);
            // The shard's bits first, then those that are in the tag: the hash as it was.
            let first = (shard as u64).wrapping_shl(u64::BITS - bits);
            let hash = first | hash_of(tag).wrapping_shl(RuleId::BITS - bits);
            let group = width.map(|width| width.wrapping_shl(RuleId::BITS - bits));
            entries.push(Entry { rule, hash, group, state });
        });
        entries.sort_by_key(|entry| (entry.rule, entry.group.is_some()));
        for entry in &entries {
            let rule = &mut self.rules[entry.rule];
            rule.owing += u64::from(!rule.latest.policy.is_fresh(&entry.state, now));
        }
        entries
    }

    /// Declares a rule before its first state, and again if its policy has changed since.
    fn declare(
        &mut self,
        rule: usize,
        states: &mut StatesWriter,
        out: &mut BlockWriter<'_>,
    ) -> io::Result<()> {
        let rule = &mut self.rules[rule];
        let policy = rule.latest.policy;
        if rule.policy == Some(policy) {
            return Ok(());
        }
        states.flush(out)?;
        let NamedRule { name, also, .. } = rule.named;
        out.block(Block::Rule, &Declared { name, also, policy }.to_bytes())?;
        (rule.policy, rule.declared) = (Some(policy), self.declared);
        self.declared += 1;
        Ok(())
    }
}

impl Shard {
    /// Shows every list beside its tag.
    fn copy_lists(&self, mut each: impl FnMut(u64, &State)) {
        for index in (0..self.slots().len()).filter(|&index| self.slots().tag(index) != 0) {
            if let Some(state) = self.list(index) {
                each(self.slots().tag(index), state);
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
