//! What is scarce: places, cells by a policy, or as many requests as a service is found to bear.

use tidegate_core::adapt::{self, Controller, Outcome};
use tidegate_core::fair::Room;
use tidegate_core::{Kind, Policy, Quota, Receipt, Span, State, Tick, Verdict};

use crate::build::NotARate;

#[derive(Debug)]
pub(crate) enum Resource {
    InFlight { limit: u32, out: u64, held: Held },
    Rate { policy: Policy, state: State },
    Adaptive { controller: Box<Controller>, held: Held },
}

/// What a request has taken of it.
#[derive(Debug)]
pub(crate) enum Taken {
    Places(u32),
    /// For what a policy was charged.
    Cells(Option<Receipt>),
    /// One place, whatever it costs: a service has so many requests, and no cells.
    Request {
        cost: u32,
        started: Option<adapt::Started>,
    },
}

/// How long places are held, on average, and what those cost that held them.
#[derive(Debug, Default)]
pub(crate) struct Held {
    span: Mean,
    cost: Mean,
}

/// An average that forgets: one sample counts for a sixteenth.
#[derive(Debug, Default)]
struct Mean {
    /// In 256ths.
    mean: u64,
    samples: u32,
}

/// From how many on a mean says something.
const SAMPLES_MIN: u32 = 16;

impl Resource {
    pub(crate) fn in_flight(limit: u32) -> Resource {
        Resource::InFlight { limit, out: 0, held: Held::default() }
    }

    pub(crate) fn rate(policy: Policy) -> Result<Resource, NotARate> {
        match policy.kind() {
            kind @ (Kind::Concurrency | Kind::LeakyQueue) => Err(NotARate { kind }),
            _ => Ok(Resource::Rate { policy, state: policy.fresh() }),
        }
    }

    pub(crate) fn adaptive(controller: Controller) -> Resource {
        Resource::Adaptive { controller: Box::new(controller), held: Held::default() }
    }

    /// What may start now.
    pub(crate) fn room(&mut self, now: Tick) -> Room {
        match self {
            Resource::InFlight { limit, out, .. } => {
                let free = u64::from(*limit).saturating_sub(*out);
                Room { free: u32::try_from(free).unwrap_or(u32::MAX), whole: *limit }
            }
            Resource::Rate { policy, state } => {
                let free = policy.peek(state, now, 0).remaining;
                Room { free, whole: policy.limit() }
            }
            Resource::Adaptive { controller, .. } => {
                controller.advance(now);
                let has_room = controller.in_flight() < controller.limit();
                Room { free: if has_room { u32::MAX } else { 0 }, whole: u32::MAX }
            }
        }
    }

    /// Takes `cost` cells of the room that there is at this tick, for one that has `waited`.
    pub(crate) fn take(&mut self, cost: u32, waited: Span, now: Tick) -> Taken {
        match self {
            Resource::InFlight { out, .. } => {
                *out += u64::from(cost);
                Taken::Places(cost)
            }
            Resource::Rate { policy, state } => {
                let (decision, receipt) = policy.decide_with_receipt(state, now, cost);
                debug_assert!(decision.verdict.passes(), "there was room at this tick");
                Taken::Cells(receipt)
            }
            Resource::Adaptive { controller, .. } => {
                let started = controller.start(now, waited);
                debug_assert!(started.is_some(), "there was room at this tick");
                Taken::Request { cost, started }
            }
        }
    }

    /// There is no end of places from now on.
    pub(crate) fn let_go(&mut self) {
        match self {
            // Those that are out come back.
            Resource::InFlight { limit, .. } => *limit = u32::MAX,
            other => *other = Resource::in_flight(u32::MAX),
        }
    }

    /// Undoes what was taken: the request that was given it never knew.
    pub(crate) fn undo(&mut self, taken: Taken, now: Tick) {
        match (self, taken) {
            (Resource::InFlight { out, .. }, Taken::Places(cells)) => {
                *out = out.saturating_sub(cells.into());
            }
            (Resource::Rate { policy, state }, Taken::Cells(Some(receipt))) => {
                policy.refund(state, now, receipt);
            }
            (Resource::Adaptive { controller, .. }, Taken::Request { started, .. }) => {
                finish(controller, started, Outcome::Abandoned, now);
            }
            // It was taken of what is not scarce any more.
            _ => {}
        }
    }

    /// Gives back what was held for `span`. A rate gets nothing back: time gives.
    pub(crate) fn give_back(&mut self, taken: Taken, span: Span, outcome: Outcome, now: Tick) {
        match (self, taken) {
            (Resource::InFlight { out, held, .. }, Taken::Places(cells)) => {
                *out = out.saturating_sub(cells.into());
                held.span.add(span.get());
            }
            (Resource::Adaptive { controller, held }, Taken::Request { cost, started }) => {
                finish(controller, started, outcome, now);
                held.span.add(span.get());
                held.cost.add(cost.into());
            }
            _ => {}
        }
    }

    /// When there is more room than `room`, if time alone makes it.
    pub(crate) fn more_at(&mut self, room: Room, now: Tick) -> Option<Tick> {
        let Resource::Rate { policy, state } = self else { return None };
        match policy.peek(state, now, room.free.saturating_add(1)).verdict {
            Verdict::Deny { retry_after } => Some(now.after(retry_after)),
            _ => None,
        }
    }

    /// The least time until there are `cost` cells, regardless of other requests for them.
    pub(crate) fn earliest(&mut self, cost: u32, now: Tick) -> Span {
        let Resource::Rate { policy, state } = self else { return Span::ZERO };
        match policy.peek(state, now, cost).verdict {
            Verdict::Deny { retry_after } => retry_after,
            _ => Span::ZERO,
        }
    }

    /// How fast requests are served.
    pub(crate) fn speed(&self) -> Option<Quota> {
        match self {
            Resource::InFlight { limit, held, .. } => {
                let mean = held.span.get()?.max(1);
                Some(Quota::new(*limit, Span::from_micros(mean)))
            }
            Resource::Adaptive { controller, held } => {
                let mean = held.span.get()?.max(1);
                let cells = u64::from(controller.limit()).saturating_mul(held.cost.get()?.max(1));
                let cells = u32::try_from(cells).unwrap_or(u32::MAX);
                Some(Quota::new(cells, Span::from_micros(mean)))
            }
            Resource::Rate { policy, .. } => {
                let grains = policy.grains()?;
                let cells = u32::try_from(grains.tick()).ok()?;
                Some(Quota::new(cells, Span::from_micros(grains.cell())))
            }
        }
    }

    /// Whether so much could never start. Places may become more, so that one who wants more than
    /// there are takes all of them; a policy never lets more pass than its limit.
    pub(crate) fn never_has(&self, cost: u32) -> bool {
        matches!(self, Resource::Rate { policy, .. } if policy.limit() < cost)
    }

    /// What can start at all.
    pub(crate) fn whole(&self) -> u32 {
        match self {
            Resource::InFlight { limit, .. } => *limit,
            Resource::Rate { policy, .. } => policy.limit(),
            Resource::Adaptive { controller, .. } => controller.limit(),
        }
    }

    pub(crate) fn out(&self) -> u64 {
        match self {
            Resource::InFlight { out, .. } => *out,
            Resource::Rate { .. } => 0,
            Resource::Adaptive { controller, .. } => controller.in_flight().into(),
        }
    }

    /// What finds out how much there is.
    pub(crate) fn controller(&mut self) -> Option<&mut Controller> {
        if let Resource::Adaptive { controller, .. } = self { Some(controller) } else { None }
    }
}

fn finish(
    controller: &mut Controller,
    started: Option<adapt::Started>,
    outcome: Outcome,
    now: Tick,
) {
    if let Some(started) = started {
        controller.finish(now, started, outcome);
    }
}

impl Mean {
    fn add(&mut self, sample: u64) {
        let sample = sample.saturating_mul(256);
        self.samples = self.samples.saturating_add(1);
        self.mean = match self.samples {
            1 => sample,
            _ => self.mean - self.mean / 16 + sample / 16,
        };
    }

    fn get(&self) -> Option<u64> {
        (SAMPLES_MIN <= self.samples).then_some(self.mean / 256)
    }
}
