//! A turn in a share: asked for once the limits let a request pass, held until it is done.
//!
//! While it waits, the admission counts as held back: a caller that goes away is charged nothing.
//! One that gets no turn is charged nothing either, and is refused.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tidegate_config::{Capacity, Facts, Response, Sharing, Unit};
use tidegate_core::adapt::Outcome;
use tidegate_core::fair::Reason as Why;
use tidegate_core::{Decision, Kind, Span, Verdict};
use tidegate_fair::{Acquire, Ask, Begun, Permit, Refused};

use crate::admission::{Admission, Reason};
use crate::answer::Answer;
use crate::in_force::PolicyInForce;
use crate::renewal_timer::Held;
use crate::settle::Settling;

/// What came of a request in a share.
#[derive(Debug)]
pub(crate) struct Turn {
    /// The share's place in the policy.
    share: usize,
    /// What it is said to cost.
    cost: u32,
    /// Whether the response may change that.
    is_open: bool,
    /// Whether somebody wants to know what came of it.
    learns: bool,
    /// What came of it, as far as anybody has said.
    outcome: Outcome,
    state: State,
}

#[derive(Debug)]
enum State {
    Held(Permit),
    Refused(Why),
    /// It had a place, and gave it back.
    Over,
}

/// A turn that is to be asked for.
#[derive(Debug)]
pub(crate) struct Asking {
    acquire: Acquire,
    terms: Terms,
}

/// What a turn is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    share: usize,
    cost: u32,
    is_open: bool,
    learns: bool,
    /// When to try again if nobody knows.
    wait: Span,
}

/// How long somebody waits for a turn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Patience {
    /// As long as the share and the request say.
    Usual,
    /// There is a place now, or there is none.
    None,
}

/// A request that waits for its turn.
#[derive(Debug)]
pub(crate) struct Turning {
    held: Held,
    asking: Asking,
    /// What is given back where there was no turn: the answer tells what is left then.
    settling: Option<Box<Settling>>,
}

impl PolicyInForce {
    /// The turn that a request has to ask for later, if a share is for it.
    pub(crate) fn asking(
        &self,
        facts: &Facts<'_, '_>,
        route_cost: Option<usize>,
        patience: Patience,
    ) -> Option<Asking> {
        let sharing = self.rules.sharing(facts, route_cost)?;
        let (ask, terms) = self.ask(&sharing, facts)?;
        Some(Asking { acquire: ask.acquire(patience.of(&sharing, facts)), terms })
    }

    /// The turn that a request has to ask for, if a share is for it: asked for now.
    pub(crate) fn begin(
        &self,
        facts: &Facts<'_, '_>,
        route_cost: Option<usize>,
        patience: Patience,
    ) -> Option<(Begun, Terms)> {
        let sharing = self.rules.sharing(facts, route_cost)?;
        let (ask, terms) = self.ask(&sharing, facts)?;
        Some((ask.begin(|| patience.of(&sharing, facts)), terms))
    }

    /// Whose turn it is, and what for.
    fn ask(&self, sharing: &Sharing<'_>, facts: &Facts<'_, '_>) -> Option<(Ask<'_>, Terms)> {
        let queue = self.shares.queue(sharing.number)?;
        let Sharing { share, number, cost, is_open, .. } = *sharing;
        let mut ask: Option<Ask<'_>> = None;
        share.names(facts, |name| {
            ask = Some(match ask {
                None => queue.of(&name[..]).weight(sharing.weight.get()),
                Some(ask) => ask.then(&name[..]),
            });
        });
        let learns = matches!(share.capacity(), Capacity::Adaptive { .. });
        let terms = Terms { share: number, cost, is_open, learns, wait: share.wait() };
        let ask = ask.unwrap_or_else(|| queue.of(()));
        Some((ask.class(sharing.class).cost(cost), terms))
    }
}

impl Patience {
    fn of(self, sharing: &Sharing<'_>, facts: &Facts<'_, '_>) -> Span {
        if self == Patience::None { Span::ZERO } else { sharing.wait(facts) }
    }
}

impl Asking {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Permit, Refused>> {
        Pin::new(&mut self.acquire).poll(context)
    }
}

impl Admission {
    /// The decision at once, if the turn is there at once.
    pub(crate) fn begun(
        mut self: Box<Admission>,
        (begun, terms): (Begun, Terms),
    ) -> Result<Box<Admission>, Box<Turning>> {
        match begun {
            Begun::Now(outcome) => {
                // This is so in this process only, where all is given back at once.
                drop(self.had_turn(terms, outcome));
                Ok(self)
            }
            Begun::Later(acquire) => Err(Box::new(self.turning(Asking { acquire, terms }))),
        }
    }

    /// The decision when the turn has come.
    pub(crate) fn turning(mut self: Box<Admission>, asking: Asking) -> Turning {
        self.is_waiting = true;
        Turning { held: Held::new(self), asking, settling: None }
    }

    fn had_turn(&mut self, terms: Terms, outcome: Result<Permit, Refused>) -> Settling {
        let Terms { share, cost, is_open, learns, wait } = terms;
        self.is_waiting = false;
        let mut settling = Settling::default();
        let state = match outcome {
            Ok(permit) => State::Held(permit),
            Err(refused) => {
                settling = self.give_back(true);
                self.look_again();
                self.each.iter_mut().for_each(|it| it.is_charged = false);
                let retry_after = refused.retry_after.unwrap_or(wait).max(Span::from_micros(1));
                self.verdict = Verdict::Deny { retry_after };
                (self.reason, self.stopped_by) = (Reason::Crowded, None);
                State::Refused(refused.reason)
            }
        };
        let outcome = Outcome::Abandoned;
        self.turn = Some(Turn { share, cost, is_open, learns, outcome, state });
        settling
    }

    /// Notes what came of it in the service: a share that finds its capacity learns from that. Of
    /// one that is dropped without a word, nothing is learned.
    pub fn came_of(&mut self, outcome: Outcome) {
        if let Some(turn) = &mut self.turn {
            turn.outcome = outcome;
        }
    }

    /// As [`Admission::came_of`], by the response.
    pub fn answered(&mut self, response: &dyn Response) {
        if self.turn.as_ref().is_some_and(|turn| turn.learns) {
            self.came_of(outcome_of(response));
        }
    }

    /// The share that the request has, or had, a place in, or that had none for it.
    pub fn share(&self) -> Option<&str> {
        let turn = self.turn.as_ref()?;
        self.in_force.rules.shares().get(turn.share).map(tidegate_config::SharedCapacity::name)
    }

    /// How long it waited for its turn; nothing if it has none.
    pub fn waited(&self) -> Option<Span> {
        match &self.turn.as_ref()?.state {
            State::Held(permit) => Some(permit.waited()),
            State::Refused(_) | State::Over => None,
        }
    }

    /// Why its share had no place for it.
    pub fn crowded(&self) -> Option<Why> {
        match &self.turn.as_ref()?.state {
            State::Refused(why) => Some(*why),
            State::Held(_) | State::Over => None,
        }
    }

    /// Whether it has a place in a share.
    pub fn has_place(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| matches!(turn.state, State::Held(_)))
    }

    /// Gives its place in a share to the next before this is dropped; the tenant is charged what it
    /// cost. What the limits charged stays.
    pub fn leave(&mut self) {
        if let Some(turn) = &mut self.turn
            && let State::Held(permit) = std::mem::replace(&mut turn.state, State::Over)
        {
            permit.finish(turn.cost, turn.outcome);
        }
    }

    /// Gives its place in a share back for a request that is not served: its tenant is charged
    /// nothing.
    pub(crate) fn leave_unserved(&mut self) {
        if let Some(turn) = &mut self.turn
            && let State::Held(permit) = std::mem::replace(&mut turn.state, State::Over)
        {
            permit.undo();
        }
    }

    /// Whether what comes of it in the service is of any interest, or what the response says.
    pub fn listens(&self) -> bool {
        let turn_listens = self.turn.as_ref().is_some_and(|turn| turn.learns || turn.is_open);
        turn_listens || self.each.iter().any(|judged| judged.is_open)
    }

    /// Whether the response has a say in what its turn costs.
    pub(crate) fn has_open_turn(&self) -> bool {
        self.has_place() && self.turn.as_ref().is_some_and(|turn| turn.is_open)
    }

    /// Notes what its turn did cost: its tenant is charged that when it is over.
    pub(crate) fn adjust_turn(
        &mut self,
        response: Option<&dyn Response>,
        wish: impl Fn(&Answer<'_>) -> Option<u32>,
    ) {
        if !self.has_place() {
            return;
        }
        let ruled = response
            .filter(|_| self.has_open_turn())
            .and_then(|response| self.in_force.rules.settled_share(self.route_cost, response));
        let cost = ruled.or_else(|| wish(&self.answer_of_share()?));
        if let (Some(turn), Some(cost)) = (&mut self.turn, cost) {
            turn.cost = cost;
        }
    }

    /// The share as if it were a limit, for a caller that wishes something of each.
    fn answer_of_share(&self) -> Option<Answer<'_>> {
        let (verdict, cost) = (Verdict::Allow, self.turn.as_ref()?.cost);
        Some(Answer {
            rule: self.share()?,
            part: "",
            variant: "",
            decision: Decision::of_no_limit(verdict),
            cost,
            has_own_cost: false,
            window: Span::ZERO,
            unit: &Unit::InFlight,
            kind: Kind::Concurrency,
            credits: None,
            is_shadow: false,
            is_shown: false,
        })
    }
}

/// What a response tells of the service. What is the client's fault was served as it should be.
fn outcome_of(response: &dyn Response) -> Outcome {
    // In gRPC: deadline exceeded; unknown, internal, unavailable, data loss.
    match response.header("grpc-status") {
        Some(b"4") => return Outcome::TimedOut,
        Some(b"2" | b"13" | b"14" | b"15") => return Outcome::Failed,
        _ => {}
    }
    match response.status() {
        504 => Outcome::TimedOut,
        500.. => Outcome::Failed,
        _ => Outcome::Served,
    }
}

impl Turning {
    /// For one that does not wait: the queue has refused it, or does so now.
    pub(crate) fn given_up(mut self) -> Box<Admission> {
        let mut admission = self.held.take().expect("it has not been polled to its end");
        let refused = Refused { reason: Why::Expired, retry_after: None };
        drop(admission.had_turn(self.asking.terms, Err(refused)));
        admission
    }
}

impl Future for Turning {
    type Output = Box<Admission>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Box<Admission>> {
        const DONE: &str = "not polled after it was done";
        let Turning { held, asking, settling } = &mut *self;
        if settling.is_none() {
            let outcome = ready!(asking.poll(context));
            let had = held.with(|admission| admission.had_turn(asking.terms, outcome));
            *settling = Some(Box::new(had.expect(DONE)));
        }
        if let Some(settling) = settling {
            ready!(Pin::new(&mut **settling).poll(context));
        }
        Poll::Ready(held.take().expect(DONE))
    }
}
