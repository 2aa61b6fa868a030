//! Other controllers, written from their published laws with their published defaults, except
//! that all may move between 1 and 2,000 and start at 20, so that none wins by its bounds.

use std::fmt::Debug;

use tidegate_core::{Span, Tick};

use super::plant::fraction;
use super::scenario::seconds;
use crate::rng::Rng;

const MIN: f64 = 1.0;
const MAX: f64 = 2_000.0;
const START: f64 = 20.0;

/// A law that moves a limit by samples of latency.
pub trait Baseline: Debug {
    /// How many may be in flight.
    fn limit(&self) -> u32;

    /// One request has ended. `in_flight` is how many there were when it started, with it.
    fn sample(&mut self, now: Tick, latency: Span, in_flight: u32, dropped: bool);
}

#[expect(clippy::cast_possible_truncation, reason = "between 1 and 2,000")]
#[expect(clippy::cast_sign_loss, reason = "between 1 and 2,000")]
fn whole(limit: f64) -> u32 {
    limit.clamp(MIN, MAX) as u32
}

/// Netflix's Vegas: the queue is `limit × (1 − least/latency)`; above and below bounds that grow
/// with the logarithm of the limit it steps by that logarithm. The least is measured anew, at
/// whatever load there is, every 30 limits or so.
#[derive(Debug)]
pub(super) struct Vegas {
    limit: f64,
    least: f64,
    count: f64,
    renew: f64,
    rng: Rng,
}

impl Vegas {
    /// Where it starts.
    pub(super) fn new(seed: u64) -> Vegas {
        Vegas { limit: START, least: f64::INFINITY, count: 0.0, renew: 1.0, rng: Rng::new(seed) }
    }
}

impl Baseline for Vegas {
    fn limit(&self) -> u32 {
        whole(self.limit)
    }

    fn sample(&mut self, _now: Tick, latency: Span, in_flight: u32, dropped: bool) {
        let latency = seconds(latency).max(1e-6);
        self.count += 1.0;
        if self.count > 30.0 * self.limit * self.renew {
            self.count = 0.0;
            self.renew = 0.5 + 0.5 * fraction(&mut self.rng);
            self.least = latency;
            return;
        }
        if latency < self.least {
            self.least = latency;
            return;
        }
        let log = self.limit.log10().floor().max(1.0);
        let queue = (self.limit * (1.0 - self.least / latency)).ceil();
        self.limit = if dropped {
            self.limit - log
        } else if f64::from(in_flight) * 2.0 < self.limit {
            return;
        } else if queue <= log {
            self.limit + 6.0 * log
        } else if queue < 3.0 * log {
            self.limit + log
        } else if queue > 6.0 * log {
            self.limit - log
        } else {
            return;
        };
        self.limit = self.limit.clamp(MIN, MAX);
    }
}

/// Netflix's Gradient2: follows how a short average of latency compares with a long one.
#[derive(Debug)]
pub(super) struct Gradient2 {
    limit: f64,
    long: f64,
    seen: f64,
    window: Window,
}

impl Gradient2 {
    /// Where it starts.
    pub(super) fn new() -> Gradient2 {
        Gradient2 { limit: START, long: 0.0, seen: 0.0, window: Window::default() }
    }
}

/// Samples of one second, at least ten.
#[derive(Debug, Default)]
struct Window {
    ends: Tick,
    sum: f64,
    count: f64,
    in_flight_max: u32,
}

impl Window {
    /// The mean latency and the most in flight, once a window is over.
    fn add(&mut self, now: Tick, latency: f64, in_flight: u32) -> Option<(f64, u32)> {
        self.sum += latency;
        self.count += 1.0;
        self.in_flight_max = self.in_flight_max.max(in_flight);
        if now < self.ends || self.count < 10.0 {
            return None;
        }
        let found = (self.sum / self.count, self.in_flight_max);
        let ends = now.after(Span::from_secs(1));
        *self = Window { ends, ..Window::default() };
        Some(found)
    }
}

impl Baseline for Gradient2 {
    fn limit(&self) -> u32 {
        whole(self.limit)
    }

    fn sample(&mut self, now: Tick, latency: Span, in_flight: u32, _dropped: bool) {
        let Some((short, most)) = self.window.add(now, seconds(latency), in_flight) else { return };
        self.seen += 1.0;
        // An average over 600 samples, which starts as a plain mean of the first ten.
        self.long = if self.seen <= 10.0 {
            self.long + (short - self.long) / self.seen
        } else {
            self.long + (short - self.long) * 2.0 / 601.0
        };
        if self.long / short > 2.0 {
            self.long *= 0.95;
        }
        if f64::from(most) < self.limit / 2.0 {
            return;
        }
        let gradient = (1.5 * self.long / short).clamp(0.5, 1.0);
        let next = self.limit * gradient + 4.0;
        self.limit = (0.8 * self.limit + 0.2 * next).clamp(MIN, MAX);
    }
}

/// Netflix's AIMD: one more for each answer, a tenth less for each that took over five seconds.
#[derive(Debug)]
pub(super) struct Aimd {
    limit: f64,
}

impl Aimd {
    /// Where it starts.
    pub(super) fn new() -> Aimd {
        Aimd { limit: START }
    }
}

impl Baseline for Aimd {
    fn limit(&self) -> u32 {
        whole(self.limit)
    }

    fn sample(&mut self, _now: Tick, latency: Span, in_flight: u32, dropped: bool) {
        if dropped || seconds(latency) > 5.0 {
            self.limit *= 0.9;
        } else if f64::from(in_flight) * 2.0 >= self.limit {
            self.limit += 1.0;
        }
        self.limit = self.limit.clamp(MIN, MAX);
    }
}

/// Envoy's gradient: every 100 ms the limit is scaled by how the median compares with the least
/// median, which is measured once a minute with three in flight.
#[derive(Debug)]
pub(super) struct Envoy {
    limit: f64,
    least: Option<f64>,
    samples: Vec<f64>,
    ends: Tick,
    renew_at: Tick,
    at_min: u32,
    rng: Rng,
}

impl Envoy {
    const PINNED: f64 = 3.0;

    /// It starts by measuring.
    pub(super) fn new(seed: u64) -> Envoy {
        let tick = Tick::from_micros(0);
        Envoy {
            limit: START,
            least: None,
            samples: Vec::new(),
            ends: tick,
            renew_at: tick,
            at_min: 0,
            rng: Rng::new(seed),
        }
    }

    fn median(&mut self) -> f64 {
        self.samples.sort_by(f64::total_cmp);
        let median = self.samples[self.samples.len() / 2];
        self.samples.clear();
        median
    }

    fn measure(&mut self, now: Tick) {
        if self.samples.len() < 50 {
            return;
        }
        self.least = Some(self.median());
        let jitter = 9_000_000 * self.rng.below(100) / 100;
        self.renew_at = Tick::from_micros(now.get() + 60_000_000 + jitter);
        self.ends = now.after(Span::from_millis(100));
    }
}

impl Baseline for Envoy {
    fn limit(&self) -> u32 {
        whole(if self.least.is_some() { self.limit } else { Envoy::PINNED })
    }

    fn sample(&mut self, now: Tick, latency: Span, _in_flight: u32, _dropped: bool) {
        self.samples.push(seconds(latency));
        let Some(least) = self.least else { return self.measure(now) };
        if now < self.ends {
            return;
        }
        self.ends = now.after(Span::from_millis(100));
        if self.renew_at <= now || self.at_min >= 5 {
            self.least = None;
            self.at_min = 0;
            self.samples.clear();
            return;
        }
        let gradient = (1.25 * least / self.median().max(1e-6)).clamp(0.5, 2.0);
        let scaled = self.limit * gradient;
        self.limit = (scaled + scaled.sqrt()).clamp(Envoy::PINNED, MAX);
        self.at_min = if self.limit <= Envoy::PINNED { self.at_min + 1 } else { 0 };
    }
}
