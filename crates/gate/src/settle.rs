//! What is done about a charge after the response is known: more, less, or nothing.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use tidegate_config::Response;
use tidegate_core::Decision;
use tidegate_store::{Charged, Later, LimitCharge, Place, Verb, Work};

use crate::admission::{Admission, Judged};
use crate::answer::Answer;

/// Done at once with the store in this process; otherwise when the store knows.
///
/// The store is asked about all limits at the same time. Dropped before that is done, the store
/// finishes it: what a request costs does not depend on who still waits for it, nor on the thread
/// that it is dropped on.
#[derive(Default)]
#[must_use = "when this has been awaited, the store knows"]
pub struct Settling {
    /// Never locked: only its owner looks into it. So it is `Sync`, as bodies have to be that are
    /// boxed.
    later: Mutex<Vec<Work<()>>>,
}

impl Settling {
    fn each(&mut self) -> &mut Vec<Work<()>> {
        self.later.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn waits_for<T: Send + Unpin + 'static>(&mut self, later: Later<T>) {
        if let Later::Pending(work) = later.map(drop) {
            self.each().push(work);
        }
    }
}

impl Admission {
    /// Whether the response has a say in what was charged.
    pub fn is_open(&self) -> bool {
        self.each.iter().any(|judged| judged.is_open) || self.has_open_turn()
    }

    /// Charges what the response says, where a rule asks for it: failed logins count, cached
    /// answers do not.
    ///
    /// What was charged too much is given back, as if it had never been charged; what was charged
    /// too little has happened, and is debited in full: the limit may then be overdrawn. In this
    /// process it is done at once; in Redis it is two more round trips, the second of which asks
    /// what is left. What [`Admission::each`] and
    /// [`Admission::fields`] tell afterwards is what is left then.
    pub fn settle(&mut self, response: &dyn Response) -> Settling {
        self.answered(response);
        self.adjust(Some(response), |_| None)
    }

    /// Charges `cells` instead of what was charged, under every rule without a cost of its own.
    pub fn set_cost(&mut self, cells: u32) -> Settling {
        self.adjust(None, |answer| (!answer.has_own_cost).then_some(cells))
    }

    /// Charges `cells` more, under every rule without a cost of its own.
    pub fn charge_more(&mut self, cells: u32) -> Settling {
        let more = |answer: &Answer<'_>| answer.cost.saturating_add(cells);
        self.adjust(None, |answer| (!answer.has_own_cost).then(|| more(answer)))
    }

    /// Gives everything back, as if nobody had asked.
    ///
    /// Before its turn in a queue has come, it leaves the queue: if others stand behind its slot,
    /// only that and permits are given back; see
    /// [`Store::give_up`](tidegate_store::Store::give_up).
    pub fn refund(&mut self) -> Settling {
        let is_early = |by| self.in_force.home.clock.now() < self.now.after(by);
        if !self.delay().is_some_and(is_early) {
            return self.adjust(None, |_| Some(0));
        }
        let settling = self.give_up();
        self.look_again();
        self.each.iter_mut().for_each(|judged| judged.is_charged = false);
        settling
    }

    /// Charges what the response says and, where it says nothing, what `wish` does; both in one go.
    pub fn adjust(
        &mut self,
        response: Option<&dyn Response>,
        wish: impl Fn(&Answer<'_>) -> Option<u32>,
    ) -> Settling {
        let mut later = Settling::default();
        self.adjust_turn(response, &wish);
        for index in 0..self.each.len() {
            let judged = &self.each[index];
            // Permits stay: they are held, not spent.
            if judged.is_permit || !judged.is_charged {
                continue;
            }
            let ruled = response.and_then(|response| self.ruled(judged, response));
            // What a response has ruled out stays out.
            let is_out = response.is_none() && judged.is_open && judged.cost() == 0;
            let wished = || (!is_out).then(|| wish(&self.answer(judged)))?;
            if let Some(cost) = ruled.or_else(wished).filter(|cost| *cost != judged.cost()) {
                self.settle_one(index, cost, &mut later);
            }
        }
        later
    }

    /// What a response says of a charge.
    fn ruled(&self, judged: &Judged, response: &dyn Response) -> Option<u32> {
        let (rules, rule) = (&self.in_force.rules, judged.rule as usize);
        judged.is_open.then(|| rules.settled(rule, self.route_cost, response))?
    }

    /// Gives back permits of concurrency rules, and its place in a share, before this is dropped.
    ///
    /// Once it has been awaited, the next request may have them. Otherwise a store elsewhere hears
    /// of it all the same, a little later.
    pub fn release(&mut self) -> Settling {
        self.give_back(false)
    }

    fn settle_one(&mut self, index: usize, cost: u32, later: &mut Settling) {
        let (home, judged) = (&*self.in_force.home, &mut self.each[index]);
        let limit = self.in_force.present(judged, home.now());
        let at = Place { limit: &limit, key: &judged.key };
        match home.store.settle(at, &mut judged.charged, cost, &home.clock) {
            Later::Ready(standing) => judged.stands(standing),
            pending => later.waits_for(pending),
        }
    }

    /// Reads anew what is left under each limit, where the store says so at once; what each said
    /// stays. Another store says it when it has heard of what is given back.
    pub(crate) fn look_again(&mut self) {
        let home = &*self.in_force.home;
        if !home.store.answers_at_once() {
            return;
        }
        for judged in &mut self.each {
            let now = home.clock.now();
            let limit = self.in_force.present(judged, now);
            let at = Place { limit: &limit, key: &judged.key };
            let looked = home.store.judge(&[LimitCharge { at, cost: 0 }], Verb::Peek, now).ready();
            if let Some((decision, _)) = looked.ok().and_then(|it| it.limits.into_iter().next()) {
                let verdict = judged.decision.verdict;
                judged.decision = Decision { verdict, ..decision };
                judged.settled_at = Some(now);
            }
        }
    }

    /// Gives back what a request was charged that gives up before its start; see
    /// [`Store::give_up`](tidegate_store::Store::give_up).
    pub(crate) fn give_up(&mut self) -> Settling {
        self.leave_unserved();
        let (mut settling, home) = (Settling::default(), &*self.in_force.home);
        let now = home.now();
        let limits = self.each.iter().map(|judged| self.in_force.present(judged, now));
        let limits: Vec<_> = limits.collect();
        let charged = self.each.iter_mut().zip(&limits).filter_map(|(judged, limit)| {
            let Judged { key, charged, .. } = judged;
            let is_nothing = matches!(charged, Charged::Nothing);
            (!is_nothing).then_some((Place { limit, key }, charged))
        });
        let mut charged: Vec<_> = charged.collect();
        if !charged.is_empty() {
            settling.waits_for(home.store.give_up(&mut charged, &home.clock));
        }
        settling
    }

    /// Gives back permits, or all of it, whether or not somebody waits for that.
    pub(crate) fn give_back(&mut self, all: bool) -> Settling {
        // All of it is given back only by what was not served.
        if all {
            self.leave_unserved();
        } else {
            self.leave();
        }
        let (mut settling, home) = (Settling::default(), &*self.in_force.home);
        let now = home.now();
        for judged in self.each.iter_mut().filter(|it| all || it.is_permit) {
            if matches!(judged.charged, Charged::Nothing) {
                continue;
            }
            let limit = self.in_force.present(judged, now);
            let at = Place { limit: &limit, key: &judged.key };
            if all {
                settling.waits_for(home.store.settle(at, &mut judged.charged, 0, &home.clock));
            } else {
                settling.waits_for(home.store.release(at, &mut judged.charged, &home.clock));
            }
        }
        settling
    }
}

impl Future for Settling {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let later = self.each();
        later.retain_mut(|work| work.as_mut().poll(context).is_pending());
        if later.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl std::fmt::Debug for Settling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settling").finish_non_exhaustive()
    }
}
