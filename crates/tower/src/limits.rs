//! What a handler knows of its request's limits, and what it can do about them.
//!
//! A handler only wishes. The layer carries wishes out when the response is there, before its
//! headers are written: so they tell the truth, and a handler never waits for a store.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use http::HeaderMap;
use tidegate_core::{Decision, Span};
use tidegate_gate::adapt::Outcome;
use tidegate_gate::{Admission, Answer, Response, Settling};

use crate::fields::{self, Wins};
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Carries out wishes; what the policy says of the response goes before them. `None` if there
    /// is nothing to do.
    fn carry_out(&mut self, response: Option<&dyn Response>) -> Option<Settling> {
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
/// wished for, and gives back permits, whoever else still has the limits.
#[derive(Debug)]
pub(crate) struct InFlight(Limits);

impl InFlight {
    pub(crate) fn new(admission: Box<Admission>) -> InFlight {
        let state = State { admission, wishes: Wishes::default() };
        InFlight(Limits(Arc::new(Mutex::new(state))))
    }

    pub(crate) fn limits(&self) -> Limits {
        self.0.clone()
    }

    pub(crate) fn settle(&self, response: &Answered<'_>) -> Option<Settling> {
        self.0.state().carry_out(Some(response))
    }

    /// The service has failed to answer.
    pub(crate) fn failed(&self) {
        self.0.state().admission.came_of(Outcome::Failed);
    }

    /// Carries out what was wished for since.
    pub(crate) fn carry_out(&self) -> Option<Settling> {
        self.0.state().carry_out(None)
    }

    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        fields::write(&self.0.state().admission, headers, Wins::Ours);
    }

    /// Whether there is something to do when the body ends: a permit to give back, or somebody who
    /// may still have a wish.
    pub(crate) fn minds_the_body(&self) -> bool {
        1 < Arc::strong_count(&self.0.0) || self.0.state().admission.has_permits()
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if let Some(mut settling) = state.carry_out(None) {
            // Nobody is left to wait for Redis: it hears of it if it can be told at once.
            let _ = Pin::new(&mut settling).poll(&mut Context::from_waker(Waker::noop()));
        }
        drop(state.admission.release());
    }
}
