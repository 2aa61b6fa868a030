//! States in this process: exact under threads, bounded, and forgotten without a background thread.
//!
//! Keys are spread over shards by their hash. A decision takes one lock for a few nanoseconds of
//! arithmetic; a decision over several keys takes all the locks that it needs if nobody has one,
//! and else waits for them in one order, so that nobody waits in a circle. States of one word, of
//! two and of lists have tables of their own.
//!
//! **At the cap** nothing that is owed is given back. What is fresh makes room; as long as nothing
//! is, new keys are judged in groups, each with all others whose hashes begin alike. There are a
//! quarter as many groups as keys: a flood of made-up keys costs a newcomer its allowance only if
//! it hit the same group, and time heals it. A key that is known is judged by itself all the while.
//! Permits cannot be shared like that; there a newcomer is refused until something is free.

mod debt;
mod export;
mod few;
mod forget;
mod gaps;
mod groups;
mod later;
mod limit_table;
mod lists;
mod lock;
mod name;
mod one;
mod overflow;
mod prefetch;
mod restore;
mod rule;
mod seam;
mod several;
mod shard;
mod slot_key;
mod slots;
mod stats;
mod table;

use std::fmt;

use tidegate_core::{Decision, Policy, Receipt, Tick};

use self::gaps::Gaps;
use self::limit_table::{LimitTable, read};
use self::one::Held;
use self::shard::Shard;
use self::slot_key::SlotKey;
use self::table::Table;
use crate::key::{Key, KeyTooLong, Keys};
use crate::sync::{Mutex, RwLock};

pub use self::limit_table::Wanted;
pub use self::name::PreparedRules;
pub use self::rule::{Rule, TooManyRules};
pub use self::stats::MemoryStats;

/// Keeps states in this process.
///
/// ```
/// use tidegate_core::{Policy, Quota, Tick, Verdict};
/// use tidegate_store::MemoryStore;
///
/// let store = MemoryStore::new();
/// let rule = store.rule(Policy::token_bucket(Quota::per_minute(2))?)?;
/// let key = store.key(("client", 42))?;
/// let now = Tick::from_micros(0);
///
/// assert_eq!(store.decide(&rule, key, now, 1).verdict, Verdict::Allow);
/// assert_eq!(store.decide(&rule, key, now, 1).verdict, Verdict::Allow);
/// assert!(!store.decide(&rule, key, now, 1).verdict.passes());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MemoryStore {
    keys: Keys,
    limit_table: RwLock<LimitTable>,
    /// Held while rules are named, one after the other; before any other lock.
    naming: Mutex<()>,
    /// For states of one word, of two, and of lists.
    tables: [Table; 3],
    /// Slots of queues that were given back from the middle.
    gaps: Gaps,
    /// How many keys there may be, of each size.
    keys_max: usize,
}

/// One request under one rule, for a batch or among several limits.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The rule to judge by.
    pub rule: &'a Rule,
    /// The key to charge.
    pub key: Key,
    /// How many cells.
    pub cost: u32,
}

impl<'a> AsRef<Charge<'a>> for Charge<'a> {
    fn as_ref(&self) -> &Charge<'a> {
        self
    }
}

impl MemoryStore {
    /// Keys that a store holds unless told otherwise, of each of the three sizes of state.
    pub const KEYS_MAX: usize = 1 << 20;

    /// The most rules that one request may be judged by together.
    pub const LIMITS_MAX: usize = 16;

    /// Bytes that one key takes at most, its share of the empty slots included; a log's events
    /// come on top, at 8 bytes each.
    pub const BYTES_PER_KEY: usize = 40;

    /// Keys to a shard: enough to even out chance, few enough to go through in microseconds.
    const KEYS_PER_SHARD: usize = 2_048;

    /// A store for at most [`MemoryStore::KEYS_MAX`] keys of each size.
    pub fn new() -> MemoryStore {
        MemoryStore::with_keys_max(MemoryStore::KEYS_MAX)
    }

    /// A store for at most `keys_max` keys of each size: one word, two words, and lists.
    ///
    /// It begins to make room a few percent before, when the first shard is full.
    pub fn with_keys_max(keys_max: usize) -> MemoryStore {
        // More than any machine has room for is not reserved.
        let keys_max = keys_max.min(1 << 32);
        let shards = (keys_max / MemoryStore::KEYS_PER_SHARD).max(2).next_power_of_two();
        let (bits, keys_max) = (shards.trailing_zeros().min(16), keys_max.max(8));
        MemoryStore {
            keys: Keys::new(),
            limit_table: RwLock::default(),
            naming: Mutex::default(),
            tables: [1, 2, 0].map(|words| Table::new(words, bits, keys_max)),
            gaps: Gaps::default(),
            keys_max,
        }
    }

    /// A store whose slots take at most `bytes_max` bytes, if all its rules are of one size.
    pub fn with_bytes_max(bytes_max: usize) -> MemoryStore {
        MemoryStore::with_keys_max(bytes_max / MemoryStore::BYTES_PER_KEY)
    }

    /// The key of `parts`; see [`Keys::key`].
    #[inline]
    pub fn key(&self, parts: impl std::hash::Hash) -> Result<Key, KeyTooLong> {
        self.keys.key(parts)
    }

    /// A key that `make` makes of the store's hashes.
    #[inline]
    pub fn key_of<K>(&self, make: impl FnOnce(&Keys) -> K) -> K {
        make(&self.keys)
    }

    /// Decides one request, and charges it if it passes.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "whoever wants only the verdict pays only for that")]
    pub fn decide(&self, rule: &Rule, key: Key, now: Tick, cost: u32) -> Decision {
        if rule.table == 0 {
            self.decide_word(rule, key, now, cost)
        } else {
            self.decide_with_receipt(rule, key, now, cost).0
        }
    }

    /// As [`MemoryStore::decide`], with a receipt for what passed, to refund it by.
    #[inline(never)]
    pub fn decide_with_receipt(
        &self,
        rule: &Rule,
        key: Key,
        now: Tick,
        cost: u32,
    ) -> (Decision, Option<Receipt>) {
        self.with_shard(rule, key, now, |shard, rule, slot_key| {
            let answer = shard.decide(rule, slot_key, now, cost, &self.limit_table);
            (answer, shard.counts_call().map(|index| (index, now)))
        })
    }

    /// The way of a key that is known, under a state of one word: that of nearly every decision.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "whoever wants only the verdict pays only for that")]
    fn decide_word(&self, rule: &Rule, key: Key, now: Tick, cost: u32) -> Decision {
        let table = &self.tables[0];
        let place = table.place(key);
        let mut shard = table.lock(place.shard);
        let word = shard.slots_mut().word_of(place.slot_key(rule.id));
        // While the shard is locked: the id may be another rule's by now.
        let Some(word) = word.filter(|_| !rule.is_changed()) else {
            drop(shard);
            return self.decide_with_receipt(rule, key, now, cost).0;
        };
        let decision = rule.policy.decide_word(word, now, cost);
        let due = shard.counts_call();
        drop(shard);
        if let Some(index) = due {
            self.sweep(index, now);
        }
        decision
    }

    /// The policy of `rule` as it is now, if it was changed meanwhile.
    pub fn policy(&self, rule: &Rule) -> Policy {
        rule.latest().map_or(rule.policy, |latest| latest.policy)
    }

    /// Decides many requests, each by itself, in their order. Faster than one by one: the memory
    /// that they need is asked for before the first of them.
    pub fn decide_batch(&self, charges: &[Charge<'_>], now: Tick, mut each: impl FnMut(Decision)) {
        for charges in charges.chunks(MemoryStore::BATCH) {
            for charge in charges {
                self.prefetch(charge);
            }
            self.decide_prefetched(charges, now, &mut each);
        }
    }

    /// Asks for the memory that `charge` will need: a hint, for a caller that decides many at once.
    /// More than [`MemoryStore::BATCH`] of them under way help nobody.
    #[inline]
    pub fn prefetch(&self, charge: &Charge<'_>) {
        let table = &self.tables[charge.rule.table];
        table.prefetch(table.place(charge.key), charge.rule.id);
    }

    /// Decides what [`MemoryStore::prefetch`] has been called for.
    pub(crate) fn decide_prefetched(
        &self,
        charges: &[Charge<'_>],
        now: Tick,
        each: &mut impl FnMut(Decision),
    ) {
        for charge in charges {
            each(self.decide(charge.rule, charge.key, now, charge.cost));
        }
    }

    /// How many requests of a batch are prepared together: as many lines as are worth having under
    /// way at once.
    pub const BATCH: usize = 64;

    /// What [`MemoryStore::decide`] would answer, without charging.
    pub fn peek(&self, rule: &Rule, key: Key, now: Tick, cost: u32) -> Decision {
        self.with_shard(rule, key, now, |shard, rule, slot_key| {
            (shard.peek(rule, slot_key, now, cost), None)
        })
    }

    /// How many keys there may be, of each size.
    pub fn keys_max(&self) -> usize {
        self.keys_max
    }

    /// How many states are kept.
    pub fn len(&self) -> usize {
        self.tables.iter().map(Table::live).sum()
    }

    /// What it holds, and what it has let go of, since it was made.
    ///
    /// It goes through all shards, one lock at a time, and through all lists: for a metrics page,
    /// not for every request.
    pub fn stats(&self) -> MemoryStats {
        self.tables.iter().map(Table::stats).fold(MemoryStats::default(), MemoryStats::and)
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Does `work` in the shard of `key`, by what `rule` has become, and sweeps if that is due.
    fn with_shard<T>(
        &self,
        rule: &Rule,
        key: Key,
        now: Tick,
        mut work: impl FnMut(&mut Shard, &Rule, SlotKey) -> (T, Option<(usize, Tick)>),
    ) -> T {
        loop {
            let latest = rule.latest();
            let rule = latest.as_deref().unwrap_or(rule);
            let place = self.tables[rule.table].place(key);
            let mut held: Held<'_, 3> = self.hold(std::iter::once((rule, key)));
            if !held.is_enough(rule, place.shard) {
                continue;
            }
            held.bring(rule, place, now, &self.limit_table);
            let shard = held.shard((rule.table, place.shard));
            let (answer, due) = work(shard, rule, place.slot_key(rule.id));
            self.let_go(held);
            if let Some((index, now)) = due {
                self.sweep(index, now);
            }
            return answer;
        }
    }

    /// Sweeps a little of every table: one that nobody uses any more forgets as well.
    fn sweep(&self, index: usize, now: Tick) {
        let limit_table = read(&self.limit_table);
        self.tables.iter().for_each(|table| table.sweep(index, now, &limit_table));
    }
}

/// How much it may hold, and not what it does: that may be a million keys.
impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("keys_max", &self.keys_max).finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

#[cfg(all(test, not(loom)))]
mod lines;
