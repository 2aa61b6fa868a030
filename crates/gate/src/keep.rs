//! Permits of a request that takes longer than one lease: renewed at half of each, whether or not
//! anybody polls it meanwhile. A client that reads slowly is still served.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use tidegate_core::{Span, Tick};
use tidegate_store::{Clock, WakeId};

use crate::admission::Admission;
use crate::renew::Background;

/// Keeps the permits of a request until it is dropped; made by [`Admission::keep`].
#[must_use = "permits are kept until this is dropped"]
#[derive(Debug)]
pub struct Keeping(Arc<Keeper>);

struct Keeper {
    clock: Arc<dyn Clock>,
    background: Background,
    reach: Box<Reach>,
    is_over: AtomicBool,
    next: Mutex<Option<WakeId>>,
}

/// Shows the admission, if there still is one.
type Reach = dyn Fn(&mut dyn FnMut(&mut Admission)) + Send + Sync;

impl Admission {
    /// Renews its permits at half of each lease, for as long as what this returns is kept; nothing
    /// if it has none. `reach` shows this admission to whoever renews, on another thread, as long
    /// as there is one.
    pub fn keep(
        &self,
        reach: impl Fn(&mut dyn FnMut(&mut Admission)) + Send + Sync + 'static,
    ) -> Option<Keeping> {
        let lapse_at = self.permits_lapse_at()?;
        let keeper = Arc::new(Keeper {
            clock: Arc::clone(&self.generation.home.clock),
            background: Background::here(),
            reach: Box::new(reach),
            is_over: AtomicBool::new(false),
            next: Mutex::default(),
        });
        keeper.wait(lapse_at);
        Some(Keeping(keeper))
    }
}

impl Keeper {
    /// Waits for half of the time that is left.
    fn wait(self: &Arc<Keeper>, lapse_at: Tick) {
        let now = self.clock.now();
        let half = Span::from_micros(lapse_at.since(now).get() / 2);
        if half == Span::ZERO {
            return;
        }
        // Nothing is locked: a clock may wake at once.
        let id = self.clock.wake_at(now.after(half), Waker::from(Arc::clone(self)));
        self.set_next(Some(id));
        if self.is_over.load(Ordering::Acquire) {
            self.cancel();
        }
    }

    fn cancel(&self) {
        if let Some(id) = self.set_next(None) {
            self.clock.cancel(id);
        }
    }

    fn set_next(&self, next: Option<WakeId>) -> Option<WakeId> {
        let mut held = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut held, next)
    }
}

impl Wake for Keeper {
    fn wake(self: Arc<Keeper>) {
        if self.is_over.load(Ordering::Acquire) {
            return;
        }
        let mut lapse_at = None;
        (self.reach)(&mut |admission| {
            self.background.finish(admission.renew());
            lapse_at = admission.permits_lapse_at();
        });
        if let Some(lapse_at) = lapse_at {
            self.wait(lapse_at);
        }
    }
}

impl Drop for Keeping {
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
