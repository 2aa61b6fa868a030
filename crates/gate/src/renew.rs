//! Permits that are held for longer than one lease.

use std::pin::Pin;
use std::task::{Context, Poll};

use tidegate_core::Tick;
use tidegate_store::{Place, StoreFailure, Work};

use crate::admission::{Admission, Judged};

/// Whether permits are still held, or why that is not known.
type Held = Result<bool, StoreFailure>;

/// Done at once with the store in this process, otherwise when the store has answered. All permits
/// are renewed together, also where nobody waits for that.
pub struct Renewing {
    later: Vec<Work<Held>>,
    so_far: Held,
}

impl Admission {
    /// Renews its permits: each lapses one lease from now. Whether all of them are still held.
    ///
    /// A permit that has lapsed, or was released, is not taken again: then somebody else may have
    /// it. Permits in shadow are renewed as well, but nobody depends on them. Without permits there
    /// is nothing to lose.
    ///
    /// Where Redis does not answer, permits stay as they are, or are renewed without our knowing:
    /// then they come back when their lease ends, and the next renewal says that they are gone.
    pub fn renew(&mut self) -> Renewing {
        let mut renewing = Renewing { later: Vec::new(), so_far: Ok(true) };
        let home = &*self.in_force.home;
        let now = home.now();
        for judged in self.each.iter_mut().filter(|it| it.is_permit && it.is_charged) {
            let (is_shadow, limit) = (judged.is_shadow, self.in_force.present(judged, now));
            let at = Place { limit: &limit, key: &judged.key };
            match home.store.renew(at, &mut judged.charged, &home.clock).ready() {
                Ok(is_held) => renewing.hears(if is_shadow { Ok(true) } else { is_held }),
                Err(later) => renewing.later.push(Box::pin(async move {
                    let is_held = later.await;
                    if is_shadow { Ok(true) } else { is_held }
                })),
            }
        }
        renewing
    }

    /// When the first of its permits lapses, unless it is renewed; nothing without permits.
    pub fn permits_lapse_at(&self) -> Option<Tick> {
        self.permits_lapse().min()
    }

    /// When each of its permits lapses.
    pub(crate) fn permits_lapse(&self) -> impl Iterator<Item = Tick> {
        let permits = self.each.iter().filter(|judged| judged.is_permit);
        permits.filter_map(|judged| self.lapses_at(judged))
    }

    /// Whether it holds permits of concurrency rules, or a place in a share.
    pub fn has_permits(&self) -> bool {
        self.has_place() || self.permits_lapse_at().is_some()
    }

    fn lapses_at(&self, judged: &Judged) -> Option<Tick> {
        let home = &*self.in_force.home;
        let limit = self.in_force.present(judged, home.now());
        let at = Place { limit: &limit, key: &judged.key };
        home.store.lapses_at(at, &judged.charged, &*home.clock)
    }
}

impl Renewing {
    /// Whether all permits are still held, if that is known already: always so in this process.
    pub fn ready(self) -> Result<Result<bool, StoreFailure>, Renewing> {
        if self.later.is_empty() { Ok(self.so_far) } else { Err(self) }
    }

    /// One more answer. A permit that is gone weighs more than one of which nothing is known.
    fn hears(&mut self, is_held: Held) {
        if !matches!(self.so_far, Ok(false)) && !matches!(is_held, Ok(true)) {
            self.so_far = is_held;
        }
    }
}

impl Future for Renewing {
    type Output = Result<bool, StoreFailure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut index = 0;
        while let Some(next) = self.later.get_mut(index) {
            match next.as_mut().poll(context) {
                Poll::Pending => index += 1,
                Poll::Ready(is_held) => {
                    drop(self.later.swap_remove(index));
                    self.hears(is_held);
                }
            }
        }
        if !self.later.is_empty() {
            return Poll::Pending;
        }
        Poll::Ready(std::mem::replace(&mut self.so_far, Ok(true)))
    }
}

impl std::fmt::Debug for Renewing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renewing").field("calls", &self.later.len()).finish_non_exhaustive()
    }
}
