//! A heap of four children to a parent, in which every node knows its place.
//!
//! The four children of an entry are one line of the cache. The places are kept apart from the
//! nodes: sifting writes one of them a level, and they are small enough to stay near.

use alloc::vec::Vec;
use core::ops::Range;

use super::weight::Tag;

/// Where a node stands in virtual time; of two at one place, the smaller tie goes first.
///
/// One number of tag, tie and node, so that the processor need not guess which of two is less.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Entry(u128);

impl Entry {
    /// Later than every other.
    const LAST: Entry = Entry(u128::MAX);

    pub(super) fn new(tag: Tag, tie: u32, node: u32) -> Entry {
        let order = u64::from(tie) << 32 | u64::from(node);
        Entry(u128::from(tag) << 64 | u128::from(order))
    }

    #[expect(clippy::cast_possible_truncation, reason = "what is above was shifted out")]
    pub(super) fn tag(self) -> Tag {
        (self.0 >> 64) as Tag
    }

    #[expect(clippy::cast_possible_truncation, reason = "the node is the lowest part")]
    pub(super) fn node(self) -> u32 {
        self.0 as u32
    }
}

const CHILDREN: usize = 4;

/// Four siblings.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([Entry; CHILDREN]);

/// The first entry is the last of its line, so that all others are in one line with their
/// siblings. What is beyond the last entry is later than every other.
#[derive(Clone, Debug, Default)]
pub(super) struct Heap {
    lines: Vec<Line>,
    len: usize,
}

/// How many places of the first line are never used.
const UNUSED: usize = CHILDREN - 1;

impl Heap {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn first(&self) -> Option<&Entry> {
        (0 < self.len).then(|| self.at(0))
    }

    pub(super) fn at(&self, place: usize) -> &Entry {
        let slot = place + UNUSED;
        &self.lines[slot / CHILDREN].0[slot % CHILDREN]
    }

    /// Adds an entry. `places` has room for its node.
    pub(super) fn push(&mut self, places: &mut [u32], entry: Entry) {
        let place = self.len;
        if (place + UNUSED) / CHILDREN == self.lines.len() {
            self.lines.push(Line([Entry::LAST; CHILDREN]));
        }
        self.len += 1;
        self.rise(places, place, entry);
    }

    /// Takes out the entry at `place`.
    pub(super) fn remove(&mut self, places: &mut [u32], place: usize) {
        self.len -= 1;
        let moved = core::mem::replace(self.at_mut(self.len), Entry::LAST);
        if place < self.len {
            self.settle(places, place, moved);
        }
    }

    /// Gives the entry at `place` another one in virtual time.
    pub(super) fn rekey(&mut self, places: &mut [u32], place: usize, tag: Tag, tie: u32) {
        let node = self.at(place).node();
        self.settle(places, place, Entry::new(tag, tie, node));
    }

    /// Puts all tags back by the same amount.
    pub(super) fn put_back(&mut self, by: Tag) {
        for place in 0..self.len {
            self.at_mut(place).0 -= u128::from(by) << 64;
        }
    }

    /// The places below one, as far as there are any.
    pub(super) fn below(&self, place: usize) -> Range<usize> {
        let first = CHILDREN * place + 1;
        first.min(self.len)..(first + CHILDREN).min(self.len)
    }

    fn at_mut(&mut self, place: usize) -> &mut Entry {
        let slot = place + UNUSED;
        &mut self.lines[slot / CHILDREN].0[slot % CHILDREN]
    }

    fn settle(&mut self, places: &mut [u32], place: usize, entry: Entry) {
        if 0 < place && entry < *self.at((place - 1) / CHILDREN) {
            self.rise(places, place, entry);
        } else {
            self.sink(places, place, entry);
        }
    }

    fn rise(&mut self, places: &mut [u32], mut place: usize, entry: Entry) {
        while 0 < place {
            let parent = *self.at((place - 1) / CHILDREN);
            if parent <= entry {
                break;
            }
            self.put(places, place, parent);
            place = (place - 1) / CHILDREN;
        }
        self.put(places, place, entry);
    }

    fn sink(&mut self, places: &mut [u32], mut place: usize, entry: Entry) {
        // The children of a place are the line after it.
        while let Some(Line(children)) = self.lines.get(place + 1) {
            let (least, at) = least_of(children);
            if entry <= least {
                break;
            }
            self.put(places, place, least);
            place = CHILDREN * place + 1 + at;
        }
        self.put(places, place, entry);
    }

    #[expect(clippy::cast_possible_truncation, reason = "nodes are numbered by 32 bits")]
    fn put(&mut self, places: &mut [u32], place: usize, entry: Entry) {
        *self.at_mut(place) = entry;
        places[entry.node() as usize] = place as u32;
    }
}

/// The least of four siblings, and which it is.
fn least_of([a, b, c, d]: &[Entry; CHILDREN]) -> (Entry, usize) {
    let left = if b < a { (*b, 1) } else { (*a, 0) };
    let right = if d < c { (*d, 3) } else { (*c, 2) };
    if right.0 < left.0 { right } else { left }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sorts_and_every_place_is_known() {
        let (mut heap, mut places) = (Heap::default(), [0; 200]);
        let tag_of = |node: u32| Tag::from(node * 7_919 % 101);
        for node in 0..200 {
            heap.push(&mut places, Entry::new(tag_of(node), 0, node));
        }
        for node in (0..200).step_by(3) {
            let at = places[node as usize] as usize;
            assert_eq!(heap.at(at).node(), node);
            heap.remove(&mut places, at);
        }
        for node in (1..200).step_by(3) {
            let at = places[node as usize] as usize;
            heap.rekey(&mut places, at, tag_of(node) * 3 % 97, node);
        }
        let mut last = Entry::new(0, 0, 0);
        while let Some(first) = heap.first().copied() {
            for at in 0..heap.len() {
                assert_eq!(places[heap.at(at).node() as usize] as usize, at);
                assert!(heap.below(at).all(|below| heap.at(at) <= heap.at(below)));
            }
            assert!(last <= first);
            last = first;
            heap.remove(&mut places, 0);
        }
    }
}
