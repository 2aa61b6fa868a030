//! The parts of a response: codes, limits and times as Envoy has them.

use tidegate_config::EnvoyUnit;
use tidegate_core::{Span, Tick};

use super::overrides::span;
use super::proto::{Code, DescriptorStatus, RateLimit, RateLimitResponse, Unit};

/// The status of a descriptor that no limit is for.
pub(super) fn free() -> DescriptorStatus {
    DescriptorStatus { code: Code::Ok.into(), ..DescriptorStatus::default() }
}

/// Refuses a request whose descriptors are not asked about.
pub(super) fn refused(descriptors: usize) -> RateLimitResponse {
    let status = DescriptorStatus { code: code(false), ..DescriptorStatus::default() };
    RateLimitResponse {
        overall_code: code(false),
        statuses: vec![status; descriptors],
        ..RateLimitResponse::default()
    }
}

/// The status of a descriptor that a limit is for.
pub(super) fn limited(
    passes: bool,
    limit: RateLimit,
    remaining: u32,
    reset_after: Span,
) -> DescriptorStatus {
    DescriptorStatus {
        code: code(passes),
        current_limit: Some(limit),
        limit_remaining: remaining,
        duration_until_reset: Some(duration(reset_after)),
        quota: None,
    }
}

pub(super) fn code(passes: bool) -> i32 {
    if passes { Code::Ok } else { Code::OverLimit }.into()
}

/// The unit that is as long as this; unknown, if there is none.
pub(super) fn unit_of(window: Span) -> Unit {
    let unit = EnvoyUnit::ALL.into_iter().find(|unit| span(*unit) == window);
    unit.map_or(Unit::Unknown, to_proto)
}

pub(super) fn to_proto(unit: EnvoyUnit) -> Unit {
    match unit {
        EnvoyUnit::Second => Unit::Second,
        EnvoyUnit::Minute => Unit::Minute,
        EnvoyUnit::Hour => Unit::Hour,
        EnvoyUnit::Day => Unit::Day,
        EnvoyUnit::Week => Unit::Week,
        EnvoyUnit::Month => Unit::Month,
        EnvoyUnit::Year => Unit::Year,
    }
}

/// How long the present window of a unit goes on: never nothing.
pub(super) fn window_left(unit: EnvoyUnit, now: Tick) -> Span {
    let length = span(unit).get();
    Span::from_micros(length - now.get() % length)
}

fn duration(span: Span) -> prost_types::Duration {
    let micros = span.get();
    prost_types::Duration {
        seconds: i64::try_from(micros / 1_000_000).unwrap_or(i64::MAX),
        nanos: i32::try_from(micros % 1_000_000 * 1_000).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_an_end_at_every_tick() {
        let left = |now| window_left(EnvoyUnit::Minute, Tick::from_micros(now)).get();
        assert_eq!((left(0), left(1), left(59_999_999)), (60_000_000, 59_999_999, 1));
    }

    #[test]
    fn times_keep_their_fractions() {
        let half = duration(Span::from_micros(1_500_000));
        assert_eq!((half.seconds, half.nanos), (1, 500_000_000));
    }

    #[test]
    fn windows_that_are_no_unit_have_none() {
        assert_eq!(unit_of(Span::from_secs(3_600)), Unit::Hour);
        assert_eq!(unit_of(Span::from_secs(7)), Unit::Unknown);
    }
}
