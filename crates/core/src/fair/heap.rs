//! A heap of four children to a parent, in which every node knows its place.
//!
//! Four entries are one line of the cache. The places are kept apart from the nodes: sifting writes
//! one of them a level, and they are small enough to stay near.

use alloc::vec::Vec;

use super::weight::Tag;

/// Where a node stands in virtual time; of two at one place, the smaller tie goes first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) tag: Tag,
    pub(super) tie: u32,
    pub(super) node: u32,
}

impl Entry {
    fn key(&self) -> (Tag, u32) {
        (self.tag, self.tie)
    }
}

const CHILDREN: usize = 4;

/// Adds an entry. `places` has room for its node.
pub(super) fn push(entries: &mut Vec<Entry>, places: &mut [u32], entry: Entry) {
    let at = entries.len();
    entries.push(entry);
    rise(entries, places, at);
}

/// Takes out the entry at `at`.
pub(super) fn remove(entries: &mut Vec<Entry>, places: &mut [u32], at: usize) -> Entry {
    let removed = entries.swap_remove(at);
    if at < entries.len() {
        settle(entries, places, at);
    }
    removed
}

/// Gives the entry at `at` another place in virtual time.
pub(super) fn rekey(entries: &mut [Entry], places: &mut [u32], at: usize, (tag, tie): (Tag, u32)) {
    entries[at].tag = tag;
    entries[at].tie = tie;
    settle(entries, places, at);
}

/// The places below `at` that there are.
pub(super) fn below(at: usize, len: usize) -> core::ops::Range<usize> {
    let first = CHILDREN * at + 1;
    first.min(len)..(first + CHILDREN).min(len)
}

fn settle(entries: &mut [Entry], places: &mut [u32], at: usize) {
    if 0 < at && entries[at].key() < entries[(at - 1) / CHILDREN].key() {
        rise(entries, places, at);
    } else {
        sink(entries, places, at);
    }
}

fn rise(entries: &mut [Entry], places: &mut [u32], mut at: usize) {
    let entry = entries[at];
    while 0 < at {
        let parent = (at - 1) / CHILDREN;
        if entries[parent].key() <= entry.key() {
            break;
        }
        put(entries, places, at, entries[parent]);
        at = parent;
    }
    put(entries, places, at, entry);
}

fn sink(entries: &mut [Entry], places: &mut [u32], mut at: usize) {
    let entry = entries[at];
    loop {
        let children = below(at, entries.len());
        let Some(least) = children.min_by_key(|&child| entries[child].key()) else { break };
        if entry.key() <= entries[least].key() {
            break;
        }
        put(entries, places, at, entries[least]);
        at = least;
    }
    put(entries, places, at, entry);
}

#[expect(clippy::cast_possible_truncation, reason = "nodes are numbered by 32 bits")]
fn put(entries: &mut [Entry], places: &mut [u32], at: usize, entry: Entry) {
    entries[at] = entry;
    places[entry.node as usize] = at as u32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sorts_and_every_place_is_known() {
        let (mut entries, mut places) = (Vec::new(), [0; 200]);
        let tag_of = |node: u32| Tag::from(node * 7_919 % 101);
        for node in 0..200 {
            push(&mut entries, &mut places, Entry { tag: tag_of(node), tie: 0, node });
        }
        for node in (0..200).step_by(3) {
            let at = places[node as usize] as usize;
            assert_eq!(remove(&mut entries, &mut places, at).node, node);
        }
        for node in (1..200).step_by(3) {
            let at = places[node as usize] as usize;
            rekey(&mut entries, &mut places, at, (tag_of(node) * 3 % 97, node));
        }
        let mut key = (0, 0);
        while !entries.is_empty() {
            for (at, entry) in entries.iter().enumerate() {
                assert_eq!(places[entry.node as usize] as usize, at);
            }
            let least = remove(&mut entries, &mut places, 0);
            assert!(key <= least.key());
            key = least.key();
        }
    }
}
