//! Whether the bound of start-time fair queueing is ever passed.

use tidegate::Tick;

use super::{Draw, queue, request, start};
use crate::statistics::float;

/// A hundred million.
pub(super) const DISPATCHES: u64 = 100_000_000;

const FLOWS: usize = 8;
const COST_MAX: u32 = 10;
/// What every weight divides.
const PARTS: i64 = 840;

/// What two flows were served by weight, for as long as both have requests: the least and the most
/// that it differed by.
#[derive(Clone, Copy, Default)]
struct Pair {
    least: i64,
    most: i64,
    is_watched: bool,
}

struct Watch {
    each: [i64; FLOWS],
    served: [i64; FLOWS],
    backlog: [u32; FLOWS],
    pairs: [[Pair; FLOWS]; FLOWS],
}

/// Random arrivals, dispatches and completions: how often two flows differed by more than a largest
/// request of each.
pub(super) fn violations(dispatches: u64) -> f64 {
    let mut draw = Draw(1);
    let (mut left, mut violations) = (dispatches, 0_u64);
    while 0 < left {
        let some = left.min(1_000_000);
        violations += walk(&mut draw, some);
        left -= some;
    }
    float(violations)
}

fn walk(draw: &mut Draw, dispatches: u64) -> u64 {
    let weights = [(); FLOWS].map(|()| 1 + draw.below(8));
    let mut queue = queue(1_000);
    let mut watch = Watch {
        each: weights.map(|weight| PARTS / i64::from(weight)),
        served: [0; FLOWS],
        backlog: [0; FLOWS],
        pairs: [[Pair::default(); FLOWS]; FLOWS],
    };
    let mut violations = 0;
    for step in 0..dispatches {
        let busy = 1 + u32::try_from(step / 10_000 % 3).expect("below three");
        loop {
            let flow = draw.below(8) as usize;
            let arrivals = draw.below(2 * busy);
            for _ in 0..arrivals.min(60_u32.saturating_sub(watch.backlog[flow])) {
                let cost = 1 + draw.below(COST_MAX);
                let asked = request(flow as u64, weights[flow], cost, Tick::MAX);
                queue.enqueue(Tick::from_micros(step), asked, flow).expect("there is room");
                watch.backlog[flow] += 1;
            }
            if !queue.is_empty() {
                break;
            }
        }
        let started = start(&mut queue, Tick::from_micros(step)).expect("somebody waits");
        violations += watch.serve(started.item, started.cost);
        queue.complete(started.ticket, started.cost);
    }
    violations
}

impl Watch {
    fn serve(&mut self, flow: usize, cost: u32) -> u64 {
        let before = self.served[flow];
        self.served[flow] += i64::from(cost) * self.each[flow];
        let mut violations = 0;
        for other in 0..FLOWS {
            if other == flow || self.backlog[other] == 0 {
                continue;
            }
            let (low, high) = (flow.min(other), flow.max(other));
            let sign = if flow < other { 1 } else { -1 };
            let was = sign * (before - self.served[other]);
            let is = sign * (self.served[flow] - self.served[other]);
            let pair = &mut self.pairs[low][high];
            if !pair.is_watched {
                *pair = Pair { least: was, most: was, is_watched: true };
            }
            pair.least = pair.least.min(is);
            pair.most = pair.most.max(is);
            let bound = i64::from(COST_MAX) * (self.each[flow] + self.each[other]);
            violations += u64::from(bound < pair.most - pair.least);
        }
        self.backlog[flow] -= 1;
        if self.backlog[flow] == 0 {
            for other in 0..FLOWS {
                self.pairs[flow.min(other)][flow.max(other)].is_watched = false;
            }
        }
        violations
    }
}
