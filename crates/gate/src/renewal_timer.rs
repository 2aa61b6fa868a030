//! Permits of a request that takes longer than one lease: renewed when half of what is left has
//! passed, whether or not anybody polls it meanwhile. A client that reads slowly is still served.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use tidegate_core::{Span, Tick};
use tidegate_store::{Clock, WakeId};

use crate::admission::Admission;

/// Keeps the permits of a request until it is dropped; made by [`RenewalPlan::keep`].
#[must_use = "permits are kept until this is dropped"]
#[derive(Debug)]
pub struct RenewalTimer(Arc<Keeper>);

struct Keeper {
    clock: Arc<dyn Clock>,
    reach: Box<Reach>,
    is_over: AtomicBool,
    next: Mutex<Option<WakeId>>,
}

/// Shows the admission, if there still is one.
type Reach = dyn Fn(&mut dyn FnMut(&mut Admission)) + Send + Sync;

/// An admission whose request waits, with its permits kept from the moment it is held: the wait may
/// take longer than a lease.
#[derive(Debug)]
pub(crate) struct Held {
    /// Nothing once it was taken out.
    admission: Arc<Mutex<Option<Box<Admission>>>>,
    keeping: Option<RenewalTimer>,
}

impl Held {
    pub(crate) fn new(admission: Box<Admission>) -> Held {
        let renewal_plan = admission.renewal_plan();
        let admission = Arc::new(Mutex::new(Some(admission)));
        let waits = Arc::downgrade(&admission);
        let reach = move |renew: &mut dyn FnMut(&mut Admission)| {
            if let Some(admission) = waits.upgrade()
                && let Some(admission) = &mut *lock(&admission)
            {
                renew(admission);
            }
        };
        Held { admission, keeping: renewal_plan.map(|it| it.keep(reach)) }
    }

    /// Does something with it; nothing once it was taken out.
    pub(crate) fn with<T>(&self, does: impl FnOnce(&mut Admission) -> T) -> Option<T> {
        lock(&self.admission).as_deref_mut().map(does)
    }

    /// Takes it out: from here on, somebody else keeps its permits. Nothing the second time.
    pub(crate) fn take(&mut self) -> Option<Box<Admission>> {
        let admission = lock(&self.admission).take();
        self.keeping = None;
        admission
    }
}

impl Drop for Held {
    /// Here, and not on the thread that renews: what is given back to Redis needs the runtime of
    /// this one.
    fn drop(&mut self) {
        drop(self.take());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What it takes to keep the permits of an admission.
#[derive(Debug)]
pub struct RenewalPlan {
    clock: Arc<dyn Clock>,
    lapse_at: Tick,
}

impl Admission {
    /// What it takes to keep its permits; nothing if it has none.
    pub fn renewal_plan(&self) -> Option<RenewalPlan> {
        let lapse_at = self.permits_lapse_at()?;
        Some(RenewalPlan { clock: Arc::clone(&self.in_force.home.clock), lapse_at })
    }

    /// When the first of those permits lapses that have not: what has lapsed is not to be had back.
    fn lapse_next(&self, now: Tick) -> Option<Tick> {
        self.permits_lapse().filter(|lapse_at| now < *lapse_at).min()
    }
}

impl RenewalPlan {
    /// Renews permits for as long as what this returns is kept. `reach` shows the admission to the
    /// code that renews, on another thread, as long as there is one. It is not called by this,
    /// unless the clock does so, and then nothing that it locks may be locked.
    pub fn keep(
        self,
        reach: impl Fn(&mut dyn FnMut(&mut Admission)) + Send + Sync + 'static,
    ) -> RenewalTimer {
        let RenewalPlan { clock, lapse_at } = self;
        let keeper = Arc::new(Keeper {
            clock,
            reach: Box::new(reach),
            is_over: AtomicBool::new(false),
            next: Mutex::default(),
        });
        keeper.wait(lapse_at);
        RenewalTimer(keeper)
    }
}

impl Keeper {
    /// Waits for half of the time that is left.
    fn wait(self: &Arc<Keeper>, lapse_at: Tick) {
        let now = self.clock.now();
        let half = Span::from_micros(lapse_at.since(now).get() / 2).max(SOONEST);
        // Nothing is locked: a clock may wake at once.
        let id = self.clock.wake_at(now.after(half), Waker::from(Arc::clone(self)));
        self.keep_latest(id);
        if self.is_over.load(Ordering::Acquire) {
            self.cancel();
        }
    }

    /// Notes which wake to cancel. Where a clock has woken meanwhile, there is a later one.
    fn keep_latest(&self, id: WakeId) {
        let mut next = lock(&self.next);
        *next = (*next).max(Some(id));
    }

    fn cancel(&self) {
        let next = lock(&self.next).take();
        if let Some(id) = next {
            self.clock.cancel(id);
        }
    }
}

/// Renewals are no closer together than this, however little of a lease is left.
const SOONEST: Span = Span::from_millis(10);

impl Wake for Keeper {
    fn wake(self: Arc<Keeper>) {
        if self.is_over.load(Ordering::Acquire) {
            return;
        }
        let mut lapse_at = None;
        (self.reach)(&mut |admission| {
            // The store finishes it, whether or not somebody waits.
            drop(admission.renew());
            lapse_at = admission.lapse_next(self.clock.now());
        });
        if let Some(lapse_at) = lapse_at {
            self.wait(lapse_at);
        }
    }
}

impl Drop for RenewalTimer {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
        self.0.cancel();
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}
