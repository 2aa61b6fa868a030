//! What a handler knows of its request's limits, and what it can do about them.
//!
//! A handler only wishes. The layer carries wishes out when the response is there, before its
//! headers are written: so they tell the truth, and a handler never waits for a store.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, StatusCode};
use tidegate_core::{Decision, Span};
use tidegate_gate::adapt::Outcome;
use tidegate_gate::{Admission, Answer, RenewalPlan, RenewalTimer, Response, Settling};

use crate::fields::{self, Wins};
use crate::grpc;
use crate::refusal::IsRefusal;
use crate::seen::Answered;

/// The limits of a request that passed: in its extensions, and an argument of axum's handlers.
///
/// What a handler says here is done when it returns its response. A clone that is moved into the
/// response's body may go on: what it says until then is done when the body ends. So an answer can
/// be charged by its length.
#[derive(Clone, Debug)]
pub struct Limits(Arc<Mutex<State>>);

/// How a request stands with one limit.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Standing {
    /// The limit's name as clients see it.
    pub name: String,
    /// How many cells the request was charged.
    pub cost: u32,
    /// The most cells that could ever pass at once.
    pub limit: u32,
    /// How many more cells would pass now.
    pub remaining: u32,
    /// How long until the key is as good as fresh.
    pub reset_after: Span,
    /// Whether it only watches.
    pub is_shadow: bool,
}

#[derive(Debug)]
struct State {
    admission: Box<Admission>,
    wishes: Wishes,
    /// The head of a response whose trailers say what came of it. Until they come, and if they
    /// never do, what was charged stays charged.
    unheard: Option<Box<(StatusCode, HeaderMap)>>,
}

/// What a handler wants: everything back, then so much in all, then so much more.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Wishes {
    refund: bool,
    cost: Option<u32>,
    more: u32,
}

impl Limits {
    /// The verdict, with the numbers of the limit that is closest to refusing.
    pub fn decision(&self) -> Decision {
        self.state().admission.decision()
    }

    /// How the request stands with each limit, those in shadow included.
    pub fn each(&self) -> Vec<Standing> {
        let state = self.state();
        let each = state.admission.each().map(|answer| Standing {
            name: answer.name(),
            cost: answer.cost,
            limit: answer.decision.limit,
            remaining: answer.decision.remaining,
            reset_after: answer.decision.reset_after,
            is_shadow: answer.is_shadow,
        });
        each.collect()
    }

    /// Charges `cells` more, under every rule without a cost of its own, as far as there is room.
    pub fn charge_more(&self, cells: u32) {
        let wishes = &mut self.state().wishes;
        wishes.more = wishes.more.saturating_add(cells);
    }

    /// Charges `cells` in all, under every rule without a cost of its own.
    pub fn set_cost(&self, cells: u32) {
        let wishes = &mut self.state().wishes;
        (wishes.cost, wishes.more) = (Some(cells), 0);
    }

    /// Gives everything back, as if nobody had asked.
    pub fn refund(&self) {
        self.state().wishes = Wishes { refund: true, ..Wishes::default() };
    }

    /// Renews permits for as long as what this returns is kept.
    fn keep(&self, renewal_plan: RenewalPlan) -> RenewalTimer {
        let state = Arc::downgrade(&self.0);
        renewal_plan.keep(move |renew| {
            if let Some(state) = state.upgrade() {
                renew(&mut Limits(state).state().admission);
            }
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Carries out wishes; what the policy says of the response goes before them. `None` if there
    /// is nothing to do.
    fn carry_out(&mut self, response: Option<&dyn Response>) -> Option<Settling> {
        let is_heard = response.is_some() && self.admission.listens();
        if !is_heard && self.wishes == Wishes::default() {
            return None;
        }
        self.put_right(response)
    }

    #[cold]
    fn put_right(&mut self, response: Option<&dyn Response>) -> Option<Settling> {
        if let Some(response) = response {
            self.admission.answered(response);
        }
        let wishes = std::mem::take(&mut self.wishes);
        let is_open = response.is_some() && self.admission.is_open();
        if !is_open && wishes == Wishes::default() {
            return None;
        }
        Some(self.admission.adjust(response, |answer| wishes.cost_of(answer)))
    }
}

impl Wishes {
    fn cost_of(self, answer: &Answer<'_>) -> Option<u32> {
        if answer.has_own_cost {
            return self.refund.then_some(0);
        }
        let before = if self.refund { 0 } else { answer.cost };
        Some(self.cost.unwrap_or(before).saturating_add(self.more))
    }
}

/// What the layer keeps for as long as a request is in flight. Dropping it carries out what was
/// wished for, and gives back permits, even if the limits are still held elsewhere.
#[derive(Debug)]
pub(crate) struct InFlight {
    limits: Limits,
    /// Whether nothing is left to do, and nobody is left who could wish for something.
    is_over: bool,
    /// Whether a layer within has refused it, and has told the client why.
    is_refused: bool,
    /// Renews permits; most requests have none.
    _keeping: Option<RenewalTimer>,
}

/// What is left to do once a response is there.
pub(crate) enum Left {
    /// Nothing.
    Nothing,
    /// To wait for the end of the body: a permit is to be given back, or somebody may still have a
    /// wish.
    Body,
    /// To wait for Redis, and to write the fields for the client then.
    Settling(Settling),
}

impl InFlight {
    /// A request that starts now, and can tell so.
    pub(crate) fn new<B>(admission: Box<Admission>, request: &mut http::Request<B>) -> InFlight {
        let renewal_plan = admission.renewal_plan();
        let state = State { admission, wishes: Wishes::default(), unheard: None };
        let limits = Limits(Arc::new(Mutex::new(state)));
        request.extensions_mut().insert(limits.clone());
        let keeping = renewal_plan.map(|it| limits.keep(it));
        InFlight { limits, is_over: false, is_refused: false, _keeping: keeping }
    }

    /// Carries out what response and handler say, and writes the fields for the client.
    pub(crate) fn answered<R>(&mut self, response: &mut http::Response<R>) -> Left {
        let is_refused = response.extensions().get::<IsRefusal>().is_some();
        self.is_refused = is_refused;
        let left = self.with(|state, is_alone| {
            let answered = Answered { status: response.status(), headers: response.headers() };
            let settling = if state.admission.listens() && grpc::ends_in_trailers(&answered) {
                state.unheard = Some(Box::new((answered.status, answered.headers.clone())));
                state.carry_out(None)
            } else {
                state.carry_out(Some(&answered))
            };
            if is_refused {
                state.admission.came_of(Outcome::Abandoned);
            }
            match settling {
                Some(settling) => Left::Settling(settling),
                None => state.told(response.headers_mut(), is_alone, is_refused),
            }
        });
        self.is_over = matches!(left, Left::Nothing);
        left
    }

    /// Writes the fields for the client once everything is settled.
    pub(crate) fn settled(&mut self, headers: &mut HeaderMap) -> Left {
        // It is not over: the holder of the limits until now may have wished for something since.
        let is_refused = self.is_refused;
        self.with(|state, is_alone| state.told(headers, is_alone, is_refused))
    }

    /// The service has failed to answer.
    pub(crate) fn failed(&mut self) {
        self.with(|state, _| state.admission.came_of(Outcome::Failed));
    }

    /// Trailers have come. Nobody waits for what is done about them, but it is sent to Redis.
    pub(crate) fn trailed(&mut self, trailers: &HeaderMap) {
        drop(self.with(|state, _| state.hear(Some(trailers))));
    }

    /// The body has ended: carries out what was wished for since.
    pub(crate) fn ended(&mut self) -> Option<Settling> {
        self.with(
            |state, _| {
                if state.unheard.is_some() { state.hear(None) } else { state.carry_out(None) }
            },
        )
    }

    /// Does something with the state, and says whether nobody else has it. That is the rule once
    /// there is a response, and then there is nothing to lock.
    fn with<T>(&mut self, does: impl FnOnce(&mut State, bool) -> T) -> T {
        match Arc::get_mut(&mut self.limits.0) {
            Some(state) => does(state.get_mut().unwrap_or_else(PoisonError::into_inner), true),
            None => does(&mut self.limits.state(), false),
        }
    }
}

impl State {
    fn told(&self, headers: &mut HeaderMap, is_alone: bool, is_refused: bool) -> Left {
        if !is_refused {
            fields::write(&self.admission, headers, Wins::Ours);
        }
        let is_over = self.admission.is_settled() || !self.admission.has_permits();
        let is_over = is_over && self.unheard.is_none();
        if is_alone && is_over { Left::Nothing } else { Left::Body }
    }

    /// Hears of a response at its end; what its trailers say goes before its headers.
    fn hear(&mut self, trailers: Option<&HeaderMap>) -> Option<Settling> {
        let (status, mut headers) = *self.unheard.take()?;
        headers.extend(trailers.cloned().unwrap_or_default());
        self.carry_out(Some(&Answered { status, headers: &headers }))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.with(|state, is_alone| {
            // Nobody is left to wait for Redis: dropped, the settling goes on in the background.
            drop(state.carry_out(None));
            // Where nobody else has it, it is dropped, which does the same.
            if !is_alone {
                drop(state.admission.release());
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use tidegate_gate::{Gate, Sample};

    use super::*;

    /// A wish that is made between the response and its settlement is heard, also if the layer has
    /// the limits alone by then.
    #[test]
    fn a_wish_while_a_response_is_settled_is_carried_out() {
        let policy = "rules: [{ name: a, limit: 10/h, counts_when: { status: 200 } }]";
        let gate = Gate::from_text(policy).unwrap();
        let mut request = http::Request::new(());
        let admission = Box::new(gate.decide(&Sample::new("GET /")));
        let mut in_flight = InFlight::new(admission, &mut request);
        let limits = request.extensions_mut().remove::<Limits>().unwrap();
        let mut response = http::Response::new(());
        let Left::Settling(settling) = in_flight.answered(&mut response) else {
            panic!("a rule listens to the response");
        };
        limits.charge_more(3);
        drop((limits, settling));
        let _ = in_flight.settled(response.headers_mut());
        drop(in_flight);
        assert_eq!(gate.decide(&Sample::new("GET /")).decision().remaining, 10 - 1 - 3 - 1);
    }

    /// A service that fails is heard of by a share that finds its capacity.
    #[test]
    fn a_service_that_fails_takes_capacity() {
        let capacity = |fails: bool| {
            let policy = "share: [{ name: s, capacity: 100 in flight, adaptive: 5%, by: method }]";
            let clock = Arc::new(tidegate_store::ManualClock::new());
            let gate = Gate::builder().text(policy).clock(clock.clone()).open().unwrap();
            for _ in 0..64 {
                let admission = Box::new(gate.decide(&Sample::new("GET /")));
                let mut in_flight = InFlight::new(admission, &mut http::Request::new(()));
                clock.advance(tidegate_core::Span::from_millis(10));
                if fails {
                    in_flight.failed();
                } else {
                    let _ = in_flight.answered(&mut http::Response::new(()));
                }
            }
            gate.stats().shares[0].limit
        };
        assert!(capacity(true) < capacity(false));
    }

    /// What a layer within has told its client stays, also where Redis is waited for first.
    #[test]
    fn what_a_refusal_within_has_told_stays_when_all_is_settled() {
        let policy = "rules: [{ name: a, limit: 10/h, counts_when: { status: 200 } }]";
        for is_refused in [false, true] {
            let gate = Gate::from_text(policy).unwrap();
            let admission = Box::new(gate.decide(&Sample::new("GET /")));
            let mut in_flight = InFlight::new(admission, &mut http::Request::new(()));
            let mut response = http::Response::builder().status(429).body(()).unwrap();
            response.headers_mut().insert("ratelimit", http::HeaderValue::from_static("within"));
            if is_refused {
                response.extensions_mut().insert(IsRefusal);
            }
            let Left::Settling(settling) = in_flight.answered(&mut response) else {
                panic!("a rule listens to the response");
            };
            drop(settling);
            let _ = in_flight.settled(response.headers_mut());
            assert_eq!(response.headers()["ratelimit"] == "within", is_refused);
        }
    }
}
