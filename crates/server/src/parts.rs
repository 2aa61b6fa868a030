//! What one address may have of something that all share, for as long as anybody of it is there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use crate::caller::Caller;

/// A part for each address.
#[derive(Debug)]
pub(crate) struct Parts {
    size: usize,
    each: Mutex<HashMap<Caller, Arc<Semaphore>>>,
}

/// The part of an address. All that have it share it, and it is forgotten with the last of them.
#[derive(Debug)]
pub(crate) struct Part {
    of: Caller,
    /// Nothing once this is being dropped.
    left: Option<Arc<Semaphore>>,
    parts: Arc<Parts>,
}

impl Parts {
    pub(crate) fn new(size: usize) -> Arc<Parts> {
        Arc::new(Parts { size, each: Mutex::default() })
    }

    pub(crate) fn of(self: &Arc<Parts>, of: Caller) -> Part {
        let part = || Arc::new(Semaphore::new(self.size));
        let left = Some(Arc::clone(self.lock().entry(of).or_insert_with(part)));
        Part { of, left, parts: Arc::clone(self) }
    }

    /// Of how many addresses somebody is there.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Caller, Arc<Semaphore>>> {
        self.each.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part {
    /// What is left of it.
    pub(crate) fn left(&self) -> &Semaphore {
        self.left.as_ref().expect("it goes only when this is dropped")
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut each = self.parts.lock();
        self.left = None;
        if each.get(&self.of).is_some_and(|left| Arc::strong_count(left) == 1) {
            each.remove(&self.of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_part_until_nobody_of_it_is_there() {
        let parts = Parts::new(3);
        let at = |host| Caller::at([192, 0, 2, host].into());
        let (one, same, other) = (parts.of(at(1)), parts.of(at(1)), parts.of(at(2)));
        one.left().try_acquire_many(2).unwrap().forget();
        assert_eq!((same.left().available_permits(), other.left().available_permits()), (1, 3));
        drop(one);
        assert_eq!(parts.count(), 2);
        drop((same, other));
        assert_eq!(parts.count(), 0);
        assert_eq!(parts.of(at(1)).left().available_permits(), 3);
    }
}
