//! How long things took, in buckets.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Span;

/// The upper bounds of the buckets. The finest are as fine as a decision that has to be read off a
/// wire; a second is longer than anybody waits.
pub(crate) const BOUNDS: [Span; 14] = [
    Span::from_micros(25),
    Span::from_micros(50),
    Span::from_micros(100),
    Span::from_micros(250),
    Span::from_micros(500),
    Span::from_millis(1),
    Span::from_micros(2_500),
    Span::from_millis(5),
    Span::from_millis(10),
    Span::from_millis(25),
    Span::from_millis(50),
    Span::from_millis(100),
    Span::from_millis(250),
    Span::from_secs(1),
];

/// How long things took.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// One for each bound, and one for what is above.
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_us: AtomicU64,
}

/// A histogram as it was at one time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Reading<'a> {
    pub(crate) bounds: &'a [Span],
    /// In each bucket, from the first bound to what is above the last.
    pub(crate) buckets: &'a [u64],
    pub(crate) sum: Span,
}

impl Histogram {
    /// So many things took so long.
    pub(crate) fn add(&self, took: Span, count: u64) {
        let bucket = BOUNDS.partition_point(|bound| *bound < took);
        self.buckets[bucket].fetch_add(count, Ordering::Relaxed);
        self.sum_us.fetch_add(took.get().saturating_mul(count), Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// Shows it as it is now.
    pub(crate) fn read<T>(&self, show: impl FnOnce(Reading<'_>) -> T) -> T {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let buckets = self.buckets.each_ref().map(read);
        let sum = Span::from_micros(read(&self.sum_us));
        show(Reading { bounds: &BOUNDS, buckets: &buckets, sum })
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
        histogram.read(|read| {
            assert_eq!(read.buckets[..2], [4, 2]);
            assert_eq!(read.buckets[BOUNDS.len() - 1..], [2, 2]);
            assert_eq!(read.sum, Span::from_micros(2 * 2_000_052));
        });
        assert_eq!(histogram.count(), 10);
    }
}
