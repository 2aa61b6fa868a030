//! Medians and spreads of a handful of rounds.

use std::time::Duration;

/// The middle value; of an even number of values, the lower of the two in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "a median needs a value");
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[(sorted.len() - 1) / 2]
}

/// A median, with the least and the greatest value beside it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
}

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Self {
        Self {
            median: median(values),
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            greatest: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    /// Divides round by round, so that a slow moment of the machine falls on both.
    pub(crate) fn of_ratios(values: &[f64], base: &[f64]) -> Self {
        assert_eq!(values.len(), base.len(), "one value a round on both sides");
        let ratios: Vec<f64> = values.iter().zip(base).map(|(value, base)| value / base).collect();
        Self::of(&ratios)
    }
}

/// Nanoseconds of each of `count` things that took `whole` together.
pub(crate) fn nanos_each(whole: Duration, count: u64) -> f64 {
    whole.as_secs_f64() * 1e9 / float(count)
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[expect(clippy::cast_precision_loss, reason = "counts here are far below 2^53")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_of_ratios_pairs_the_rounds() {
        let spread = Spread::of_ratios(&[10.0, 40.0, 30.0], &[10.0, 20.0, 10.0]);
        assert_eq!(spread, Spread { median: 2.0, least: 1.0, greatest: 3.0 });
    }

    #[test]
    fn nanoseconds_are_shared_out() {
        assert!((nanos_each(Duration::from_micros(1), 10) - 100.0).abs() < 1e-9);
    }
}
