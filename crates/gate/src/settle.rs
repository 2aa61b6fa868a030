//! What is done about a charge after the response is known: more, less, or nothing.

#[cfg(feature = "redis")]
use std::future::poll_fn;
use std::pin::Pin;
#[cfg(feature = "redis")]
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use smallvec::SmallVec;
use tidegate_config::{Response, Timed};
use tidegate_core::{Decision, Receipt, Tick};
#[cfg(feature = "redis")]
use tidegate_redis::Fleet;
use tidegate_store::{Key, MemoryStore, Rule};
#[cfg(feature = "redis")]
use tokio::runtime::Handle;

use crate::admission::{Admission, Charged, Judged};
use crate::answer::Answer;
use crate::generation::{Generation, Limit};
#[cfg(feature = "redis")]
use crate::ledger::{self, Opening};

/// Done at once in this process; for a fleet, when Redis knows.
///
/// Redis is told of all limits at the same time. Dropped before that is done, it is finished by a
/// task of its own: what a request costs does not depend on who still waits for it, nor on the
/// thread that it is dropped on.
#[derive(Default)]
#[must_use = "when this has been awaited, Redis knows"]
pub struct Settling {
    /// Never locked: only whoever has it alone looks into it. So it is `Sync`, as bodies have to be
    /// that are boxed.
    later: Mutex<Vec<Telling>>,
    /// Where it is finished; there is one wherever something is later.
    #[cfg(feature = "redis")]
    runtime: Option<Handle>,
}

/// How often room is looked for that others may take meanwhile.
pub(crate) const LOOKS_MAX: usize = 8;

/// Something that Redis is to be told.
pub(crate) type Telling = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Settling {
    fn each(&mut self) -> &mut Vec<Telling> {
        self.later.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has Redis told something, by the connections of a fleet.
    #[cfg(feature = "redis")]
    fn tell(&mut self, fleet: &Fleet, telling: Telling) {
        self.runtime.get_or_insert_with(|| fleet.runtime().clone());
        self.each().push(telling);
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
    /// What was charged too much is given back; what was charged too little is charged as far as
    /// there is room. In this process it is done at once; for a fleet it is one more round trip, or
    /// two where something is given back or there is no room. What [`Admission::each`] and
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
    /// only that and permits are given back; see [`MemoryStore::give_up`].
    pub fn refund(&mut self) -> Settling {
        let is_early = |by| self.generation.home.clock.now() < self.now.after(by);
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
        let (rules, rule) = (&self.generation.rules, judged.rule as usize);
        judged.is_open.then(|| rules.settled(rule, self.route_cost, response))?
    }

    /// Gives back permits of concurrency rules, and its place in a share, before this is dropped.
    ///
    /// Whoever awaits it knows that the next one may have them. Otherwise Redis is told of it all
    /// the same, a little later.
    pub fn release(&mut self) -> Settling {
        self.give_back(false)
    }

    fn settle_one(&mut self, index: usize, cost: u32, later: &mut Settling) {
        let judged = &mut self.each[index];
        let (home, generation) = (&*self.generation.home, &*self.generation);
        match &mut judged.charged {
            #[cfg(feature = "redis")]
            Charged::Fleet(charged) => {
                let clock = Arc::clone(&home.clock);
                let opening = Opening { cells: judged.cost, by: self.by, clock };
                let telling = charged.settle(cost, opening);
                later.tell(charged.fleet(), telling);
            }
            Charged::Here { key, receipts } => {
                let Some(store) = home.store.here() else { return };
                let _ = &later;
                let now = home.clock.now();
                let (limit, timed) = limit_of(generation, judged.rule, judged.variant, judged.part);
                let present = limit.present(timed, &home.store, now);
                let Some(rule) = present.here() else { return };
                if judged.cost < cost {
                    let more = debit(store, rule, *key, now, cost - judged.cost);
                    judged.cost += more.as_ref().map_or(0, Receipt::cost);
                    receipts.extend(more);
                } else {
                    for receipt in take_cells(receipts, judged.cost - cost) {
                        store.refund(rule, *key, now, receipt);
                    }
                    judged.cost = cost;
                }
                let verdict = judged.decision.verdict;
                judged.decision = Decision { verdict, ..store.peek(rule, *key, now, 0) };
                judged.settled_at = Some(now);
            }
        }
    }

    /// Reads anew what is left under each limit in this process; what each said stays. Redis says
    /// it when it has been told of what is given back.
    pub(crate) fn look_again(&mut self) {
        let (home, generation) = (&*self.generation.home, &*self.generation);
        let Some(store) = home.store.here() else { return };
        for judged in &mut self.each {
            let key = match &judged.charged {
                #[cfg(feature = "redis")]
                Charged::Fleet(_) => continue,
                Charged::Here { key, .. } => key,
            };
            let now = home.clock.now();
            let (limit, timed) = limit_of(generation, judged.rule, judged.variant, judged.part);
            if let Some(rule) = limit.present(timed, &home.store, now).here() {
                let verdict = judged.decision.verdict;
                judged.decision = Decision { verdict, ..store.peek(rule, *key, now, 0) };
                judged.settled_at = Some(now);
            }
        }
    }

    /// Gives back what a request was charged that gives up before its start; see
    /// [`MemoryStore::give_up`]. Of Redis it is the same.
    pub(crate) fn give_up(&mut self) -> Settling {
        self.leave_unserved();
        let (home, generation) = (&*self.generation.home, &*self.generation);
        if let Some(store) = home.store.here() {
            let now = home.clock.now();
            let (mut rules, mut charged) = (Vec::new(), Vec::new());
            for judged in &mut self.each {
                let (limit, timed) = limit_of(generation, judged.rule, judged.variant, judged.part);
                let present = limit.present(timed, &home.store, now);
                if let (Charged::Here { key, receipts }, Some(rule)) =
                    (&mut judged.charged, present.here())
                {
                    rules.extend(receipts.iter().map(|_| rule.clone()));
                    charged.extend(receipts.drain(..).map(|receipt| (*key, receipt)));
                }
            }
            let charged = rules.iter().zip(charged);
            store.give_up(now, charged.map(|(rule, (key, receipt))| (rule, key, receipt)));
        }
        self.give_up_there()
    }

    /// The same of what Redis has charged. It is told of permits at the same time.
    #[cfg(feature = "redis")]
    fn give_up_there(&mut self) -> Settling {
        let (mut later, mut ledgers, mut fleet) = (Settling::default(), Vec::new(), None);
        let (by, home) = (self.by, &*self.generation.home);
        for judged in &mut self.each {
            let Charged::Fleet(charged) = &mut judged.charged else { continue };
            let opening = Opening { cells: judged.cost, by, clock: Arc::clone(&home.clock) };
            if judged.is_permit {
                let telling = charged.give_back(opening);
                later.tell(charged.fleet(), telling);
            } else {
                ledgers.push(charged.open(opening));
                fleet.get_or_insert_with(|| charged.fleet().clone());
            }
        }
        if let Some(fleet) = fleet {
            later.tell(&fleet, Box::pin(ledger::give_up(ledgers)));
        }
        later
    }

    #[cfg(not(feature = "redis"))]
    fn give_up_there(&mut self) -> Settling {
        Settling::default()
    }

    /// Gives back permits, or all of it. Redis is told of it also where nobody waits for that.
    pub(crate) fn give_back(&mut self, all: bool) -> Settling {
        // All of it is given back only by what was not served.
        if all {
            self.leave_unserved();
        } else {
            self.leave();
        }
        #[cfg_attr(not(feature = "redis"), expect(unused_mut, reason = "here nothing is later"))]
        let mut later = Settling::default();
        let (home, generation) = (&*self.generation.home, &*self.generation);
        for judged in &mut self.each {
            if !all && !judged.is_permit {
                continue;
            }
            match &mut judged.charged {
                #[cfg(feature = "redis")]
                Charged::Fleet(charged) if all => {
                    let clock = Arc::clone(&home.clock);
                    let opening = Opening { cells: judged.cost, by: self.by, clock };
                    let telling = charged.give_back(opening);
                    later.tell(charged.fleet(), telling);
                }
                #[cfg(feature = "redis")]
                Charged::Fleet(charged) => {
                    if let Some(telling) = charged.release() {
                        later.tell(charged.fleet(), telling);
                    }
                }
                Charged::Here { key, receipts } => {
                    let Some(store) = home.store.here() else { continue };
                    let (limit, timed) =
                        limit_of(generation, judged.rule, judged.variant, judged.part);
                    let receipts = std::mem::take(receipts);
                    let now = home.clock.now();
                    let present = limit.present(timed, &home.store, now);
                    for (receipt, rule) in
                        receipts.into_iter().zip(present.here().into_iter().cycle())
                    {
                        store.refund(rule, *key, now, receipt);
                    }
                }
            }
        }
        later
    }
}

/// A limit, and what the file says of it.
pub(crate) fn limit_of(
    generation: &Generation,
    rule: u32,
    variant: u32,
    part: u8,
) -> (&Limit, &Timed) {
    let (rule, variant, part) = (rule as usize, variant as usize, usize::from(part));
    let timed = &generation.rule(rule).variants()[variant].policies()[part];
    (&generation.limits(rule, variant)[part], timed)
}

/// Charges what has happened already, as far as there is room for it.
fn debit(store: &MemoryStore, rule: &Rule, key: Key, now: Tick, cells: u32) -> Option<Receipt> {
    // Between a look and a charge, others may take what there was.
    (0..LOOKS_MAX).find_map(|_| {
        let room = store.peek(rule, key, now, 0).remaining;
        store.decide_with_receipt(rule, key, now, cells.min(room)).1
    })
}

/// Takes receipts for so many cells out, the latest first.
fn take_cells(receipts: &mut SmallVec<[Receipt; 1]>, mut cells: u32) -> SmallVec<[Receipt; 1]> {
    let mut taken = SmallVec::new();
    while 0 < cells
        && let Some(last) = receipts.pop()
    {
        let (at, charged) = (last.at(), last.cost());
        let back = cells.min(charged);
        taken.push(Receipt::new(at, back));
        if back < charged {
            receipts.push(Receipt::new(at, charged - back));
        }
        cells -= back;
    }
    taken
}

/// Goes on with all of them, and keeps those that are not done.
pub(crate) fn poll_all(later: &mut Vec<Telling>, context: &mut Context<'_>) -> Poll<()> {
    later.retain_mut(|telling| telling.as_mut().poll(context).is_pending());
    if later.is_empty() { Poll::Ready(()) } else { Poll::Pending }
}

impl Future for Settling {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        poll_all(self.each(), context)
    }
}

#[cfg(feature = "redis")]
impl Drop for Settling {
    fn drop(&mut self) {
        let mut later = std::mem::take(self.each());
        if !later.is_empty()
            && let Some(runtime) = &self.runtime
        {
            // Not as a `Settling`: a runtime that ends drops it, which would start another.
            drop(runtime.spawn(poll_fn(move |context| poll_all(&mut later, context))));
        }
    }
}

impl std::fmt::Debug for Settling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settling").finish_non_exhaustive()
    }
}
