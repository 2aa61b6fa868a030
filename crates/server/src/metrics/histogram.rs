//! How long things took, in buckets.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Span;

/// The upper bounds of the buckets, in microseconds. The finest are as fine as a decision that has
/// to be read off a wire; a second is longer than anybody waits.
pub(crate) const BOUNDS_US: [u64; 14] = [
    25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
];

/// How long things took.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// One for each bound, and one for what is above.
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// A histogram as it was at one time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Reading {
    /// In each bucket, from the first bound to what is above the last.
    pub(crate) buckets: [u64; BOUNDS_US.len() + 1],
    pub(crate) sum: Span,
}

impl Histogram {
    /// So many things took so long.
    pub(crate) fn add(&self, took: Span, count: u64) {
        let bucket = BOUNDS_US.partition_point(|bound| *bound < took.get());
        self.buckets[bucket].fetch_add(count, Ordering::Relaxed);
        self.sum_us.fetch_add(took.get().saturating_mul(count), Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn read(&self) -> Reading {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Reading {
            buckets: self.buckets.each_ref().map(read),
            sum: Span::from_micros(read(&self.sum_us)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let histogram = Histogram::default();
        for micros in [0, 25, 26, 1_000_000, 1_000_001] {
            histogram.add(Span::from_micros(micros), 2);
        }
        let read = histogram.read();
        assert_eq!(read.buckets[..2], [4, 2]);
        assert_eq!(read.buckets[BOUNDS_US.len() - 1..], [2, 2]);
        assert_eq!(read.sum, Span::from_micros(2 * 2_000_052));
        assert_eq!(histogram.count(), 10);
    }
}
