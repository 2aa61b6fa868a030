//! The way back to Redis without a free burst: what passed without it is charged to it, once.
//!
//! Key by key, as they are asked about. One request repays, and all others for that key wait for
//! it, so that none is decided by Redis before Redis knows. It is done in a task of its own, so
//! that it is finished even if the caller that began it goes away. What Redis certainly did not
//! take is still owed; what it may have taken is not sent again. By what this node decides stays as
//! it is: should Redis go away again, there is no fresh share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_core::Tick;
use tidegate_store::Key;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Fleet;
use super::judge::Part;
use crate::failure::StoreError;
use crate::store::FleetCharge;

/// The most keys that are repaid at a time; others are decided without Redis until it is their
/// turn.
const REPAYING_MAX: usize = 16_384;

/// Which key of which rule, by its number.
type Owed = (u64, Key);

/// The keys that are being repaid. Those who wait for one wait for its semaphore, which is closed
/// when Redis has been told, or has said no; it has a permit when that is not known in time.
#[derive(Debug, Default)]
pub(super) struct Repaying {
    keys: Mutex<HashMap<Owed, Arc<Semaphore>>>,
}

/// What to do about a key that owes something.
enum Turn {
    /// Nobody repays it yet.
    Ours(Arc<Semaphore>),
    /// Somebody does.
    Wait(Arc<Semaphore>),
    /// Too many are repaid already.
    Skip,
}

impl Repaying {
    fn enter(&self, owed: Owed) -> Turn {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(done) = keys.get(&owed) {
            return Turn::Wait(Arc::clone(done));
        }
        if REPAYING_MAX <= keys.len() {
            return Turn::Skip;
        }
        let done = Arc::new(Semaphore::new(0));
        keys.insert(owed, Arc::clone(&done));
        Turn::Ours(done)
    }

    fn leave(&self, owed: &Owed, is_over: bool) {
        let done = self.keys.lock().unwrap_or_else(PoisonError::into_inner).remove(owed);
        match done {
            Some(done) if is_over => done.close(),
            Some(done) => done.add_permits(1),
            None => {}
        }
    }
}

/// Ends a repayment whatever becomes of it.
struct Leaving {
    fleet: Fleet,
    owed: Owed,
    is_over: bool,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.fleet.inner.repaying.leave(&self.owed, self.is_over);
    }
}

impl Fleet {
    /// Charges to Redis what was let through without it, for the keys of this request. Where that
    /// is not done in time, Redis must not decide: it would give the same cells out again.
    pub(super) async fn repay(&self, parts: &[Part<'_>], deadline: Tick) -> Result<(), StoreError> {
        if self.inner.owed.is_empty(|| self.now()) {
            return Ok(());
        }
        let mut waits = Vec::new();
        for part in parts.iter().filter(|part| part.rule.is_local()) {
            waits.extend(self.begin(part, deadline)?);
        }
        for done in waits {
            let over = timeout(self.inner.store.left(deadline), done.acquire()).await;
            if !matches!(over, Ok(Err(_))) {
                return Err(not_told());
            }
        }
        Ok(())
    }

    /// Begins to repay a key, if something is owed for it; what to wait for.
    fn begin(&self, part: &Part<'_>, deadline: Tick) -> Result<Option<Arc<Semaphore>>, StoreError> {
        let inner = &self.inner;
        let Some((key, cost)) = inner.owed.look(part, self.now()) else { return Ok(None) };
        if cost == 0 || !inner.store.is_asked(&part.present.rule, part.key) {
            return Ok(None);
        }
        let owed = (part.rule.number(), key);
        let done = match inner.repaying.enter(owed) {
            Turn::Skip => return Err(not_told()),
            Turn::Wait(done) => return Ok(Some(done)),
            Turn::Ours(done) => done,
        };
        let mut leaving = Leaving { fleet: self.clone(), owed, is_over: false };
        let (present, fleet_key) = (Arc::clone(&part.present), *part.key);
        tokio::spawn(async move {
            let inner = &leaving.fleet.inner;
            let charge = FleetCharge { rule: &present.rule, key: &fleet_key, cost };
            let done = inner.store.debit_by(charge, deadline).await;
            let is_refused = done.as_ref().is_err_and(StoreError::is_certain);
            // A server that is full says no in time, and lets nothing pass either.
            let is_in_time = !inner.store.left(deadline).is_zero();
            leaving.is_over = done.is_ok() || (is_refused && is_in_time);
            // What may have been charged is not sent again.
            if !is_refused {
                inner.owed.repaid(&present.owed, key, cost, leaving.fleet.now());
            }
        });
        Ok(Some(done))
    }
}

fn not_told() -> StoreError {
    StoreError::NotCharged("what passed without it is not charged there yet".into())
}
