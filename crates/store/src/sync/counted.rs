//! Locks, atomics and shared values that note which lines of the cache they write to.
//!
//! Taking a lock is a write, for a reader too, and so is a count of owners that goes up or down.
//! Nothing is noted unless [`lines_written`] asks for it.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{LockResult, RwLockReadGuard, RwLockWriteGuard};

/// Bytes of a line.
const LINE: usize = 64;

thread_local! {
    static LINES: RefCell<Option<Vec<usize>>> = const { RefCell::new(None) };
}

/// The lines that this thread writes to in the course of `work`, one for each write.
pub(crate) fn lines_written(work: impl FnOnce()) -> Vec<usize> {
    LINES.set(Some(Vec::new()));
    work();
    LINES.take().unwrap_or_default()
}

/// Notes a write.
pub(crate) fn wrote<T: ?Sized>(to: &T) {
    let line = std::ptr::from_ref(to).cast::<u8>().addr() / LINE;
    LINES.with_borrow_mut(|lines| lines.iter_mut().for_each(|lines| lines.push(line)));
}

#[derive(Debug, Default)]
pub(crate) struct AtomicBool(std::sync::atomic::AtomicBool);

impl AtomicBool {
    pub(crate) fn new(value: bool) -> AtomicBool {
        AtomicBool(value.into())
    }

    pub(crate) fn load(&self, order: Ordering) -> bool {
        self.0.load(order)
    }

    pub(crate) fn store(&self, value: bool, order: Ordering) {
        wrote(self);
        self.0.store(value, order);
    }
}

#[derive(Debug, Default)]
pub(crate) struct AtomicUsize(std::sync::atomic::AtomicUsize);

impl AtomicUsize {
    pub(crate) fn new(value: usize) -> AtomicUsize {
        AtomicUsize(value.into())
    }

    pub(crate) fn load(&self, order: Ordering) -> usize {
        self.0.load(order)
    }

    pub(crate) fn store(&self, value: usize, order: Ordering) {
        wrote(self);
        self.0.store(value, order);
    }

    pub(crate) fn fetch_add(&self, more: usize, order: Ordering) -> usize {
        wrote(self);
        self.0.fetch_add(more, order)
    }

    pub(crate) fn fetch_or(&self, bits: usize, order: Ordering) -> usize {
        wrote(self);
        self.0.fetch_or(bits, order)
    }

    pub(crate) fn fetch_sub(&self, less: usize, order: Ordering) -> usize {
        wrote(self);
        self.0.fetch_sub(less, order)
    }
}

#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> RwLock<T> {
        RwLock(std::sync::RwLock::new(value))
    }

    /// Two writes: when the lock is taken, and when it is given back.
    pub(crate) fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        wrote(&self.0);
        wrote(&self.0);
        self.0.read()
    }

    pub(crate) fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        wrote(&self.0);
        wrote(&self.0);
        self.0.write()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Arc<T: ?Sized>(std::sync::Arc<T>);

impl<T> Arc<T> {
    pub(crate) fn new(value: T) -> Arc<T> {
        Arc(std::sync::Arc::new(value))
    }
}

impl<T: ?Sized> Arc<T> {
    pub(crate) fn downgrade(this: &Arc<T>) -> Weak<T> {
        wrote(&*this.0);
        Weak(std::sync::Arc::downgrade(&this.0))
    }

    pub(crate) fn as_ptr(this: &Arc<T>) -> *const T {
        std::sync::Arc::as_ptr(&this.0)
    }

    pub(crate) fn ptr_eq(this: &Arc<T>, other: &Arc<T>) -> bool {
        std::sync::Arc::ptr_eq(&this.0, &other.0)
    }
}

impl<T: ?Sized> Clone for Arc<T> {
    fn clone(&self) -> Arc<T> {
        wrote(&*self.0);
        Arc(std::sync::Arc::clone(&self.0))
    }
}

impl<T: ?Sized> Drop for Arc<T> {
    fn drop(&mut self) {
        wrote(&*self.0);
    }
}

impl<T: ?Sized> Deref for Arc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

#[derive(Debug)]
pub(crate) struct Weak<T: ?Sized>(std::sync::Weak<T>);

impl<T> Weak<T> {
    pub(crate) fn new() -> Weak<T> {
        Weak(std::sync::Weak::new())
    }

    pub(crate) fn as_ptr(&self) -> *const T {
        self.0.as_ptr()
    }
}

impl<T: ?Sized> Weak<T> {
    pub(crate) fn upgrade(&self) -> Option<Arc<T>> {
        let arc = self.0.upgrade()?;
        wrote(&*arc);
        Some(Arc(arc))
    }

    pub(crate) fn strong_count(&self) -> usize {
        self.0.strong_count()
    }
}

impl<T: ?Sized> Clone for Weak<T> {
    fn clone(&self) -> Weak<T> {
        Weak(self.0.clone())
    }
}
