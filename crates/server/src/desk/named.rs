//! Limits that callers name in what they ask: so many for each, and for all.
//!
//! One is forgotten when nobody asks by it and all of its keys are fresh; never before, or a key
//! would get a fresh burst.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::WithoutStore;
use tidegate_core::{Policy, Tick};
use tidegate_gate::{AdhocLimit, Gate, StoreFailure};

use super::ration::{NoRoom, Ration};
use crate::caller::Caller;
use crate::limits;

/// All limits that callers have named.
#[derive(Debug)]
pub(crate) struct NamedLimits(Mutex<Shelf>);

/// One of them.
#[derive(Debug)]
pub(crate) struct NamedLimit {
    pub(crate) limit: AdhocLimit,
    /// Whether anything was ever charged under it.
    is_charged: AtomicBool,
}

/// Why a caller does not get a limit.
#[derive(Debug)]
pub(crate) enum NoLimit {
    NoRoom(NoRoom),
    Failed(StoreFailure),
}

#[derive(Debug)]
struct Shelf {
    limits: HashMap<Box<str>, Entry>,
    ration: Ration,
}

#[derive(Debug)]
struct Entry {
    limit: Arc<NamedLimit>,
    caller: Caller,
    /// Since when nobody is seen who asks by it.
    idle_since: Option<Tick>,
}

impl NamedLimit {
    /// Something may be charged under it from now on.
    #[inline]
    pub(crate) fn is_charged(&self) {
        // Mostly it is known already, and nobody's line of memory has to be written.
        if !self.is_charged.load(Ordering::Relaxed) {
            self.is_charged.store(true, Ordering::Relaxed);
        }
    }
}

impl NamedLimits {
    /// The limit of this name: the one that there is, or a new one.
    pub(crate) fn limit(
        &self,
        gate: &Gate,
        caller: Caller,
        name: &str,
        (policy, without): (Policy, WithoutStore),
    ) -> Result<Arc<NamedLimit>, NoLimit> {
        let mut kept = self.lock();
        if let Some(entry) = kept.limits.get_mut(name) {
            entry.idle_since = None;
            return Ok(Arc::clone(&entry.limit));
        }
        kept.ration.room(caller).map_err(NoLimit::NoRoom)?;
        let limit = gate.adhoc(name, policy, without).map_err(NoLimit::Failed)?;
        let limit = Arc::new(NamedLimit { limit, is_charged: AtomicBool::new(false) });
        let entry = Entry { limit: Arc::clone(&limit), caller, idle_since: None };
        kept.limits.insert(name.into(), entry);
        kept.ration.take(caller);
        Ok(limit)
    }

    /// Forgets limits by which nobody asks, and under which nothing can be owed any more.
    pub(crate) fn let_go(&self, gate: &Gate) {
        let now = gate.now();
        let Shelf { limits, ration } = &mut *self.lock();
        limits.retain(|_, entry| {
            let stays = !entry.is_over(now);
            if !stays {
                ration.give_back(entry.caller);
                gate.forget_adhoc(&entry.limit.limit);
            }
            stays
        });
    }

    /// The callers that have the most of them, and how many all others have.
    pub(crate) fn most(&self, count: usize) -> (Vec<(Caller, usize)>, usize) {
        self.lock().ration.most(count)
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for NamedLimits {
    fn default() -> NamedLimits {
        let ration = Ration::new(limits::NAMED_EACH_MAX, limits::NAMED_MAX);
        NamedLimits(Mutex::new(Shelf { limits: HashMap::new(), ration }))
    }
}

impl Entry {
    /// Whether it can be forgotten. What was charged is paid by then, if nobody has it since.
    fn is_over(&mut self, now: Tick) -> bool {
        if 1 < Arc::strong_count(&self.limit) {
            self.idle_since = None;
            return false;
        }
        // What the last one who had it charged is seen.
        fence(Ordering::Acquire);
        let since = *self.idle_since.get_or_insert(now);
        let is_charged = self.limit.is_charged.load(Ordering::Relaxed);
        !is_charged || self.limit.limit.policy().paid_at(since) <= now
    }
}
