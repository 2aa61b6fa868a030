//! Locks, atomics and shared values: the standard library's, those of the model checker, or, in
//! unit tests, those that note where they are written.

#[cfg(all(test, not(loom)))]
pub(crate) mod counted;

#[cfg(all(test, not(loom)))]
pub(crate) use self::counted::{Arc, AtomicBool, AtomicUsize, RwLock, Weak, wrote};
#[cfg(not(any(test, loom)))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize};
#[cfg(not(any(test, loom)))]
pub(crate) use std::sync::{Arc, RwLock, Weak};

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::Ordering;
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard, RwLock};
#[cfg(loom)]
pub(crate) use std::sync::{Arc, PoisonError, Weak};

/// Locks, whether or not a thread once panicked there: every value is whole between two calls.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    wrote(mutex);
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes that a lock was taken, where somebody counts.
#[cfg(not(all(test, not(loom))))]
#[inline(always)]
pub(crate) fn wrote<T: ?Sized>(_: &T) {}
