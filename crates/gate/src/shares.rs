//! The queues of a policy's shares. A queue lives for as long as a share has its name.

use std::mem::discriminant;
use std::sync::Arc;

use tidegate_config::{Capacity, Rules, SharedCapacity};
use tidegate_core::adapt::{Fraction as Portion, Settings};
use tidegate_core::fair::Reason as Why;
use tidegate_fair::FairQueue;
use tidegate_store::Clock;

use crate::gate::Gate;

/// The queues of a policy, in the order of its shares.
#[derive(Debug, Default)]
pub(crate) struct Shares(Vec<FairQueue>);

/// A share in numbers, since its queue was made.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ShareStats {
    /// Its name in the policy.
    pub name: String,
    /// Requests that wait for their turn.
    pub waiting: u32,
    /// Cells that are out: places that are taken. None for a rate.
    pub in_flight: u64,
    /// Cells that there are: places, or what a rate lets start at once.
    pub limit: u32,
    /// Tenants that are remembered, and groups of them: those who wait, have waited or still owe.
    /// While there is room for all, most are not looked at one by one.
    pub tenants: usize,
    /// Requests that had their turn.
    pub dispatched: u64,
    /// Requests that had none, by reason. Every reason is there, also with none.
    pub refused: Vec<(Why, u64)>,
}

impl Shares {
    /// The queues of `rules`. One that was there before under the same name goes on, as it is until
    /// [`Shares::take_over`].
    pub(crate) fn new(
        rules: &Rules,
        before: Option<(&Rules, &Shares)>,
        clock: &Arc<dyn Clock>,
    ) -> Shares {
        let kept = |share: &SharedCapacity| {
            let (rules, shares) = before?;
            let mut both = rules.shares().iter().zip(&shares.0);
            both.find(|(old, _)| goes_on(old, share)).map(|(_, queue)| queue.clone())
        };
        let queue = |share: &SharedCapacity| kept(share).unwrap_or_else(|| made(share, clock));
        Shares(rules.shares().iter().map(queue).collect())
    }

    /// Puts capacities and bounds of `rules` in force, and lets those pass who wait for what is not
    /// shared any more.
    pub(crate) fn take_over(&self, rules: &Rules, (old, before): (&Rules, &Shares)) {
        for (share, queue) in rules.shares().iter().zip(&self.0) {
            queue.set_bounds(share.settings());
            match share.capacity() {
                Capacity::InFlight(limit) => queue.set_limit(limit),
                Capacity::Rate(policy) => {
                    queue.set_policy(policy).expect("a queue of this kind goes on or is new");
                }
                Capacity::Adaptive { least, most } => {
                    queue.set_adaptive(bounds(least, most)).expect("bounds of a file are in order");
                }
            }
        }
        for (share, queue) in old.shares().iter().zip(&before.0) {
            if !rules.shares().iter().any(|next| goes_on(share, next)) {
                queue.let_go();
            }
        }
    }

    pub(crate) fn queue(&self, number: usize) -> Option<&FairQueue> {
        self.0.get(number)
    }

    /// The smallest factor of queues that find their capacity: what they leave of rates. Nothing
    /// without such a queue.
    pub(crate) fn factor(&self) -> Option<Portion> {
        let readings = self.0.iter().filter_map(FairQueue::reading);
        readings.map(|reading| reading.factor).min()
    }

    /// Tells every queue something about the service.
    pub(crate) fn hear(&self, tell: impl Fn(&FairQueue)) {
        self.0.iter().for_each(tell);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether the queue of one is that of the other.
fn goes_on(old: &SharedCapacity, next: &SharedCapacity) -> bool {
    old.name() == next.name()
        && old.settings().levels == next.settings().levels
        && discriminant(&old.capacity()) == discriminant(&next.capacity())
}

fn bounds(least: u32, most: u32) -> Settings {
    let usual = Settings::default();
    let limit_start = usual.limit_start.clamp(least, most);
    Settings { limit_min: least, limit_max: most, limit_start, ..usual }
}

fn made(share: &SharedCapacity, clock: &Arc<dyn Clock>) -> FairQueue {
    let queue = match share.capacity() {
        Capacity::InFlight(limit) => FairQueue::in_flight(limit),
        Capacity::Rate(policy) => {
            FairQueue::rate(policy).expect("the policy of a capacity is a bucket")
        }
        Capacity::Adaptive { least, most } => {
            FairQueue::adaptive(bounds(least, most)).expect("bounds of a file are in order")
        }
    };
    queue.settings(share.settings()).clock(Arc::clone(clock)).build()
}

impl Gate {
    /// Every share in numbers, in the order of the policy.
    pub(crate) fn share_stats(&self) -> Vec<ShareStats> {
        let in_force = self.0.in_force();
        let both = in_force.rules.shares().iter().zip(&in_force.shares.0);
        let stats = both.map(|(share, queue)| {
            let stats = queue.stats();
            ShareStats {
                name: share.name().to_owned(),
                waiting: stats.waiting,
                in_flight: stats.in_flight,
                limit: stats.limit,
                tenants: stats.flows,
                dispatched: stats.started,
                refused: stats.refused.to_vec(),
            }
        });
        stats.collect()
    }
}
