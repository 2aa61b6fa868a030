//! A service: some workers, and a queue inside where requests wait for one. What is in flight
//! beyond the workers only makes everybody slower, which is all that a controller can see.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::VecDeque;

use tidegate_core::Tick;

use super::scenario::{Scenario, Spread, seconds};
use crate::rng::Rng;

/// A request inside the service, by its place.
type Work = usize;

/// The service of a scenario.
#[derive(Debug)]
pub(super) struct Service {
    scenario: Scenario,
    rng: Rng,
    queue: VecDeque<Work>,
    /// Ends of what is being worked on.
    running: BinaryHeap<Reverse<(Tick, Work)>>,
}

impl Service {
    /// An idle service.
    pub(super) fn new(scenario: Scenario) -> Service {
        let rng = Rng::new(scenario.seed ^ 0x5eed);
        Service { scenario, rng, queue: VecDeque::new(), running: BinaryHeap::new() }
    }

    /// Hands a request to it.
    pub(super) fn take(&mut self, work: Work, now: Tick) {
        self.queue.push_back(work);
        self.employ(now);
    }

    /// When the next request is done, if any is being worked on.
    pub(super) fn next_end(&self) -> Option<Tick> {
        self.running.peek().map(|Reverse((end, _))| *end)
    }

    /// A request that is done by `now`.
    pub(super) fn done(&mut self, now: Tick) -> Option<Work> {
        let Reverse((end, _)) = self.running.peek()?;
        if now < *end {
            return None;
        }
        let Reverse((_, work)) = self.running.pop()?;
        self.employ(now);
        Some(work)
    }

    /// Gives work to the workers that have none.
    pub(super) fn employ(&mut self, now: Tick) {
        let at = now_seconds(now);
        let workers = self.scenario.workers_at(at) as usize;
        while self.running.len() < workers {
            let Some(work) = self.queue.pop_front() else { return };
            let factor = self.scenario.slowness_at(at) * self.draw();
            let takes = seconds(self.scenario.service) * factor;
            let takes = micros(takes + self.scenario.pause_within(at, takes));
            self.running.push(Reverse((Tick::from_micros(now.get() + takes), work)));
        }
    }

    /// A service time as a multiple of the mean.
    fn draw(&mut self) -> f64 {
        match self.scenario.spread {
            Spread::None => 1.0,
            Spread::Even(share) => 1.0 + share * (2.0 * fraction(&mut self.rng) - 1.0),
            Spread::LogNormal(deviation) => {
                let radius = (-2.0 * (1.0 - fraction(&mut self.rng)).ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * fraction(&mut self.rng)).cos();
                (deviation * normal - deviation * deviation / 2.0).exp()
            }
            Spread::Exponential => -(1.0 - fraction(&mut self.rng)).ln(),
            Spread::Bimodal(times) => {
                let short = 1.0 / (0.9 + 0.1 * times);
                if self.rng.one_in(10) { short * times } else { short }
            }
        }
    }
}

/// A number from 0 up to 1.
#[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
pub(super) fn fraction(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Seconds as ticks, at least one.
#[expect(clippy::cast_possible_truncation, reason = "times of a run")]
#[expect(clippy::cast_sign_loss, reason = "times of a run")]
pub(super) fn micros(seconds: f64) -> u64 {
    ((seconds * 1e6).round() as u64).max(1)
}

#[expect(clippy::cast_precision_loss, reason = "ticks of a run are far below 2^52")]
pub(super) fn now_seconds(now: Tick) -> f64 {
    now.get() as f64 / 1e6
}
