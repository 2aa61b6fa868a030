//! The circuit breaker: who has failed a few times in a row is left alone for a while.
//!
//! A pure state machine; its owner says what time it is.

use tidegate_core::{Span, Tick};

/// Whether a server is asked.
#[derive(Debug)]
pub(crate) struct Breaker {
    stage: Stage,
    /// Failures in a row.
    failures: u32,
    /// When the last of them was known.
    failed_at: Tick,
    /// How long to stay away next time.
    pause: Span,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    /// Everybody may ask.
    Closed,
    /// Nobody may, until then.
    Open { until: Tick },
    /// One has asked, and everybody waits for what becomes of it; but not for ever.
    Probing { until: Tick },
}

/// What the breaker says to somebody who wants to ask.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Permission {
    Ask,
    /// Ask alone: everybody else is refused until the answer is there.
    Probe,
    Refused {
        retry_after: Span,
    },
}

impl Breaker {
    /// Calls that may fail in a row.
    const FAILURES_MAX: u32 = 3;
    const FIRST_PAUSE: Span = Span::from_millis(100);
    /// A server that is healthy again is found out within this time.
    const LONGEST_PAUSE: Span = Span::from_millis(400);
    /// As long as a probe is waited for, should nobody ever say what became of it.
    const PROBE_MAX: Span = Span::from_millis(5_000);

    pub(crate) fn new() -> Breaker {
        Breaker {
            stage: Stage::Closed,
            failures: 0,
            failed_at: Tick::default(),
            pause: Breaker::FIRST_PAUSE,
        }
    }

    /// Whether to ask at `now`.
    pub(crate) fn permit(&mut self, now: Tick) -> Permission {
        match self.stage {
            Stage::Closed => Permission::Ask,
            Stage::Open { until } | Stage::Probing { until } if now < until => {
                Permission::Refused { retry_after: until.since(now) }
            }
            Stage::Open { .. } | Stage::Probing { .. } => {
                self.stage = Stage::Probing { until: now.after(Breaker::PROBE_MAX) };
                Permission::Probe
            }
        }
    }

    /// The caller that probed has gone away without an answer: the next one may probe.
    pub(crate) fn give_up_probe(&mut self) {
        if let Stage::Probing { .. } = self.stage {
            self.stage = Stage::Open { until: Tick::default() };
        }
    }

    /// Whether anybody may ask freely.
    pub(crate) fn is_closed(&self) -> bool {
        self.stage == Stage::Closed
    }

    /// A call was answered.
    pub(crate) fn succeeded(&mut self) {
        *self = Breaker::new();
    }

    /// A call that was sent at `sent` was not answered. Says whether that was one too many:
    /// everybody stays away from now.
    ///
    /// Calls that were under way together fail together, because a server or this machine stood
    /// still for once. That is one failure, however many there are. `luck` spreads the returns of a
    /// fleet that failed together over half a pause.
    pub(crate) fn failed(&mut self, sent: Tick, now: Tick, luck: u64) -> bool {
        if 0 < self.failures && sent < self.failed_at {
            return false;
        }
        self.failures = self.failures.saturating_add(1);
        self.failed_at = now;
        let has_probed = matches!(self.stage, Stage::Probing { .. });
        let is_open = matches!(self.stage, Stage::Open { .. });
        if is_open || (!has_probed && self.failures < Breaker::FAILURES_MAX) {
            return false;
        }
        let half = self.pause.get() / 2;
        let pause = Span::from_micros(half + luck % (half + 1));
        self.stage = Stage::Open { until: now.after(pause) };
        let longer = self.pause.get().saturating_mul(2).min(Breaker::LONGEST_PAUSE.get());
        self.pause = Span::from_micros(longer);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u32) -> Tick {
        Tick::from_micros(1_000_000_000).after(Span::from_millis(millis))
    }

    fn fail_three_times(breaker: &mut Breaker, luck: u64) {
        for _ in 0..3 {
            breaker.failed(at(0), at(0), luck);
        }
    }

    #[test]
    fn calls_that_fail_together_are_one_failure() {
        let mut breaker = Breaker::new();
        for (sent, known) in [(0, 20), (20, 40)] {
            for call in 0..10 {
                assert!(!breaker.failed(at(sent + call), at(known + call), 0));
            }
        }
        assert_eq!(breaker.permit(at(50)), Permission::Ask);
        assert!(breaker.failed(at(50), at(70), 0));
    }

    #[test]
    fn it_opens_after_three_failures_in_a_row_and_not_before() {
        let mut breaker = Breaker::new();
        for _ in 0..10 {
            assert!(!breaker.failed(at(0), at(0), 0));
            assert!(!breaker.failed(at(0), at(0), 0));
            breaker.succeeded();
        }
        assert_eq!(breaker.permit(at(0)), Permission::Ask);
        assert!(!breaker.failed(at(0), at(0), 0));
        assert!(!breaker.failed(at(0), at(0), 0));
        assert!(breaker.failed(at(0), at(0), 0));
        let wait = Span::from_millis(50);
        assert_eq!(breaker.permit(at(0)), Permission::Refused { retry_after: wait });
        assert!(!breaker.is_closed());
    }

    #[test]
    fn one_probes_while_all_others_are_refused() {
        let mut breaker = Breaker::new();
        fail_three_times(&mut breaker, 0);
        assert_eq!(breaker.permit(at(50)), Permission::Probe);
        for millis in [50, 60, 1_000] {
            assert!(matches!(breaker.permit(at(millis)), Permission::Refused { .. }));
        }
        breaker.succeeded();
        assert_eq!(breaker.permit(at(1_000)), Permission::Ask);
    }

    #[test]
    fn a_failed_probe_doubles_the_pause_up_to_a_bound() {
        let mut breaker = Breaker::new();
        fail_three_times(&mut breaker, 0);
        let mut now = at(0);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let Permission::Refused { retry_after } = breaker.permit(now) else { panic!() };
            pauses.push(retry_after.get() / 1_000);
            now = now.after(retry_after);
            assert_eq!(breaker.permit(now), Permission::Probe);
            assert!(breaker.failed(now, now, 0));
        }
        assert_eq!(pauses, [50, 100, 200, 200, 200, 200, 200, 200, 200]);
    }

    #[test]
    fn an_answer_makes_the_next_pause_a_short_one() {
        let mut breaker = Breaker::new();
        let mut now = at(0);
        for _ in 0..3 {
            fail_three_times(&mut breaker, 0);
            let mut pauses = Vec::new();
            for _ in 0..4 {
                let Permission::Refused { retry_after } = breaker.permit(now) else { panic!() };
                pauses.push(retry_after.get() / 1_000);
                now = now.after(retry_after);
                assert_eq!(breaker.permit(now), Permission::Probe);
                breaker.failed(now, now, 0);
            }
            assert_eq!(pauses, [50, 100, 200, 200]);
            breaker.succeeded();
            assert_eq!(breaker.permit(now), Permission::Ask);
            now = at(0);
        }
    }

    #[test]
    fn luck_spreads_returns_over_half_a_pause() {
        let pause = |luck| {
            let mut breaker = Breaker::new();
            fail_three_times(&mut breaker, luck);
            let Permission::Refused { retry_after } = breaker.permit(at(0)) else { panic!() };
            retry_after.get()
        };
        let pauses: Vec<u64> = (0..1_000).map(|luck| pause(luck * 7_919)).collect();
        assert!(pauses.iter().all(|pause| (50_000..=100_000).contains(pause)));
        assert!(*pauses.iter().max().unwrap() - pauses.iter().min().unwrap() > 45_000);
    }

    #[test]
    fn late_failures_of_others_do_not_prolong_the_pause() {
        let mut breaker = Breaker::new();
        fail_three_times(&mut breaker, 0);
        for _ in 0..100 {
            assert!(!breaker.failed(at(10), at(10), 0));
        }
        assert_eq!(breaker.permit(at(50)), Permission::Probe);
    }

    #[test]
    fn a_probe_that_is_given_up_leaves_room_for_the_next() {
        let mut breaker = Breaker::new();
        fail_three_times(&mut breaker, 0);
        breaker.give_up_probe();
        assert!(matches!(breaker.permit(at(49)), Permission::Refused { .. }));
        assert_eq!(breaker.permit(at(50)), Permission::Probe);
        breaker.give_up_probe();
        assert_eq!(breaker.permit(at(50)), Permission::Probe);
        assert!(matches!(breaker.permit(at(50)), Permission::Refused { .. }));
    }

    #[test]
    fn a_probe_that_nobody_answers_for_is_given_up() {
        let mut breaker = Breaker::new();
        fail_three_times(&mut breaker, 0);
        assert_eq!(breaker.permit(at(50)), Permission::Probe);
        assert!(matches!(breaker.permit(at(5_049)), Permission::Refused { .. }));
        assert_eq!(breaker.permit(at(5_050)), Permission::Probe);
    }
}
