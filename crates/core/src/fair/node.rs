//! What is remembered of a flow, and of what its children share.

use alloc::boxed::Box;

use super::heap::{Entry, Heap};
use super::path::Step;
use super::shelves::{NONE, OFF, Shelves};
use super::weight::{Tag, Weight};

/// A flow, or a group of them. A node of the last level has requests; others have children.
///
/// One line of the cache, since with many flows that is what a turn costs.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Node {
    pub(super) name: u64,
    /// Where what it was served ends. Where it starts, the heap of its siblings knows.
    pub(super) finish: Tag,
    /// Cells that are queued here and below.
    pub(super) cost: u64,
    pub(super) parent: u32,
    pub(super) weight: Weight,
    /// What the last step of virtual time left over.
    pub(super) carry: u32,
    /// Requests that are queued here and below.
    pub(super) queued: u32,
    /// Requests of here and below that have started and are not complete.
    pub(super) in_service: u32,
    pub(super) below: Below,
    /// Its place on its shelf while it has requests, and at rest when it is idle: never both.
    pub(super) place: u32,
    /// How often the tags of its siblings had been put back when `finish` was written.
    pub(super) epoch: u16,
    /// Its shelf.
    pub(super) height: u8,
    pub(super) is_at_rest: bool,
}

/// Two numbers: of a flow the first and the last of its requests, of a group what its children
/// share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Below {
    pub(super) first: u32,
    pub(super) last: u32,
}

/// Stands for `first` in a group.
const GROUP: u32 = u32::MAX - 1;

impl Below {
    /// A flow without requests.
    pub(super) const EMPTY: Below = Below { first: NONE, last: NONE };

    pub(super) fn group(group: u32) -> Below {
        Below { first: GROUP, last: group }
    }
}

const _: () = assert!(size_of::<Node>() == 64);

impl Node {
    pub(super) fn new(parent: u32, share: Step, below: Below) -> Node {
        Node {
            name: share.name,
            finish: 0,
            cost: 0,
            parent,
            weight: share.weight,
            carry: 0,
            queued: 0,
            in_service: 0,
            below,
            place: NONE,
            epoch: 0,
            height: OFF,
            is_at_rest: false,
        }
    }

    /// What its children share; `NONE` for a flow of the last level.
    pub(super) fn group(&self) -> u32 {
        if self.below.first == GROUP { self.below.last } else { NONE }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queued == 0 && self.in_service == 0
    }
}

/// What the children of one node share: their order in virtual time.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// The children that have requests.
    pub(super) heap: Heap,
    /// The start of what was served last.
    pub(super) virtual_time: Tag,
    /// The latest finish of what was served.
    pub(super) finish_max: Tag,
    /// The sum of the weights of the children that have requests.
    pub(super) weights: u64,
    pub(super) children: u32,
    /// Counts up whenever an entry is made: who came first, of those at one place.
    pub(super) turn: u32,
    /// How often tags were put back, and by how much the last time.
    pub(super) epoch: u16,
    pub(super) put_back: Tag,
    pub(super) shelves: Box<Shelves>,
}

/// Tags are put back when virtual time passes this: a quarter of what there is, so that whatever
/// is ahead of it has room.
const PUT_BACK_AT: Tag = 1 << 62;

/// How far a flow may get ahead of virtual time, however wrong its estimates were.
pub(super) const LEAD_MAX: Tag = 1 << 60;

impl Group {
    pub(super) fn new() -> Group {
        Group {
            heap: Heap::default(),
            virtual_time: 0,
            finish_max: 0,
            weights: 0,
            children: 0,
            turn: 0,
            epoch: 0,
            put_back: 0,
            shelves: Box::new(Shelves::EMPTY),
        }
    }

    /// The tie of a flow that has waited its turn, after those that came back from rest: these are
    /// served at once, since nobody at the same place has less.
    pub(super) fn next_tie(&mut self, from_rest: bool) -> u32 {
        self.turn = self.turn.wrapping_add(1) & (u32::MAX >> 1);
        if from_rest { self.turn } else { self.turn | (1 << 31) }
    }

    /// As new, with the memory it has. Its children are gone, so nothing points into it.
    pub(super) fn clear(&mut self) {
        (self.virtual_time, self.finish_max, self.put_back) = (0, 0, 0);
        (self.turn, self.epoch) = (0, 0);
    }

    pub(super) fn advance(&mut self, to: Tag) {
        self.virtual_time = self.virtual_time.max(to);
    }

    /// Nothing is queued and nothing in service: whatever was owed is owed to nobody.
    pub(super) fn end_of_busy_period(&mut self) {
        self.advance(self.finish_max);
        // Nobody is in line, so nobody has a place.
        self.put_back_if_late(&mut []);
    }

    /// Puts all tags back by the same amount before they run out. Children that are not in the
    /// heap are put back when they are next looked at.
    pub(super) fn put_back_if_late(&mut self, places: &mut [u32]) {
        if self.virtual_time < PUT_BACK_AT {
            return;
        }
        let least = self.heap.first(places).map_or(self.virtual_time, Entry::tag);
        let by = least.min(self.virtual_time);
        self.heap.put_back(places, by);
        self.virtual_time -= by;
        self.finish_max = self.finish_max.saturating_sub(by);
        self.epoch = self.epoch.wrapping_add(1);
        self.put_back = by;
    }

    /// A tag that was written in `epoch`, as it is now. Virtual time has long passed a node
    /// that missed more than one change.
    pub(super) fn tag_now(&self, tag: Tag, epoch: u16) -> Tag {
        match self.epoch.wrapping_sub(epoch) {
            0 => tag,
            1 => tag.saturating_sub(self.put_back),
            _ => 0,
        }
    }
}
