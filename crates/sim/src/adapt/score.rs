//! How well a guard did, beside one that always knew how many workers there were.

use super::run::{Run, Sample, run};
use super::scenario::{Scenario, seconds};

/// How well a guard did after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Requests that were served in time, as a share of the oracle's.
    pub goodput: f64,
    /// The mean latency inside the service, divided by the oracle's.
    pub inflation: f64,
    /// The highest limit, divided by the workers there were.
    pub overshoot: f64,
    /// How far the mean limit of the last tenth is from that of the first, as a share.
    pub drift: f64,
}

impl Score {
    /// Runs `scenario` with the guard called `name` and with the oracle.
    pub fn of(scenario: &Scenario, name: &str) -> Score {
        Score::beside(scenario, &run(scenario, name), &run(scenario, "oracle"))
    }

    /// Scores a run beside the oracle's of the same scenario.
    pub fn beside(scenario: &Scenario, run: &Run, oracle: &Run) -> Score {
        let (ours, theirs) = (run.after(scenario), oracle.after(scenario));
        let highest = run.times().zip(&run.samples).skip(run.samples.len() - ours.len());
        let overshoot = highest
            .map(|(at, sample)| sample.limit / f64::from(scenario.workers_at(at).max(1)))
            .fold(0.0, f64::max);
        let tenth = (ours.len() / 10).max(1);
        let (first, last) = (&ours[..tenth], &ours[ours.len() - tenth..]);
        Score {
            goodput: sum(ours, |sample| sample.good) / sum(theirs, |sample| sample.good),
            inflation: latency(ours) / latency(theirs),
            overshoot,
            drift: (limit(last) / limit(first) - 1.0).abs(),
        }
    }
}

impl Run {
    /// The time at the end of each slice, in seconds.
    pub fn times(&self) -> impl Iterator<Item = f64> {
        let slice = seconds(self.slice);
        (1..=self.samples.len()).map(move |nth| slice * real(nth))
    }

    /// What came after the warm-up.
    pub fn after(&self, scenario: &Scenario) -> &[Sample] {
        self.between(seconds(scenario.warm_up), f64::INFINITY)
    }

    /// What came between two times, in seconds.
    pub fn between(&self, from: f64, to: f64) -> &[Sample] {
        let slice = seconds(self.slice);
        let first = self.times().take_while(|at| *at <= from + slice / 2.0).count();
        let last = self.times().take_while(|at| *at <= to + slice / 2.0).count();
        &self.samples[first..last.max(first)]
    }

    /// How long after `at` it takes, in seconds, until the mean latency of the next `span` seconds
    /// is within a quarter of the oracle's, the limit is too, on average, and no more than a tenth
    /// less is served.
    pub fn settles(&self, oracle: &Run, at: f64, span: f64) -> f64 {
        let (ours, theirs) = (self.between(at, f64::INFINITY), oracle.between(at, f64::INFINITY));
        let length = count((span / seconds(self.slice)).round().max(1.0));
        let near = |value: f64, wanted: f64| (value / wanted - 1.0).abs() <= 0.25;
        let settled = |(ours, theirs): (&[Sample], &[Sample])| {
            let good = |samples| sum(samples, |sample| sample.good);
            latency(ours) <= 1.25 * latency(theirs)
                && near(limit(ours), limit(theirs))
                && good(ours) >= 0.9 * good(theirs)
        };
        let settles = ours.windows(length).zip(theirs.windows(length)).position(settled);
        seconds(self.slice) * real(settles.unwrap_or(ours.len()))
    }

    /// How long after `at` it takes, in seconds, until the limit, on average over a tenth of a
    /// second, is never off the oracle's by more than a quarter in the next five seconds.
    pub fn settles_for_good(&self, oracle: &Run, at: f64) -> f64 {
        let (ours, theirs) = (self.between(at, at + 5.0), oracle.between(at, at + 5.0));
        let length = count((0.1 / seconds(self.slice)).round().max(1.0));
        let is_off = |(ours, theirs): (&[Sample], &[Sample])| {
            (limit(ours) / limit(theirs) - 1.0).abs() > 0.25
        };
        let windows: Vec<_> = ours.windows(length).zip(theirs.windows(length)).collect();
        let last = windows.into_iter().rposition(is_off);
        seconds(self.slice) * last.map_or(0.0, |last| real(last + length))
    }

    /// How long after `at` it takes, in seconds, until the next three seconds serve the share
    /// `enough` of `rate` requests a second.
    pub fn recovers(&self, at: f64, rate: f64, enough: f64) -> f64 {
        let samples = self.between(at, f64::INFINITY);
        let length = count((3.0 / seconds(self.slice)).round());
        let wanted = rate * enough * 3.0;
        let served = |samples: &[Sample]| wanted <= sum(samples, |sample| sample.good);
        let recovers = samples.windows(length).position(served);
        seconds(self.slice) * real(recovers.unwrap_or(samples.len()))
    }
}

/// The mean latency of what ended, in seconds.
pub fn latency(samples: &[Sample]) -> f64 {
    sum(samples, |sample| sample.latency_sum) / sum(samples, |sample| sample.ended)
}

/// The mean limit.
pub fn limit(samples: &[Sample]) -> f64 {
    sum(samples, |sample| sample.limit) / real(samples.len())
}

fn sum(samples: &[Sample], pick: impl Fn(&Sample) -> f64) -> f64 {
    samples.iter().map(pick).sum()
}

#[expect(clippy::cast_precision_loss, reason = "a number of slices")]
fn real(number: usize) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, reason = "a number of slices")]
#[expect(clippy::cast_sign_loss, reason = "a number of slices")]
fn count(number: f64) -> usize {
    number as usize
}
