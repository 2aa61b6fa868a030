//! A heap of four children to a parent, in which every node knows its place.
//!
//! The four children of an entry are one line of the cache. The places are kept apart from the
//! nodes: sifting writes one of them a level, and they are small enough to stay near.
//!
//! Where the first was, nobody is until it matters: who comes next is likely to belong there, and
//! then the last need not be moved to the front and down again.

use alloc::vec::Vec;
use core::ops::Range;

use super::shelves::NONE;
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

/// The place of the first entry is the last of its line, so that all others are in one line with
/// their siblings: the children of `place` are line `place - 2`.
const FIRST: usize = CHILDREN - 1;

/// What is beyond the last entry is later than every other.
#[derive(Clone, Debug, Default)]
pub(super) struct Heap {
    lines: Vec<Line>,
    /// How many entries there are, with the first even if it is vacant.
    len: usize,
    is_vacant: bool,
}

impl Heap {
    /// The first entry.
    pub(super) fn first(&mut self, places: &mut [u32]) -> Option<Entry> {
        self.fill(places);
        (0 < self.len).then(|| *self.at(FIRST))
    }

    /// The first entry as far as it is known without moving any.
    pub(super) fn likely_first(&self) -> Option<Entry> {
        let place = if self.is_vacant { FIRST + 1 } else { FIRST };
        let Line(line) = self.lines.get(place / CHILDREN)?;
        let first = if self.is_vacant { least_of(line).0 } else { line[FIRST] };
        (first != Entry::LAST).then_some(first)
    }

    pub(super) fn at(&self, place: usize) -> &Entry {
        &self.lines[place / CHILDREN].0[place % CHILDREN]
    }

    /// Adds an entry. `places` has room for its node.
    pub(super) fn push(&mut self, places: &mut [u32], entry: Entry) {
        if core::mem::take(&mut self.is_vacant) {
            self.sink(places, FIRST, entry);
            return;
        }
        let place = FIRST + self.len;
        if place / CHILDREN == self.lines.len() {
            self.lines.push(Line([Entry::LAST; CHILDREN]));
        }
        self.len += 1;
        self.rise(places, place, entry);
    }

    /// Takes out the entry of a node that is here.
    pub(super) fn remove(&mut self, places: &mut [u32], node: u32) {
        self.fill(places);
        let place = core::mem::replace(&mut places[node as usize], NONE) as usize;
        if place == FIRST && 1 < self.len {
            self.is_vacant = true;
        } else {
            self.remove_at(places, place);
        }
    }

    /// Gives the entry of a node that is here another place in virtual time.
    pub(super) fn rekey(&mut self, places: &mut [u32], node: u32, tag: Tag, tie: u32) {
        self.fill(places);
        self.settle(places, places[node as usize] as usize, Entry::new(tag, tie, node));
    }

    /// Puts all tags back by the same amount, which no tag is below.
    pub(super) fn put_back(&mut self, places: &mut [u32], by: Tag) {
        self.fill(places);
        for place in FIRST..FIRST + self.len {
            self.at_mut(place).0 -= u128::from(by) << 64;
        }
    }

    /// The places below one, as far as there are any.
    pub(super) fn below(&self, place: usize) -> Range<usize> {
        let (first, end) = (CHILDREN * (place - 2), FIRST + self.len);
        first.min(end)..(first + CHILDREN).min(end)
    }

    fn at_mut(&mut self, place: usize) -> &mut Entry {
        &mut self.lines[place / CHILDREN].0[place % CHILDREN]
    }

    /// Sees to it that somebody is where the first was.
    fn fill(&mut self, places: &mut [u32]) {
        if core::mem::take(&mut self.is_vacant) {
            self.remove_at(places, FIRST);
        }
    }

    fn remove_at(&mut self, places: &mut [u32], place: usize) {
        self.len -= 1;
        let last = FIRST + self.len;
        let moved = core::mem::replace(self.at_mut(last), Entry::LAST);
        if place < last {
            self.settle(places, place, moved);
        }
    }

    fn settle(&mut self, places: &mut [u32], place: usize, entry: Entry) {
        if FIRST < place && entry < *self.at(parent_of(place)) {
            self.rise(places, place, entry);
        } else {
            self.sink(places, place, entry);
        }
    }

    fn rise(&mut self, places: &mut [u32], mut place: usize, entry: Entry) {
        while FIRST < place {
            let parent = *self.at(parent_of(place));
            if parent <= entry {
                break;
            }
            self.put(places, place, parent);
            place = parent_of(place);
        }
        self.put(places, place, entry);
    }

    fn sink(&mut self, places: &mut [u32], mut place: usize, entry: Entry) {
        while let Some(Line(children)) = self.lines.get(place - 2) {
            let (least, at) = least_of(children);
            if entry <= least {
                break;
            }
            self.put(places, place, least);
            place = ((place - 2) << 2) | at;
        }
        self.put(places, place, entry);
    }

    #[expect(clippy::cast_possible_truncation, reason = "nodes are numbered by 32 bits")]
    fn put(&mut self, places: &mut [u32], place: usize, entry: Entry) {
        *self.at_mut(place) = entry;
        places[entry.node() as usize] = place as u32;
    }
}

fn parent_of(place: usize) -> usize {
    place / CHILDREN + 2
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

    fn check(heap: &Heap, places: &[u32]) {
        for at in (FIRST..FIRST + heap.len).skip(heap.is_vacant.into()) {
            assert_eq!(places[heap.at(at).node() as usize] as usize, at);
            let is_vacant = heap.is_vacant && at == FIRST;
            let mut below = heap.below(at);
            assert!(is_vacant || below.all(|below| heap.at(at) <= heap.at(below)));
        }
    }

    #[test]
    fn it_sorts_and_every_place_is_known() {
        let (mut heap, mut places) = (Heap::default(), [NONE; 200]);
        let tag_of = |node: u32| Tag::from(node * 7_919 % 101);
        for node in 0..200 {
            heap.push(&mut places, Entry::new(tag_of(node), 0, node));
        }
        for node in (0..200).step_by(3) {
            heap.remove(&mut places, node);
            assert_eq!(places[node as usize], NONE);
        }
        for node in (1..200).step_by(3) {
            heap.rekey(&mut places, node, tag_of(node) * 3 % 97, node);
        }
        let mut last = Entry::new(0, 0, 0);
        while let Some(first) = heap.first(&mut places) {
            check(&heap, &places);
            assert!(last <= first);
            last = first;
            heap.remove(&mut places, first.node());
        }
    }

    #[test]
    fn a_vacant_place_is_filled_by_who_comes_or_before_anybody_looks() {
        let (mut heap, mut places) = (Heap::default(), [NONE; 64]);
        let mut known = [None; 64];
        let mut draw = 7_u32;
        for step in 0..50_000_u32 {
            draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (node, tag) = (draw >> 8 & 63, Tag::from(draw >> 14 & 255));
            let least = known.iter().flatten().min().copied();
            match (draw >> 28, known[node as usize]) {
                (0..6, None) => {
                    heap.push(&mut places, Entry::new(tag, step, node));
                    known[node as usize] = Some(Entry::new(tag, step, node));
                }
                (0..2, Some(_)) => {
                    heap.rekey(&mut places, node, tag, step);
                    known[node as usize] = Some(Entry::new(tag, step, node));
                }
                (2..4, Some(_)) => {
                    heap.remove(&mut places, node);
                    known[node as usize] = None;
                }
                (4..12, _) => {
                    // The first leaves, mostly.
                    let Some(first) = heap.first(&mut places) else { continue };
                    assert_eq!(Some(first), least);
                    heap.remove(&mut places, first.node());
                    known[first.node() as usize] = None;
                }
                _ => assert_eq!(heap.first(&mut places), least),
            }
            check(&heap, &places);
        }
    }
}
