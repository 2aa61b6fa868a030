//! When to try for a connection again.
//!
//! Each wait lies between half of a bound and all of it, at random, so that a fleet whose server
//! comes back does not come back all at once. The bound doubles up to a fraction of a second: a
//! server that is healthy again is found within that time, and a dead one is dialled a few times a
//! second and no more.

use std::hash::BuildHasher;
use std::time::Duration;

use foldhash::fast::RandomState;
use tidegate_core::{Span, Tick};

const FIRST: Duration = Duration::from_millis(10);
const LAST: Duration = Duration::from_millis(400);

/// A connection that lasted this long was no accident, and the next may be tried for at once.
const STEADY: Span = Span::from_secs(5);

/// Counts the tries of one lane in a row.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    tries: u32,
    /// When the last connection was made, until its loss has been seen.
    since: Option<Tick>,
}

impl Backoff {
    /// A try has succeeded.
    pub(super) fn connected(&mut self, now: Tick) {
        self.since = Some(now);
    }

    /// How long to wait before the next try.
    ///
    /// A connection that lasted is forgotten here: its loss makes one try quick, and no more.
    pub(super) fn next(&mut self, now: Tick) -> Duration {
        if self.since.take().is_some_and(|since| STEADY <= now.since(since)) {
            self.tries = 0;
        }
        let half = bound(self.tries) / 2;
        self.tries = self.tries.saturating_add(1);
        half + up_to(half)
    }
}

/// A random time of at most `bound`.
pub(super) fn up_to(bound: Duration) -> Duration {
    // Every state has a seed of its own, which is all the chance that is needed here.
    let chance = RandomState::default().hash_one(0_u8);
    let micros = u64::try_from(bound.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(chance % micros.saturating_add(1).max(1))
}

fn bound(tries: u32) -> Duration {
    FIRST.saturating_mul(1 << tries.min(16)).min(LAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Tick = Tick::from_micros(1_000_000_000);

    fn after(seconds: u32) -> Tick {
        START.after(Span::from_secs(seconds))
    }

    /// One try each second, none of which succeeds.
    fn waits(backoff: &mut Backoff, from: u32, tries: u32) -> Vec<Duration> {
        (from..from + tries).map(|second| backoff.next(after(second))).collect()
    }

    #[test]
    fn bounds_double_up_to_the_last() {
        let bounds: Vec<_> = (0..8).map(|tries| bound(tries).as_millis()).collect();
        assert_eq!(bounds, [10, 20, 40, 80, 160, 320, 400, 400]);
        assert_eq!(bound(u32::MAX), LAST);
    }

    #[test]
    fn waits_are_spread_over_the_upper_half_of_the_bound() {
        let mut backoff = Backoff { tries: 30, since: None };
        let waits = waits(&mut backoff, 0, 1000);
        assert!(waits.iter().all(|wait| (LAST / 2..=LAST).contains(wait)));
        for eighth in 4..8 {
            let range = LAST * eighth / 8..LAST * (eighth + 1) / 8;
            let share = waits.iter().filter(|wait| range.contains(wait)).count();
            assert!((150..350).contains(&share), "{share} of 1000 in {range:?}");
        }
    }

    #[test]
    fn the_loss_of_a_connection_that_lasted_makes_one_quick_try() {
        let mut backoff = Backoff { tries: 30, since: None };
        backoff.connected(START);
        let waits = waits(&mut backoff, 5, 10);
        for (wait, tries) in waits.iter().zip(0..) {
            assert!((bound(tries) / 2..=bound(tries)).contains(wait), "{tries}: {wait:?}");
        }
    }

    #[test]
    fn connections_that_do_not_last_are_not_made_quickly() {
        let mut backoff = Backoff { tries: 30, since: None };
        for second in 0..100 {
            backoff.connected(after(second));
            assert!(LAST / 2 <= backoff.next(after(second + 1)));
        }
    }
}
