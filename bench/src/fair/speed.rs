//! How long a turn takes, and how long a cancel.

use std::time::Duration;

use tidegate::Tick;
use tidegate::fair::order::{Handle, Queue, Ticket};

use super::{Draw, queue, request, start};
use crate::setting::Effort;
use crate::statistics::nanos_each;
use crate::timer;

pub(super) struct Scene {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Nanoseconds that it may take.
    pub(super) most: Option<f64>,
    flows: u32,
    backlogged: u32,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// Whoever was served asks again.
    Stay,
    /// Somebody else asks next, of all there are.
    ComeAndGo,
    Cancel,
}

pub(super) const SCENES: [Scene; 6] = [
    Scene {
        name: "turn-10000",
        about: "a turn, 10,000 flows with requests",
        most: Some(250.0),
        flows: 10_000,
        backlogged: 10_000,
        kind: Kind::Stay,
    },
    Scene {
        name: "turn-10000-of-100000",
        about: "a turn, 10,000 of 100,000 flows that come and go",
        most: Some(250.0),
        flows: 100_000,
        backlogged: 10_000,
        kind: Kind::ComeAndGo,
    },
    Scene {
        name: "turn-100000",
        about: "a turn, 100,000 flows with requests",
        most: Some(500.0),
        flows: 100_000,
        backlogged: 100_000,
        kind: Kind::Stay,
    },
    Scene {
        name: "turn-100000-of-1000000",
        about: "a turn, 100,000 of 1,000,000 flows that come and go",
        most: Some(500.0),
        flows: 1_000_000,
        backlogged: 100_000,
        kind: Kind::ComeAndGo,
    },
    Scene {
        name: "cancel-10000",
        about: "a cancel, 10,000 flows with requests",
        most: Some(100.0),
        flows: 10_000,
        backlogged: 10_000,
        kind: Kind::Cancel,
    },
    Scene {
        name: "cancel-100000",
        about: "a cancel, 100,000 flows with requests",
        most: None,
        flows: 100_000,
        backlogged: 100_000,
        kind: Kind::Cancel,
    },
];

const ROUNDS: usize = 9;
const TURNS: u64 = 2_000_000;
const COST_MAX: u32 = 10;
const WEIGHT_MAX: u32 = 8;
/// How many requests start before all of them are completed.
const IN_SERVICE: u64 = 1_000;
/// How long everybody is willing to wait.
const PATIENCE: u64 = 60_000_000;

/// Nanoseconds, one value a round.
#[derive(Default)]
pub(super) struct Measured {
    /// What the scene is about.
    pub(super) each: Vec<f64>,
    /// The same with the completion of what had started. A cancel has none.
    pub(super) whole: Vec<f64>,
}

impl Scene {
    pub(super) fn measure(&self, effort: Effort) -> Measured {
        if let Kind::Cancel = self.kind {
            let each = (0..ROUNDS).map(|_| self.cancels()).collect();
            return Measured { each, whole: Vec::new() };
        }
        let mut queue = queue(2 * self.backlogged);
        let mut draw = Draw(7);
        let mut now = 0;
        for number in 0..self.backlogged {
            let spread = self.flows / self.backlogged;
            enqueue(&mut queue, number * spread, &mut draw, now);
            if let Kind::Stay = self.kind {
                enqueue(&mut queue, number * spread, &mut draw, now);
            }
        }
        let mut round = |turns| self.turns(&mut queue, &mut draw, &mut now, turns);
        round(effort.of(TURNS) / 4);
        let rounds = (0..ROUNDS).map(|_| round(effort.of(TURNS)));
        let (each, whole) = rounds.unzip();
        Measured { each, whole }
    }

    /// What a request taken in and one dispatched take together, without and with a completion.
    fn turns(
        &self,
        queue: &mut Queue<u32>,
        draw: &mut Draw,
        now: &mut u64,
        turns: u64,
    ) -> (f64, f64) {
        let batches = turns.div_ceil(IN_SERVICE);
        let mut tickets: Vec<(Ticket, u32)> = Vec::new();
        let (mut each, mut whole) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..batches {
            let before = timer::own_cpu();
            for _ in 0..IN_SERVICE {
                *now += 1;
                let started = start(queue, Tick::from_micros(*now)).expect("somebody waits");
                tickets.push((started.ticket, started.cost));
                let next = match self.kind {
                    Kind::ComeAndGo => draw.below(self.flows),
                    _ => started.item,
                };
                enqueue(queue, next, draw, *now);
            }
            each += timer::own_cpu().saturating_sub(before);
            for (ticket, cost) in tickets.drain(..) {
                queue.complete(ticket, cost);
            }
            whole += timer::own_cpu().saturating_sub(before);
        }
        let turns = batches * IN_SERVICE;
        (nanos_each(each, turns), nanos_each(whole, turns))
    }

    fn cancels(&self) -> f64 {
        let mut queue = queue(2 * self.backlogged);
        let mut draw = Draw(11);
        let mut handles: Vec<Handle> = (0..self.backlogged)
            .map(|flow| enqueue(&mut queue, flow, &mut draw, u64::from(flow)))
            .collect();
        for last in (1..self.backlogged).rev() {
            handles.swap(last as usize, draw.below(last + 1) as usize);
        }
        let before = timer::own_cpu();
        for handle in handles {
            assert!(queue.cancel(handle).is_some(), "it waits");
        }
        nanos_each(timer::own_cpu().saturating_sub(before), self.backlogged.into())
    }
}

fn enqueue(queue: &mut Queue<u32>, flow: u32, draw: &mut Draw, now: u64) -> Handle {
    let deadline = Tick::from_micros(now + PATIENCE);
    // A name as it would be: a hash.
    let name = u64::from(flow).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let weight = 1 + flow % WEIGHT_MAX;
    let asked = request(name, weight, 1 + draw.below(COST_MAX), deadline);
    let enqueued = queue.enqueue(Tick::from_micros(now), asked, flow);
    enqueued.expect("there is room").handle
}
