//! States as bytes: runs of one rule, each state beside the hash of its key.
//!
//! A state of words is those words; a list is its events. How many words there are is known from
//! the rule's policy, so one of a narrow bucket takes 16 bytes.

use std::io;

use tidegate_core::{Policy, State};

use super::block::{Block, BlockWriter};
use super::bytes::Bytes;

/// One state of a snapshot.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Entry {
    /// The rule by its place among those that were declared.
    pub(crate) rule: usize,
    /// What is known of the key's hash, first bits first; of a group, the first hash in it.
    pub(crate) hash: u64,
    /// Of a group of keys that there was no room for, how many hashes are in it.
    pub(crate) group: Option<u64>,
    pub(crate) state: State,
}

/// Gathers states to blocks.
#[derive(Debug, Default)]
pub(crate) struct StatesWriter {
    content: Vec<u8>,
    /// What the run that is being written is of, where its count is, and the count.
    run: Option<((usize, u8), usize, u32)>,
    states: u64,
}

impl StatesWriter {
    /// A block is closed once it is longer than this: a reader holds one at a time.
    const BLOCK: usize = 1 << 18;

    /// Adds a state that lives under `policy`.
    pub(crate) fn push(
        &mut self,
        entry: &Entry,
        policy: &Policy,
        out: &mut BlockWriter<'_>,
    ) -> io::Result<()> {
        if StatesWriter::BLOCK <= self.content.len() {
            self.flush(out)?;
        }
        self.count(entry.rule, entry.group.map_or(KEYS, |_| GROUPS));
        self.states += 1;
        let into = &mut self.content;
        into.extend(entry.hash.to_le_bytes());
        into.extend(entry.group.iter().flat_map(|width| width.to_le_bytes()));
        let words = policy.pack(&entry.state);
        for word in words.iter().take(policy.words()) {
            into.extend(word.to_le_bytes());
        }
        if policy.words() == 0 {
            put_list(&entry.state, into);
        }
        Ok(())
    }

    /// Writes what has been gathered.
    pub(crate) fn flush(&mut self, out: &mut BlockWriter<'_>) -> io::Result<()> {
        if !self.content.is_empty() {
            out.block(Block::States, &self.content)?;
        }
        self.content.clear();
        self.run = None;
        Ok(())
    }

    /// How many states were added.
    pub(crate) fn states(&self) -> u64 {
        self.states
    }

    /// Counts one more in the run that goes on, or begins another.
    fn count(&mut self, rule: usize, kind: u8) {
        let (of, at, count) = match self.run {
            Some((of, at, count)) if of == (rule, kind) => (of, at, count + 1),
            _ => {
                self.content.extend(u32::try_from(rule).unwrap_or(u32::MAX).to_le_bytes());
                self.content.push(kind);
                self.content.extend([0; 4]);
                ((rule, kind), self.content.len() - 4, 1)
            }
        };
        self.content[at..at + 4].copy_from_slice(&count.to_le_bytes());
        self.run = Some((of, at, count));
    }
}

/// Reads the states of a block, by the policies of the rules that were declared before it; `None`
/// if they are no such states.
pub(crate) fn read_states(
    content: &[u8],
    policy_of: impl Fn(usize) -> Option<Policy>,
    mut each: impl FnMut(Entry),
) -> Option<()> {
    let mut bytes = Bytes(content);
    while !bytes.is_empty() {
        let rule = usize::try_from(bytes.u32()?).ok()?;
        let kind = bytes.u8()?;
        let policy = policy_of(rule)?;
        for _ in 0..bytes.u32()? {
            let hash = bytes.u64()?;
            let group = match kind {
                KEYS => None,
                SHARD => Some(u64::MAX),
                GROUPS => Some(bytes.u64()?),
                _ => return None,
            };
            let state = read_state(&mut bytes, &policy)?;
            each(Entry { rule, hash, group, state });
        }
    }
    Some(())
}

fn read_state(bytes: &mut Bytes<'_>, policy: &Policy) -> Option<State> {
    match policy.words() {
        0 => read_list(bytes, policy),
        1 => policy.unpack_checked([bytes.u64()?, 0]),
        _ => policy.unpack_checked([bytes.u64()?, bytes.u64()?]),
    }
}

/// What a run of states is of: keys, groups of them, or whole shards, as they once were written.
const KEYS: u8 = 0;
const SHARD: u8 = 1;
const GROUPS: u8 = 2;

/// Bytes of an event.
const EVENT: usize = 12;

fn put_list(state: &State, into: &mut Vec<u8>) {
    let (latest, merged) = state.seen().unwrap_or_default();
    into.extend(latest.get().to_le_bytes());
    into.push(merged.into());
    let at = into.len();
    into.extend([0; 4]);
    let mut count = 0_u32;
    for (tick, cells) in state.events() {
        into.extend(tick.get().to_le_bytes());
        into.extend(cells.to_le_bytes());
        count += 1;
    }
    into[at..at + 4].copy_from_slice(&count.to_le_bytes());
}

fn read_list(bytes: &mut Bytes<'_>, policy: &Policy) -> Option<State> {
    let latest = bytes.tick()?;
    let merged = match bytes.u8()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let count = usize::try_from(bytes.u32()?).ok()?;
    let mut events = Bytes(bytes.take(count.checked_mul(EVENT)?)?);
    let mut is_whole = true;
    let read = std::iter::from_fn(|| {
        if events.is_empty() {
            return None;
        }
        let event = events.tick().zip(events.u32());
        is_whole &= event.is_some();
        event
    });
    let state = policy.list((latest, merged), read)?;
    is_whole.then_some(state)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use tidegate_core::{Kind, Quota, Receipt, Tick};

    use super::*;

    /// Also what cannot be read off the events: how late it was, and whether some were merged.
    #[test]
    fn a_list_is_read_as_it_was_written() {
        let policy = Policy::new(Kind::SlidingLog, Quota::per_hour(100_000)).unwrap();
        let at = |micros| Tick::from_micros((1 << 40) + micros);
        // A long list is merged, where many are in one bucket of time.
        for (count, merged) in [(0_u64, false), (1, false), (40_000, true)] {
            let mut state = policy.fresh();
            for tick in 0..count {
                assert!(policy.decide(&mut state, at(tick), 2).verdict.passes());
            }
            // It was asked again since, in vain.
            let _ = policy.decide(&mut state, at(9_000_000), 100_001);
            assert_eq!(state.seen().unwrap().1, merged);
            let mut bytes = Vec::new();
            put_list(&state, &mut bytes);
            let mut left = Bytes(&bytes);
            let mut read = read_list(&mut left, &policy).unwrap();
            assert!(left.is_empty());
            assert_eq!((read.seen(), &read), (state.seen(), &state));
            assert!(state.events().eq(read.events()));
            // What was merged is given back by the tick at which it was taken.
            let (mut wanted, receipt) = (state, || Receipt::new(at(39_990), 2));
            policy.refund(&mut wanted, at(9_000_000), receipt());
            policy.refund(&mut read, at(9_000_000), receipt());
            assert_eq!(read, wanted);
        }
    }
}
