//! A latency and how sure we are of it. What is small beside the doubt is not evidence: thresholds
//! and steps are as wide as it demands, and a new measurement counts as much as it is worth.

use super::ratio::{Ratio, scaled};

/// Relative variances are counted in these: a deviation of one percent is 100 of them.
pub(super) const VARIANCE_WHOLE: u64 = 1_000_000;
/// A deviation is the root of a variance, so it is counted in roots of them.
pub(super) const DEVIATION_WHOLE: u64 = 1_000;
/// No measurement is trusted further than to half a percent, nor less than to a half.
const VARIANCE_MIN: u64 = 25;
const VARIANCE_MAX: u64 = 250_000;

/// A latency in parts of a tick, with its relative variance.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Estimate {
    pub(super) latency: u64,
    pub(super) variance: u64,
}

impl Estimate {
    /// From measured latencies: their number, and the sums of them and of their squares, in ticks.
    pub(super) fn of_samples(latency: u64, count: u32, sum: u64, squares: u128) -> Estimate {
        let square_of_sum = (u128::from(sum) * u128::from(sum)).max(1);
        // The variance of the mean, divided by its square: (n × squares ÷ sum² − 1) ÷ n.
        let whole = u128::from(VARIANCE_WHOLE);
        let spread = squares.saturating_mul(whole) / square_of_sum;
        let variance = spread.saturating_sub(whole / u128::from(count.max(1)));
        let variance = u64::try_from(variance).unwrap_or(VARIANCE_MAX);
        Estimate { latency, variance: variance.clamp(VARIANCE_MIN, VARIANCE_MAX) }
    }

    /// Takes in a measurement of the same thing, by the weight that both deserve. `drift` is the
    /// relative variance by which the thing itself may have changed since the last one.
    pub(super) fn hear(&mut self, found: Estimate, drift: u64) {
        let own = self.variance + drift;
        let both = (own + found.variance).max(1);
        self.latency = if self.latency <= found.latency {
            self.latency + scaled(found.latency - self.latency, own, both)
        } else {
            self.latency - scaled(self.latency - found.latency, own, both)
        };
        self.variance = scaled(own, found.variance, both).clamp(VARIANCE_MIN, VARIANCE_MAX);
    }

    /// The deviation of the difference of two estimates.
    pub(super) fn deviation(self, other: Estimate) -> u64 {
        (self.variance + other.variance).isqrt()
    }

    /// Whether `other` is longer than this by at least `least`, and by so many deviations.
    pub(super) fn is_below(self, other: Estimate, times: u64, least: Ratio) -> bool {
        let noise = scaled(self.latency, self.deviation(other) * times, DEVIATION_WHOLE);
        self.latency + least.of(self.latency).max(noise) < other.latency
    }
}
