//! How long to wait before the next try to connect.
//!
//! Full jitter: anything from nothing to a bound that doubles, so that a fleet whose server comes
//! back does not come back all at once.

use std::hash::BuildHasher;
use std::time::Duration;

use foldhash::fast::RandomState;

#[derive(Debug, Default)]
pub(super) struct Backoff {
    tries: u32,
}

impl Backoff {
    pub(super) fn next(&mut self) -> Duration {
        let bound = bound(self.tries);
        self.tries = self.tries.saturating_add(1);
        up_to(bound)
    }

    pub(super) fn reset(&mut self) {
        self.tries = 0;
    }
}

/// A random time of at most `bound`.
pub(super) fn up_to(bound: Duration) -> Duration {
    // Every state has a seed of its own, which is all the chance that is needed here.
    let chance = RandomState::default().hash_one(0_u8);
    let micros = u64::try_from(bound.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(chance % micros.saturating_add(1).max(1))
}

const FIRST: Duration = Duration::from_millis(10);
const LAST: Duration = Duration::from_secs(2);

fn bound(tries: u32) -> Duration {
    FIRST.saturating_mul(1 << tries.min(16)).min(LAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_double_up_to_two_seconds() {
        let bounds: Vec<_> = (0..10).map(|tries| bound(tries).as_millis()).collect();
        assert_eq!(bounds, [10, 20, 40, 80, 160, 320, 640, 1280, 2000, 2000]);
        assert_eq!(bound(u32::MAX), LAST);
    }

    #[test]
    fn waits_are_spread_over_the_whole_bound() {
        let waits: Vec<_> = (0..1000).map(|_| up_to(LAST)).collect();
        assert!(waits.iter().all(|wait| *wait <= LAST));
        for quarter in 0..4 {
            let range = LAST * quarter / 4..LAST * (quarter + 1) / 4;
            let share = waits.iter().filter(|wait| range.contains(wait)).count();
            assert!((150..350).contains(&share), "{share} of 1000 in {range:?}");
        }
    }

    #[test]
    fn a_reset_starts_from_the_first_bound() {
        let mut backoff = Backoff { tries: 30 };
        assert!(backoff.next() <= LAST);
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
