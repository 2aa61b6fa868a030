//! Counts of calls, of what went wrong, and of how long answers took.
//!
//! Counted once for a trip or for a failure, by plain additions: beside a round trip it is nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Span;
use tidegate_store::{ErrorCounts, RoundTrips};

use crate::failure::StoreError;

/// The counts of one store.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    calls: AtomicU64,
    trips: [AtomicU64; RoundTrips::BOUNDS.len() + 1],
    micros: AtomicU64,
    resting: AtomicU64,
    refused: AtomicU64,
    unanswered: AtomicU64,
    busy: AtomicU64,
    damaged: AtomicU64,
}

impl Tally {
    /// Counts a trip of so many calls.
    pub(crate) fn travels(&self, calls: usize, took: Span) {
        self.calls.fetch_add(calls as u64, Ordering::Relaxed);
        let place = RoundTrips::BOUNDS.partition_point(|bound| *bound < took);
        self.trips[place].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(took.get(), Ordering::Relaxed);
    }

    /// Counts what came of a request, if it went wrong.
    pub(crate) fn hears<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &result {
            let count = match error {
                StoreError::Resting { .. } => &self.resting,
                StoreError::NotCharged(_) | StoreError::NothingToDebit(_) => &self.refused,
                StoreError::Unknown(_) => &self.unanswered,
                StoreError::Busy => &self.busy,
                StoreError::Damaged(_) => &self.damaged,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    pub(crate) fn calls(&self) -> u64 {
        read(&self.calls)
    }

    pub(crate) fn round_trips(&self) -> RoundTrips {
        let total = Span::from_micros(read(&self.micros));
        let mut trips = RoundTrips::default();
        trips.counts = std::array::from_fn(|place| read(&self.trips[place]));
        trips.total = total;
        trips
    }

    pub(crate) fn errors(&self) -> ErrorCounts {
        let mut errors = ErrorCounts::default();
        errors.resting = read(&self.resting);
        errors.refused = read(&self.refused);
        errors.unanswered = read(&self.unanswered);
        errors.busy = read(&self.busy);
        errors.damaged = read(&self.damaged);
        errors
    }
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trip_is_counted_under_the_first_bound_that_it_keeps() {
        let tally = Tally::default();
        for micros in [0, 100, 101, 1_000_000, 1_000_001, 9_000_000] {
            tally.travels(2, Span::from_micros(micros));
        }
        let trips = tally.round_trips();
        assert_eq!(trips.counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!((trips.count(), tally.calls()), (6, 12));
        assert_eq!(trips.total, Span::from_micros(11_000_202));
    }

    #[test]
    fn bounds_grow() {
        assert!(RoundTrips::BOUNDS.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn every_kind_of_failure_is_counted_by_its_name() {
        let tally = Tally::default();
        let errors = [
            StoreError::Resting { retry_after: Span::ZERO },
            StoreError::NotCharged("".into()),
            StoreError::Unknown("".into()),
            StoreError::Busy,
            StoreError::Damaged("".into()),
        ];
        for (error, times) in errors.iter().zip(1..) {
            for _ in 0..times {
                assert_eq!(tally.hears::<()>(Err(error.clone())).unwrap_err(), *error);
            }
        }
        assert_eq!(tally.hears(Ok(7)), Ok(7));
        let expected = errors.iter().map(StoreError::reason).zip(1..);
        assert!(tally.errors().each().into_iter().eq(expected), "{:?}", tally.errors());
    }
}
