//! Values at places that do not move, known by a handle that is never good for the next tenant.

use alloc::vec::Vec;

/// Names a value for as long as it is there; afterwards it names nothing.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Handle {
    pub(super) at: u32,
    generation: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Slab<V> {
    places: Vec<(u32, Option<V>)>,
    free: Vec<u32>,
}

impl<V> Slab<V> {
    pub(super) fn with_capacity(capacity: usize) -> Slab<V> {
        Slab { places: Vec::with_capacity(capacity), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, value: V) -> Handle {
        if let Some(at) = self.free.pop() {
            let place = &mut self.places[at as usize];
            place.1 = Some(value);
            return Handle { at, generation: place.0 };
        }
        let at = u32::try_from(self.places.len()).expect("a queue has at most 2^24 requests");
        self.places.push((0, Some(value)));
        Handle { at, generation: 0 }
    }

    /// The place that a handle names, unless it was vacated since.
    pub(super) fn find(&self, handle: Handle) -> Option<u32> {
        let (generation, value) = self.places.get(handle.at as usize)?;
        (*generation == handle.generation && value.is_some()).then_some(handle.at)
    }

    pub(super) fn handle(&self, at: u32) -> Handle {
        Handle { at, generation: self.places[at as usize].0 }
    }

    pub(super) fn remove(&mut self, at: u32) -> V {
        let place = &mut self.places[at as usize];
        place.0 = place.0.wrapping_add(1);
        self.free.push(at);
        place.1.take().expect("only what is there is removed")
    }

    pub(super) fn get(&self, at: u32) -> &V {
        self.places[at as usize].1.as_ref().expect("links lead to what is there")
    }

    pub(super) fn get_mut(&mut self, at: u32) -> &mut V {
        self.places[at as usize].1.as_mut().expect("links lead to what is there")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_names_nothing() {
        let mut slab = Slab::with_capacity(1);
        let first = slab.insert('a');
        assert_eq!(slab.remove(first.at), 'a');
        assert_eq!(slab.find(first), None);
        let second = slab.insert('b');
        assert_eq!(second.at, first.at);
        assert_eq!((slab.find(first), slab.find(second)), (None, Some(second.at)));
    }
}
