//! The time of day that the published scripts are sent, and a clock to set it by.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ::tidegate::{Clock as _, ManualClock, Span};

use crate::timer;

/// Where a caller takes the time from.
#[derive(Debug, Clone)]
pub(super) enum Time {
    OfDay,
    Set(Arc<ManualClock>),
}

impl Time {
    /// A clock that stands still, two hours from now and a little after the start of an hour.
    ///
    /// States are as long as the times in them, so it stands neither at the epoch nor at a whole
    /// second. It is ahead because the server forgets by its own clock, and must not while they
    /// are weighed.
    pub(super) fn standing() -> (Self, Arc<ManualClock>) {
        let hours = since_epoch().as_secs() / 3_600 + 2;
        let clock = Arc::new(ManualClock::new());
        clock.advance(Span::from(Duration::from_hours(hours) + PAST_THE_HOUR));
        (Self::Set(Arc::clone(&clock)), clock)
    }

    pub(super) fn seconds(&self) -> f64 {
        self.now().as_secs_f64()
    }

    pub(super) fn millis(&self) -> u64 {
        u64::try_from(self.now().as_millis()).expect("a year in which clocks still fit")
    }

    fn now(&self) -> Duration {
        match self {
            Self::OfDay => since_epoch(),
            Self::Set(clock) => Duration::from_micros(clock.now().get()),
        }
    }
}

fn since_epoch() -> Duration {
    let now = timer::time_of_day().duration_since(SystemTime::UNIX_EPOCH);
    now.expect("no clock stands before 1970")
}

const PAST_THE_HOUR: Duration = Duration::from_micros(123_457);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standing_clock_is_ahead_and_near_the_start_of_an_hour() {
        let (time, clock) = Time::standing();
        assert_eq!(time.millis() % 3_600_000, 123);
        assert!(Time::OfDay.millis() + 3_600_000 <= time.millis());
        clock.advance(Span::from_millis(1_500));
        assert_eq!(time.millis() % 3_600_000, 1_623);
    }
}
