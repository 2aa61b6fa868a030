//! Counts call times in a fixed amount of memory, one part in 32 exact.

use std::time::Duration;

/// How often each length of time was seen. The longest is kept exactly.
#[derive(Debug)]
pub(crate) struct Histogram {
    bins: Vec<u64>,
    count: u64,
    longest: Duration,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { bins: vec![0; BINS], count: 0, longest: Duration::ZERO }
    }

    #[inline]
    pub(crate) fn add(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.bins[bin_of(nanos)] += 1;
        self.count += 1;
        self.longest = self.longest.max(time);
    }

    /// Adds all that another has counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (bin, count) in self.bins.iter_mut().zip(&other.bins) {
            *bin += count;
        }
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
    }

    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }

    /// The time that all but one call in `one_in` stayed within.
    pub(crate) fn all_but(&self, one_in: u64) -> Duration {
        let within = self.count - self.count / one_in;
        let mut seen = 0;
        for (bin, count) in self.bins.iter().enumerate() {
            seen += count;
            if seen >= within {
                return Duration::from_nanos(end_of(bin)).min(self.longest);
            }
        }
        self.longest
    }
}

/// Below 32, a bin a value; above, 32 bins for every doubling.
fn bin_of(nanos: u64) -> usize {
    let doublings = (u64::BITS - nanos.leading_zeros()).saturating_sub(STEP_BITS + 1);
    let step = usize::try_from(nanos >> doublings).expect("at most 63");
    doublings as usize * STEPS + step
}

/// The greatest value of that bin.
fn end_of(bin: usize) -> u64 {
    if bin < 2 * STEPS {
        return bin as u64;
    }
    let doublings = bin / STEPS - 1;
    let step = (bin % STEPS + STEPS) as u128;
    u64::try_from(((step + 1) << doublings) - 1).unwrap_or(u64::MAX)
}

const STEP_BITS: u32 = 5;
const STEPS: usize = 1 << STEP_BITS;
const BINS: usize = STEPS * (64 - STEP_BITS as usize + 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_within_a_part_in_32_of_the_end_of_its_bin() {
        for shift in 0..64 {
            for nanos in [1_u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let end = end_of(bin_of(nanos));
                assert!(end >= nanos, "{nanos} is above its bin's end {end}");
                assert!(end - nanos <= nanos / 32, "{nanos} is far from its bin's end {end}");
            }
        }
    }

    #[test]
    fn one_slow_call_in_ten_is_left_out_by_all_but_ten() {
        let mut histogram = Histogram::new();
        for _ in 0..9 {
            histogram.add(Duration::from_nanos(20));
        }
        histogram.add(Duration::from_millis(3));
        assert_eq!(histogram.all_but(10), Duration::from_nanos(20));
        assert_eq!(histogram.longest(), Duration::from_millis(3));
    }

    #[test]
    fn a_merged_histogram_has_seen_what_both_have() {
        let (mut one, mut other) = (Histogram::new(), Histogram::new());
        one.add(Duration::from_nanos(20));
        other.add(Duration::from_nanos(30));
        other.add(Duration::from_nanos(30));
        one.merge(&other);
        assert_eq!(one.all_but(3), Duration::from_nanos(30));
        assert_eq!(one.longest(), Duration::from_nanos(30));
    }
}
