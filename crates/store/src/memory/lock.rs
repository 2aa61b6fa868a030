//! The lock of a shard.
//!
//! It is held for nanoseconds, so a thread that finds it taken spins for a moment and then lets
//! others run. Unlocking is a plain store: an uncontended decision pays for one atomic exchange,
//! not two.

#[cfg(loom)]
pub(super) use self::modeled::{Guard, Lock};
#[cfg(not(loom))]
pub(super) use self::spinning::{Guard, Lock};

#[cfg(not(loom))]
mod spinning {
    use spin::mutex::{SpinMutex, SpinMutexGuard};
    use spin::relax::RelaxStrategy;

    use crate::sync::wrote;

    pub(in super::super) type Guard<'a, T> = SpinMutexGuard<'a, T, Backoff>;

    /// A lock around `T`.
    #[derive(Debug)]
    pub(in super::super) struct Lock<T>(SpinMutex<T, Backoff>);

    /// Waits as long as several decisions take, so that a hot shard is not fought over at every
    /// one of them; then lets another thread run, which may be the one that holds the lock.
    #[derive(Debug)]
    pub(in super::super) struct Backoff;

    impl RelaxStrategy for Backoff {
        fn relax() {
            for _ in 0..SPINS {
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
    }

    const SPINS: u32 = 32;

    impl<T> Lock<T> {
        pub(in super::super) fn new(value: T) -> Lock<T> {
            Lock(SpinMutex::new(value))
        }

        /// Two writes: when the lock is taken, and when it is given back.
        #[inline]
        pub(in super::super) fn lock(&self) -> Guard<'_, T> {
            wrote(self);
            wrote(self);
            self.0.lock()
        }

        #[inline]
        pub(in super::super) fn try_lock(&self) -> Option<Guard<'_, T>> {
            wrote(self);
            wrote(self);
            self.0.try_lock()
        }
    }
}

#[cfg(loom)]
mod modeled {
    use loom::sync::{Mutex, MutexGuard};

    pub(in super::super) type Guard<'a, T> = MutexGuard<'a, T>;

    /// The model checker's lock: it knows when a thread waits for another.
    #[derive(Debug)]
    pub(in super::super) struct Lock<T>(Mutex<T>);

    impl<T> Lock<T> {
        pub(in super::super) fn new(value: T) -> Lock<T> {
            Lock(Mutex::new(value))
        }

        pub(in super::super) fn lock(&self) -> Guard<'_, T> {
            self.0.lock().expect("models do not panic while they hold a lock")
        }

        /// No thread gets a lock by trying: the checker takes a thread that is about to try for one
        /// that waits, and would find cycles that do not exist. It sees what is done after trying
        /// in vain.
        #[expect(clippy::unused_self, reason = "as the other lock has it")]
        pub(in super::super) fn try_lock(&self) -> Option<Guard<'_, T>> {
            None
        }
    }
}
