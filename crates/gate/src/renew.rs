//! Permits that are held for longer than one lease.

use std::pin::Pin;
use std::task::{Context, Poll};

use smallvec::SmallVec;
use tidegate_core::{Kind, Receipt, Shape, Tick};

use crate::admission::{Admission, Charged, Judged};
use crate::settle::limit_of;
use crate::store::StoreFailure;

/// Whether permits are still held, or why that is not known.
pub(crate) type Held = Result<bool, StoreFailure>;

/// A renewal that is under way.
pub(crate) type Renewal = Pin<Box<dyn Future<Output = Held> + Send>>;

/// Where renewals are finished that nobody waits for: the runtime, where there is one.
#[derive(Debug)]
pub(crate) struct Background {
    #[cfg(feature = "redis")]
    runtime: Option<tokio::runtime::Handle>,
}

impl Background {
    /// The runtime that this is called on.
    pub(crate) fn here() -> Background {
        Background {
            #[cfg(feature = "redis")]
            runtime: tokio::runtime::Handle::try_current().ok(),
        }
    }

    /// Finishes a renewal. In this process it is done already.
    pub(crate) fn finish(&self, renewing: Renewing) {
        #[cfg(feature = "redis")]
        if let (Err(renewing), Some(runtime)) = (renewing.ready(), &self.runtime) {
            runtime.spawn(renewing);
        }
        #[cfg(not(feature = "redis"))]
        let _ = (self, renewing);
    }
}

/// Done at once in this process; for a fleet, when Redis has answered. All permits are renewed
/// together.
#[must_use = "Redis is asked when this is awaited"]
pub struct Renewing {
    later: Vec<Renewal>,
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
        for index in 0..self.each.len() {
            let judged = &mut self.each[index];
            if !judged.is_permit || !judged.is_charged {
                continue;
            }
            let is_shadow = judged.is_shadow;
            match &mut judged.charged {
                #[cfg(feature = "redis")]
                Charged::Fleet(charged) => {
                    let renewal = charged.renew();
                    renewing.later.push(Box::pin(async move {
                        let is_held = renewal.await;
                        if is_shadow { Ok(true) } else { is_held }
                    }));
                }
                Charged::Here { .. } => {
                    let is_held = self.renew_here(index) || is_shadow;
                    renewing.hears(Ok(is_held));
                }
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
        let receipts = match &judged.charged {
            #[cfg(feature = "redis")]
            Charged::Fleet(charged) => {
                return charged.permits_lapse_at(&*self.generation.home.clock);
            }
            Charged::Here { receipts, .. } => receipts,
        };
        let taken = receipts.iter().filter(|receipt| 0 < receipt.cost());
        let first = taken.map(Receipt::at).min()?;
        let (limit, timed) = limit_of(&self.generation, judged.rule, judged.variant, judged.part);
        let present = limit.present(timed, &self.generation.home.store, first);
        // The policy may have been changed since.
        let policy = self.generation.home.store.here()?.policy(present.here()?);
        match policy.shape() {
            Shape::Log { per, .. } if policy.kind() == Kind::Concurrency => Some(first.after(per)),
            _ => None,
        }
    }

    /// Renews a permit in this process.
    fn renew_here(&mut self, index: usize) -> bool {
        let (home, generation) = (&*self.generation.home, &*self.generation);
        let judged = &mut self.each[index];
        let (key, receipts) = match &mut judged.charged {
            #[cfg(feature = "redis")]
            Charged::Fleet(_) => return false,
            Charged::Here { key, receipts } => (*key, receipts),
        };
        let Some(store) = home.store.here() else { return false };
        let now = home.clock.now();
        let (limit, timed) = limit_of(generation, judged.rule, judged.variant, judged.part);
        let present = limit.present(timed, &home.store, now);
        let Some(rule) = present.here() else { return false };
        let taken: SmallVec<[Receipt; 1]> = std::mem::take(receipts);
        let renewed = taken.into_iter().filter_map(|it| store.renew(rule, key, now, it));
        receipts.extend(renewed);
        // What costs nothing holds nothing.
        judged.cost == 0 || !receipts.is_empty()
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
