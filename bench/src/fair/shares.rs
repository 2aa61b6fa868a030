//! Whether everybody has his share of every second.

use std::collections::VecDeque;

use tidegate::Tick;

use super::{Draw, jain, queue, request, start};
use crate::statistics::float;

/// How many seconds are looked at, and as many spans as there are dispatches in them.
pub(super) const SECONDS: u64 = 1_000;

const A_SECOND: usize = 1_000;
const WEIGHTS: [u32; 10] = [1, 2, 3, 4, 1, 2, 3, 4, 2, 3];

pub(super) struct Worst {
    /// The least of all spans.
    pub(super) jain: f64,
    /// The most requests that anybody is behind its share, of all spans.
    pub(super) lag: f64,
}

pub(super) fn worst_second(seconds: u64) -> Worst {
    let mut queue = queue(1_000);
    let mut draw = Draw(3);
    let add = |queue: &mut _, flow: usize| {
        let asked = request(flow as u64, WEIGHTS[flow], 1, Tick::MAX);
        tidegate::fair::order::Queue::enqueue(queue, Tick::from_micros(0), asked, flow)
            .expect("there is room");
    };
    // They do not come at the same time.
    for flow in 0..WEIGHTS.len() {
        add(&mut queue, flow);
        add(&mut queue, flow);
        for _ in 0..draw.below(5) {
            let started = start(&mut queue, Tick::from_micros(0)).expect("somebody waits");
            queue.complete(started.ticket, 1);
            add(&mut queue, started.item);
        }
    }
    let all: u32 = WEIGHTS.iter().sum();
    let mut served = [0_u32; WEIGHTS.len()];
    let mut second = VecDeque::with_capacity(A_SECOND);
    let mut worst = Worst { jain: 1.0, lag: 0.0 };
    for _ in 0..seconds * A_SECOND as u64 {
        let started = start(&mut queue, Tick::from_micros(0)).expect("somebody waits");
        let flow = started.item;
        queue.complete(started.ticket, 1);
        add(&mut queue, flow);
        second.push_back(flow);
        served[flow] += 1;
        if A_SECOND < second.len() {
            served[second.pop_front().expect("there is one")] -= 1;
        }
        if second.len() == A_SECOND {
            let by_weight = served
                .iter()
                .zip(WEIGHTS)
                .map(|(count, weight)| f64::from(*count) / f64::from(weight));
            worst.jain = worst.jain.min(jain(by_weight));
            for (count, weight) in served.iter().zip(WEIGHTS) {
                let share = float(A_SECOND as u64) * f64::from(weight) / f64::from(all);
                worst.lag = worst.lag.max(share - f64::from(*count));
            }
        }
    }
    worst
}
