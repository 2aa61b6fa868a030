//! Makes a store of a snapshot. It is handed out only once all of the snapshot has been checked.
//!
//! A store for more keys has more shards, and may want to know more bits of a hash than the
//! snapshot has. Then all its keys are known by those bits that there are, for as long as its
//! states are handed on: two keys are a little more likely to share a state.

use std::collections::HashMap;
use std::io::Read;

use super::export::HASH_BITS;
use super::rule::Rule;
use super::tag::Tag;
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
    /// no room for all, those that are soonest fresh make room, as in any full store; lists are all
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
                    return Ok(restoring.done(&footer));
                }
            }
        }
    }

    /// Puts a state where its key will look for it. The store is nobody else's yet.
    fn settle(&self, entry: Entry, rule: &Rule, header: &Header, makes_room: bool) {
        let table = &self.tables[rule.table];
        let Entry { hash, is_crowd, state, .. } = entry;
        if !is_crowd {
            let place = table.place(Key::of_hash(hash));
            let mut shard = table.lock(place.shard);
            if makes_room {
                // A list that there is no room for is kept nevertheless: it is owed.
                let _ = shard.make_room(header.at, 1, &self.book);
            }
            shard.adopt(place.tag(rule.id), &rule.policy, state);
            table.note(place.shard, &shard);
            return;
        }
        for index in table.shards_of(hash, header.shard_bits) {
            let mut shard = table.lock(index);
            shard.adopt(Tag::crowd(rule.id), &rule.policy, state.clone());
            table.note(index, &shard);
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
            let (name, also) = (declared.name.to_owned(), declared.also.to_owned());
            self.by_name.insert(name.clone(), self.rules.len());
            self.rules.push(RestoredRule { name, also, rule: rule.clone() });
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
    /// The shards in which the keys are now that were in one shard, of `bits` bits, before.
    fn shards_of(&self, hash: u64, bits: u32) -> std::ops::Range<usize> {
        let first = hash.wrapping_shr(u64::BITS - self.bits());
        let count = 1_usize << self.bits().saturating_sub(bits);
        // At most 16 bits, so it fits; and it begins where those keys do.
        let first = usize::try_from(first).unwrap_or(0) / count * count;
        first..first + count
    }
}
