//! Requests at places that do not move, known by a handle that is never good for the next one.

use alloc::vec::Vec;

use crate::tick::Tick;

use super::wheel::Slot;

/// Names a request for as long as it waits; afterwards it names nothing.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Handle {
    pub(super) at: u32,
    generation: u32,
}

/// A request that waits: in the line of its flow, and in a slot of the wheel.
///
/// Small rather than one line of the cache: with many of them, memory is what counts.
#[derive(Clone, Debug)]
pub(super) struct Waiting<T> {
    /// Nothing at a place that is free.
    pub(super) item: Option<T>,
    pub(super) came: Tick,
    pub(super) deadline: Tick,
    pub(super) flow: u32,
    pub(super) cost: u32,
    /// Cells that were served although it was first: it did not fit, and they did.
    pub(super) bypassed: u32,
    /// Its place in its slot.
    pub(super) due: u32,
    /// How often its place was vacated.
    pub(super) generation: u32,
    pub(super) slot: Slot,
}

const _: () = assert!(size_of::<Waiting<&u8>>() == 48);

/// Who is before a request in the line of its flow, and who after.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) before: u32,
    pub(super) after: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Slab<T> {
    places: Vec<Waiting<T>>,
    /// By place. Apart from what waits, since who comes or goes touches them of its neighbors.
    pub(super) links: Vec<Link>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Slab<T> {
        Slab { places: Vec::new(), links: Vec::new(), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, mut waiting: Waiting<T>, link: Link) -> Handle {
        if let Some(at) = self.free.pop() {
            let place = &mut self.places[at as usize];
            waiting.generation = place.generation;
            let generation = place.generation;
            *place = waiting;
            self.links[at as usize] = link;
            return Handle { at, generation };
        }
        let at = u32::try_from(self.places.len()).expect("a queue has at most 2^24 requests");
        let generation = waiting.generation;
        self.places.push(waiting);
        self.links.push(link);
        Handle { at, generation }
    }

    /// The place that a handle names, unless it was vacated since.
    pub(super) fn find(&self, handle: Handle) -> Option<u32> {
        let place = self.places.get(handle.at as usize)?;
        (place.generation == handle.generation && place.item.is_some()).then_some(handle.at)
    }

    pub(super) fn handle(&self, at: u32) -> Handle {
        Handle { at, generation: self.get(at).generation }
    }

    /// Vacates a place.
    pub(super) fn remove(&mut self, at: u32) -> T {
        let place = self.get_mut(at);
        place.generation = place.generation.wrapping_add(1);
        let item = place.item.take().expect("only what is there is removed");
        self.free.push(at);
        item
    }

    pub(super) fn get(&self, at: u32) -> &Waiting<T> {
        &self.places[at as usize]
    }

    pub(super) fn get_mut(&mut self, at: u32) -> &mut Waiting<T> {
        &mut self.places[at as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::shelves::NONE;
    use crate::fair::wheel::Wheel;

    const ALONE: Link = Link { before: NONE, after: NONE };

    fn waiting(item: char) -> Waiting<char> {
        Waiting {
            item: Some(item),
            came: Tick::MAX,
            deadline: Tick::MAX,
            flow: 0,
            cost: 1,
            bypassed: 0,
            due: NONE,
            generation: 0,
            slot: Wheel::new().slot(Tick::MAX),
        }
    }

    #[test]
    fn a_stale_handle_names_nothing() {
        let mut slab = Slab::new();
        let first = slab.insert(waiting('a'), ALONE);
        assert_eq!(slab.remove(first.at), 'a');
        assert_eq!(slab.find(first), None);
        let second = slab.insert(waiting('b'), ALONE);
        assert_eq!(second.at, first.at);
        assert_eq!((slab.find(first), slab.find(second)), (None, Some(second.at)));
    }
}
