//! Makes a store of a snapshot. It is handed out only once all of the snapshot has been checked.
//!
//! A store for more keys has more shards, and may want to know more bits of a hash than the
//! snapshot has. Then all its keys are known by those bits that there are, for as long as its
//! states are handed on: two keys are a little more likely to share a state.

use std::collections::HashMap;
use std::io::Read;

use tidegate_core::State;

use super::export::HASH_BITS;
use super::groups::Group;
use super::limit_table::{Wanted, read};
use super::rule::Rule;
use super::slot_key::hash_of;
use super::{MemoryStore, Table};
use crate::key::{Key, Keys};
use crate::snapshot::{
    Block, BlockReader, Declared, Entry, Footer, Header, Restored, RestoredRule, SnapshotError,
    read_states,
};

impl MemoryStore {
    /// A store for at most `keys_max` keys of each size, with the states that are in a snapshot.
    ///
    /// A snapshot that is damaged anywhere is refused, and nothing of it is kept. The states are as
    /// they were, whatever the clock says by now: one that was set back pays nobody. Where there is
    /// no room for all, some are judged with their groups, as in any full store; permits are all
    /// kept, and no new one is until some have been forgotten.
    pub fn restore(from: &mut dyn Read, keys_max: usize) -> Result<Restored, SnapshotError> {
        let mut blocks = BlockReader::new(from)?;
        let header = match blocks.next()? {
            (Block::Header, _) => Header::read(blocks.content()),
            _ => None,
        };
        let header = header.ok_or_else(|| blocks.damaged("it has no header"))?;
        if Keys::seeded(header.seed, u64::BITS).sample() != header.sample {
            return Err(SnapshotError::Hashing);
        }
        let mut restoring = Restoring::new(header, keys_max);
        loop {
            let (kind, sum) = blocks.next()?;
            match kind {
                Block::Header => return Err(blocks.damaged("it has two headers")),
                Block::Rule => restoring.declare(&blocks)?,
                Block::States => restoring.put(&blocks)?,
                Block::Footer => {
                    let footer = Footer::read(blocks.content()).filter(|footer| footer.sum == sum);
                    let footer = footer.filter(|it| restoring.is_all(it));
                    let footer = footer.ok_or_else(|| blocks.damaged("its end does not fit it"))?;
                    blocks.end()?;
                    restoring.join()?;
                    return Ok(restoring.done(&footer));
                }
            }
        }
    }

    /// Puts a state where its key will look for it. The store is nobody else's yet.
    fn settle(&self, entry: Entry, rule: &Rule, header: &Header, makes_room: bool) {
        let table = &self.tables[rule.table];
        let Entry { hash, group, state, .. } = entry;
        if let Some(width) = group {
            // Of the shard that it was in, at most.
            let shard_end = hash | u64::MAX.wrapping_shr(header.shard_bits);
            let last = hash.saturating_add(width.saturating_sub(1)).min(shard_end);
            return self.settle_group((hash, last), &state, rule);
        }
        let place = table.place(Key::of_hash(hash));
        let (mut shard, slot_key) = (table.lock(place.shard), place.slot_key(rule.id));
        let has_room = !makes_room || shard.make_room(header.at, 1, &self.limit_table);
        if has_room || !shard.can_fold(rule, slot_key) {
            // A permit that there is no room for is kept nevertheless: it is owed.
            shard.adopt(slot_key, &rule.policy, state);
        } else {
            shard.fold(slot_key, &rule.policy, &state, &self.limit_table);
        }
        table.note(place.shard, &shard);
    }

    /// Has all keys between two hashes owe as much as `state`.
    fn settle_group(&self, (first, last): (u64, u64), state: &State, rule: &Rule) {
        let table = &self.tables[rule.table];
        let place = |hash| table.place(Key::of_hash(hash));
        for index in place(first).shard..=place(last).shard {
            let (start, end) = table.hashes_of(index);
            let [first, last] =
                [first.max(start), last.min(end)].map(|hash| place(hash).slot_key(rule.id));
            let width = hash_of(last.0) - hash_of(first.0) + 1;
            let group = Group { slot_key: first, width, gist: rule.policy.gist(state) };
            let groups = &mut table.lock(index).rest.groups;
            groups.fold_group(group, &rule.policy, &read(&self.limit_table));
        }
    }
}

struct Restoring {
    header: Header,
    store: MemoryStore,
    /// Rules in the order in which they were declared.
    declared: Vec<Rule>,
    rules: Vec<RestoredRule>,
    by_name: HashMap<String, usize>,
    states: u64,
    /// Whether the store is for fewer keys than that which was exported.
    is_smaller: bool,
}

impl Restoring {
    fn new(header: Header, keys_max: usize) -> Restoring {
        let mut store = MemoryStore::with_keys_max(keys_max);
        store.keys = Keys::seeded(header.seed, u64::BITS);
        let is_smaller = (store.keys_max as u64) < header.keys_max;
        let (declared, rules, by_name) = (Vec::new(), Vec::new(), HashMap::new());
        Restoring { header, store, declared, rules, by_name, states: 0, is_smaller }
    }

    fn declare(&mut self, blocks: &BlockReader<'_>) -> Result<(), SnapshotError> {
        let declared = Declared::read(blocks.content());
        let declared = declared.ok_or_else(|| blocks.damaged("a rule cannot be read"))?;
        let rule = if let Some(&place) = self.by_name.get(declared.name) {
            let before = &mut self.rules[place].rule;
            *before = self.store.change(before, declared.policy, self.header.at)?;
            before.clone()
        } else {
            let rule = self.store.rule(declared.policy)?;
            let (name, limit) = (declared.name.to_owned(), declared.limit.to_owned());
            self.by_name.insert(name.clone(), self.rules.len());
            self.rules.push(RestoredRule { name, limit, rule: rule.clone() });
            rule
        };
        self.declared.push(rule);
        Ok(())
    }

    fn put(&mut self, blocks: &BlockReader<'_>) -> Result<(), SnapshotError> {
        let Restoring { header, store, declared, states, is_smaller, .. } = self;
        let policy_of = |rule: usize| Some(*declared.get(rule)?.policy());
        let read = read_states(blocks.content(), policy_of, |entry| {
            *states += 1;
            let rule = &declared[entry.rule];
            store.settle(entry, rule, header, *is_smaller);
        });
        read.ok_or_else(|| blocks.damaged("a state cannot be read"))
    }

    fn is_all(&self, footer: &Footer) -> bool {
        footer.rules == self.declared.len() as u64 && footer.states == self.states
    }

    /// Makes rules quotas of one limit again that were that when they were exported.
    fn join(&mut self) -> Result<(), SnapshotError> {
        let mut by_limit: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, it) in self.rules.iter().enumerate() {
            let limit = if it.limit.is_empty() { &it.name } else { &it.limit };
            by_limit.entry(limit.clone()).or_default().push(place);
        }
        by_limit.retain(|_, places| 1 < places.len());
        let places: Vec<usize> = by_limit.values().flatten().copied().collect();
        let numbers = by_limit.values().enumerate();
        let numbers = numbers.flat_map(|(number, places)| places.iter().map(move |_| number));
        let rules: Vec<Rule> = places.iter().map(|&place| self.rules[place].rule.clone()).collect();
        let wanted = rules.iter().zip(numbers).map(|(rule, limit)| {
            let policy = *rule.policy();
            Wanted { policy, whole: policy, before: Some(rule), limit, others: &[] }
        });
        let made = self.store.put(&wanted.collect::<Vec<_>>(), self.header.at)?;
        for (place, rule) in places.into_iter().zip(made) {
            self.rules[place].rule = rule;
        }
        Ok(())
    }

    fn done(self, footer: &Footer) -> Restored {
        let Restoring { header, mut store, rules, states, .. } = self;
        for (table, swept_at) in store.tables.iter().zip(footer.swept_at) {
            table.forgets_by(swept_at);
        }
        if 0 < states && header.hash_bits < store.tables[0].bits() + HASH_BITS {
            store.keys = Keys::seeded(header.seed, header.hash_bits);
        }
        Restored { store, at: header.at, states, rules }
    }
}

impl Table {
    /// The first and the last hash in a shard.
    fn hashes_of(&self, index: usize) -> (u64, u64) {
        let first = (index as u64).wrapping_shl(u64::BITS - self.bits());
        (first, first | u64::MAX.wrapping_shr(self.bits()))
    }
}
