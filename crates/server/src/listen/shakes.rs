//! Who may be in the middle of a TLS handshake: so many of each address, and so many in all.
//!
//! A client that says nothing holds a place until its time is over. So an address waits behind
//! itself first, and the last places are for addresses that have none: silence is in nobody else's
//! way.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::caller::Caller;
use crate::limits;

/// Whether an address is that of a proxy, behind which there are many.
pub(crate) type Trusts = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// The handshakes of a door.
pub(super) struct Shakes {
    /// For every address.
    common: Semaphore,
    /// For addresses that are in the middle of no other.
    last: Semaphore,
    each: Mutex<HashMap<Caller, Each>>,
    trusts: Trusts,
    pub(super) time: Duration,
}

/// The handshakes of an address.
struct Each {
    turns: Arc<Semaphore>,
    /// How many there are, those that wait included.
    count: usize,
}

/// One of an address's handshakes, until it is dropped.
pub(super) struct Line<'s> {
    shakes: &'s Shakes,
    /// Nothing for a proxy, which is not counted.
    of: Option<(Caller, Arc<Semaphore>)>,
}

impl Shakes {
    pub(super) fn new(trusts: Trusts, time: Duration) -> Shakes {
        let last = limits::HANDSHAKES_MAX / 4;
        Shakes {
            common: Semaphore::new(limits::HANDSHAKES_MAX - last),
            last: Semaphore::new(last),
            each: Mutex::default(),
            trusts,
            time,
        }
    }

    /// Lets an address stand in line; nothing, if too many of its handshakes do already.
    pub(super) fn line_up(&self, address: IpAddr) -> Option<Line<'_>> {
        if (self.trusts)(address) {
            return Some(Line { shakes: self, of: None });
        }
        let caller = Caller::at(address);
        let mut all = self.lock();
        let each = all.entry(caller).or_insert_with(|| Each {
            turns: Arc::new(Semaphore::new(limits::HANDSHAKES_EACH_MAX)),
            count: 0,
        });
        if limits::HANDSHAKES_WAITING_EACH_MAX <= each.count {
            return None;
        }
        each.count += 1;
        Some(Line { shakes: self, of: Some((caller, Arc::clone(&each.turns))) })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Caller, Each>> {
        self.each.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line<'_> {
    /// Waits for its turn, behind those of its own address, then behind all. The turn is over when
    /// both permits are dropped; nothing, if the door is closed.
    pub(super) async fn turn(&self) -> Option<(Option<SemaphorePermit<'_>>, SemaphorePermit<'_>)> {
        let Shakes { common, last, .. } = self.shakes;
        let turns = self.of.as_ref().map(|(_, turns)| turns);
        let own = match turns {
            Some(turns) => Some(turns.acquire().await.ok()?),
            None => None,
        };
        if let Ok(one) = common.try_acquire() {
            return Some((own, one));
        }
        let others =
            |turns: &Arc<Semaphore>| limits::HANDSHAKES_EACH_MAX - turns.available_permits() - 1;
        let is_only = turns.is_none_or(|turns| others(turns) == 0);
        let spare = if is_only { last.try_acquire().ok() } else { None };
        let one = match spare {
            Some(one) => one,
            None => common.acquire().await.ok()?,
        };
        Some((own, one))
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let Some((caller, _)) = &self.of else { return };
        let mut all = self.shakes.lock();
        if let Some(each) = all.get_mut(caller) {
            each.count -= 1;
            if each.count == 0 {
                all.remove(caller);
            }
        }
    }
}

impl fmt::Debug for Shakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shakes").finish_non_exhaustive()
    }
}
