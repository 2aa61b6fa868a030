//! Built-in traffic: the patterns on which algorithms differ.
//!
//! A shape is written in terms of the quota, so it means the same for ten an hour as for a million
//! a second: the *pace* is as many requests as use up the quota of one period.

mod burst;
mod draft;
mod random;

use std::fmt;
use std::str::FromStr;

use tidegate_core::{Quota, Span};

use crate::shape::draft::Draft;
use crate::trace::{Trace, TraceError};

/// A traffic pattern.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shape {
    /// An even stream at one and a half times the pace.
    Steady,
    /// The whole quota just before the edge of a window, and again just after it.
    BoundaryBurst,
    /// A period of silence, a burst of three quotas, then one and a half times the pace.
    IdleThenBurst,
    /// Half a period at three times the pace, half a period of silence, and so on.
    OnOff,
    /// Requests that know nothing of each other, at 1.25 times the pace on average.
    Poisson,
    /// Half the pace, then suddenly ten times the pace, then slowly back.
    FlashCrowd,
    /// Tenants at half their pace, one of which turns to ten times its own.
    NoisyTenant,
}

impl Shape {
    /// Every shape, in the order in which they are listed.
    pub const ALL: [Shape; 7] = [
        Shape::Steady,
        Shape::BoundaryBurst,
        Shape::IdleThenBurst,
        Shape::OnOff,
        Shape::Poisson,
        Shape::FlashCrowd,
        Shape::NoisyTenant,
    ];

    /// What the shape is called on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Shape::Steady => "steady",
            Shape::BoundaryBurst => "boundary-burst",
            Shape::IdleThenBurst => "idle-then-burst",
            Shape::OnOff => "on-off",
            Shape::Poisson => "poisson",
            Shape::FlashCrowd => "flash-crowd",
            Shape::NoisyTenant => "noisy-tenant",
        }
    }

    /// The shape in one line.
    pub const fn about(self) -> &'static str {
        match self {
            Shape::Steady => "an even stream, half as fast again as the quota",
            Shape::BoundaryBurst => {
                "the whole quota just before a window's edge, and again just after it"
            }
            Shape::IdleThenBurst => "silence, three quotas in a rush, then more than the quota",
            Shape::OnOff => "half a period at three times the quota, half a period of silence",
            Shape::Poisson => "random arrivals, a quarter above the quota on average",
            Shape::FlashCrowd => "half the quota, suddenly ten times the quota, slowly back",
            Shape::NoisyTenant => {
                "tenants at half their quota, one of which turns to ten times its own"
            }
        }
    }

    /// How many periods the shape lasts unless told otherwise.
    const fn periods(self) -> u64 {
        match self {
            Shape::FlashCrowd => 5,
            _ => 4,
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Shape {
    type Err = UnknownShape;

    fn from_str(name: &str) -> Result<Shape, UnknownShape> {
        Shape::ALL.into_iter().find(|shape| shape.name() == name).ok_or(UnknownShape)
    }
}

/// The name of no shape.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnknownShape;

impl fmt::Display for UnknownShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Shape::ALL.map(Shape::name).join(", ");
        write!(f, "there is no such shape: choose one of {names}")
    }
}

impl std::error::Error for UnknownShape {}

/// What a trace is made from. The same scenario always makes the same trace.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The pattern.
    pub shape: Shape,
    /// What the pattern is measured against. Its burst plays no part here.
    pub quota: Quota,
    /// Cells that each request takes.
    pub cost: u32,
    /// How many tenants [`Shape::NoisyTenant`] has. The other shapes have one.
    pub tenants: u32,
    /// How long it lasts, or `None` for as long as the shape needs.
    pub duration: Option<Span>,
    /// Where the random shapes start.
    pub seed: u64,
}

impl Scenario {
    /// The longest duration: ten years of 366 days.
    pub const DURATION_MAX: Span = Span::from_micros(10 * Quota::PER_MAX.get());

    /// How long the trace lasts.
    pub fn duration(&self) -> Span {
        let periods = self.shape.periods();
        self.duration.unwrap_or(Span::from_micros(self.quota.per().get().saturating_mul(periods)))
    }

    /// The requests, in order of time.
    pub fn trace(&self) -> Result<Trace, TraceError> {
        if self.duration() < self.quota.per() {
            return Err(TraceError::TooShort);
        }
        if Scenario::DURATION_MAX < self.duration() {
            return Err(TraceError::TooLong);
        }
        if self.shape == Shape::NoisyTenant && self.tenants < 2 {
            return Err(TraceError::TooFewTenants);
        }
        if Trace::TENANTS_MAX < self.tenants {
            return Err(TraceError::TooManyTenants);
        }
        let mut draft = Draft::new(self);
        match self.shape {
            Shape::Steady => burst::steady(&mut draft),
            Shape::BoundaryBurst => burst::boundary(&mut draft),
            Shape::IdleThenBurst => burst::idle_then(&mut draft),
            Shape::OnOff => burst::on_off(&mut draft),
            Shape::Poisson => random::poisson(&mut draft),
            Shape::FlashCrowd => random::flash_crowd(&mut draft),
            Shape::NoisyTenant => random::noisy_tenant(&mut draft, self.tenants),
        }?;
        draft.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(shape: Shape) -> Scenario {
        let quota = Quota::per_minute(100);
        Scenario { shape, quota, cost: 1, tenants: 20, duration: None, seed: 1 }
    }

    fn count(trace: &Trace, from_secs: u64, to_secs: u64) -> usize {
        let within = from_secs * 1_000_000..to_secs * 1_000_000;
        trace.requests().iter().filter(|request| within.contains(&request.at.get())).count()
    }

    #[test]
    fn every_shape_has_the_requests_it_says() {
        let sizes = Shape::ALL.map(|shape| scenario(shape).trace().unwrap().requests().len());
        assert_eq!(sizes, [600, 400, 675, 525, 486, 1_365, 6_561]);
    }

    #[test]
    fn a_scenario_makes_the_same_trace_every_time() {
        for shape in Shape::ALL {
            assert_eq!(scenario(shape).trace(), scenario(shape).trace());
        }
        let other = Scenario { seed: 2, ..scenario(Shape::Poisson) };
        assert_ne!(scenario(Shape::Poisson).trace(), other.trace());
    }

    #[test]
    fn a_boundary_burst_is_one_quota_on_each_side_of_the_edge() {
        let trace = scenario(Shape::BoundaryBurst).trace().unwrap();
        assert_eq!(count(&trace, 0, 59), 0);
        assert_eq!(count(&trace, 59, 60), 100);
        assert_eq!(count(&trace, 60, 61), 100);
        assert_eq!(count(&trace, 61, 179), 0);
        assert_eq!(count(&trace, 179, 181), 200);
    }

    #[test]
    fn traffic_is_measured_in_requests_that_use_up_the_quota() {
        let ten = Scenario { cost: 10, ..scenario(Shape::BoundaryBurst) }.trace().unwrap();
        assert_eq!(ten.requests().len(), 40);
        assert!(ten.requests().iter().all(|request| request.cost == 10));
    }

    #[test]
    fn random_arrivals_keep_their_pace_however_fast_it_is() {
        let quota = Quota::new(1_000_000, Span::from_secs(1));
        let duration = Some(Span::from_secs(1));
        let trace = Scenario { quota, duration, ..scenario(Shape::Poisson) }.trace().unwrap();
        let count = trace.requests().len();
        assert!((1_245_000..1_255_000).contains(&count), "{count} requests");
    }

    #[test]
    fn names_read_back() {
        for shape in Shape::ALL {
            assert_eq!(shape.name().parse(), Ok(shape));
        }
        assert_eq!("wave".parse::<Shape>(), Err(UnknownShape));
    }

    #[test]
    fn every_input_has_a_bound() {
        let huge = Quota::per_second(u32::MAX);
        for shape in Shape::ALL {
            let base = scenario(shape);
            let refusal = |scenario: Scenario| scenario.trace().unwrap_err();
            assert_eq!(refusal(Scenario { quota: huge, ..base }), TraceError::TooManyRequests);
            let duration = Some(Span::from_secs(59));
            assert_eq!(refusal(Scenario { duration, ..base }), TraceError::TooShort);
            let duration = Some(Span::MAX);
            assert_eq!(refusal(Scenario { duration, ..base }), TraceError::TooLong);
            let tenants = u32::MAX;
            assert_eq!(refusal(Scenario { tenants, ..base }), TraceError::TooManyTenants);
        }
        let alone = Scenario { tenants: 1, ..scenario(Shape::NoisyTenant) };
        assert_eq!(alone.trace().unwrap_err(), TraceError::TooFewTenants);
    }
}
