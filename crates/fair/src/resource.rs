//! What is scarce: places, or cells by a policy.

use tidegate_core::fair::Room;
use tidegate_core::{Kind, Policy, Quota, Receipt, Span, State, Tick, Verdict};

use crate::build::NotARate;

#[derive(Debug)]
pub(crate) enum Resource {
    InFlight { limit: u32, out: u64, held: Held },
    Rate { policy: Policy, state: State },
}

/// How long places are held, on average.
#[derive(Debug, Default)]
pub(crate) struct Held {
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
        }
    }

    /// Takes `cost` cells of the room that there is at this tick.
    pub(crate) fn take(&mut self, cost: u32, now: Tick) -> Option<Receipt> {
        match self {
            Resource::InFlight { out, .. } => {
                *out += u64::from(cost);
                None
            }
            Resource::Rate { policy, state } => {
                let (decision, receipt) = policy.decide_with_receipt(state, now, cost);
                debug_assert!(decision.verdict.passes(), "there was room at this tick");
                receipt
            }
        }
    }

    /// Undoes a charge: whoever was given it never knew.
    pub(crate) fn refund(&mut self, receipt: Receipt, now: Tick) {
        if let Resource::Rate { policy, state } = self {
            policy.refund(state, now, receipt);
        }
    }

    /// Gives back what was held for `span`. A rate gets nothing back: time gives.
    pub(crate) fn give_back(&mut self, cost: u32, span: Span) {
        if let Resource::InFlight { out, held, .. } = self {
            *out = out.saturating_sub(cost.into());
            held.add(span);
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

    /// How fast requests are served.
    pub(crate) fn speed(&self) -> Option<Quota> {
        match self {
            Resource::InFlight { limit, held, .. } => {
                let mean = Span::from_micros(held.mean.max(1));
                (SAMPLES_MIN <= held.samples).then(|| Quota::new(*limit, mean))
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
        }
    }

    pub(crate) fn out(&self) -> u64 {
        if let Resource::InFlight { out, .. } = self { *out } else { 0 }
    }
}

impl Held {
    /// An average that forgets: one sample counts for a sixteenth.
    fn add(&mut self, span: Span) {
        let span = span.get();
        self.samples = self.samples.saturating_add(1);
        self.mean = match self.samples {
            1 => span,
            _ => self.mean - self.mean / 16 + span / 16,
        };
    }
}
