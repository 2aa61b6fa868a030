//! States that do not fit words: logs, each in a place that its slot names.

use tidegate_core::{Policy, State};

/// The lists of one shard.
#[derive(Debug, Default)]
pub(super) struct Lists {
    states: Vec<Option<State>>,
    free: Vec<usize>,
}

impl Lists {
    /// Moves the list out; [`Lists::put`] moves it back.
    pub(super) fn take(&mut self, place: usize, policy: &Policy) -> State {
        let taken = self.states.get_mut(place).and_then(Option::take);
        taken.unwrap_or_else(|| policy.fresh())
    }

    pub(super) fn put(&mut self, place: usize, state: State) {
        if let Some(here) = self.states.get_mut(place) {
            *here = Some(state);
        }
    }

    pub(super) fn get(&self, place: usize) -> Option<&State> {
        self.states.get(place).and_then(Option::as_ref)
    }

    /// Finds a place for a new list.
    pub(super) fn add(&mut self, state: State) -> usize {
        let Some(place) = self.free.pop() else {
            self.states.push(Some(state));
            return self.states.len() - 1;
        };
        self.put(place, state);
        place
    }

    /// Bytes in use, the events of all lists included.
    pub(super) fn bytes(&self) -> usize {
        let places = self.states.capacity() * size_of::<Option<State>>();
        let free = self.free.capacity() * size_of::<usize>();
        let events: usize = self.states.iter().flatten().map(State::heap_bytes).sum();
        places + free + events
    }

    /// Gives the place back, and the list's memory with it.
    pub(super) fn free(&mut self, place: usize) {
        if let Some(here) = self.states.get_mut(place) {
            *here = None;
            self.free.push(place);
        }
    }
}

/// The place of a list, as a slot holds it.
pub(super) fn place(state: [u64; 2]) -> usize {
    usize::try_from(state[0]).unwrap_or(usize::MAX)
}
