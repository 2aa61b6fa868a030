//! A list of requests: who asks, when, and for how much.
//!
//! A trace is ordered by time, and its length is bounded where it is made.

use std::fmt;

use tidegate_core::{Span, Tick};

/// One request of a [`Trace`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// When it is made.
    pub at: Tick,
    /// Who makes it. Each tenant has a key, and so a state, of its own.
    pub tenant: u32,
    /// How many cells it takes.
    pub cost: u32,
}

/// Requests in order of time, starting at the epoch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Trace {
    requests: Vec<Request>,
    tenants: u32,
    duration: Span,
}

impl Trace {
    /// The most requests that a trace may hold: about 80 MB of them.
    pub const REQUESTS_MAX: usize = 5_000_000;

    /// The most tenants that a trace may have.
    pub const TENANTS_MAX: u32 = 100_000;

    /// Orders `requests` by time. Requests of the same tick keep their order.
    pub fn new(mut requests: Vec<Request>, duration: Span) -> Result<Trace, TraceError> {
        if Trace::REQUESTS_MAX < requests.len() {
            return Err(TraceError::TooManyRequests);
        }
        let tenants = requests.iter().map(|request| request.tenant).max().unwrap_or(0);
        if Trace::TENANTS_MAX <= tenants {
            return Err(TraceError::TooManyTenants);
        }
        requests.sort_by_key(|request| request.at);
        Ok(Trace { requests, tenants: tenants + 1, duration })
    }

    /// The requests, in order of time.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// How many tenants there are: one more than the largest number among them.
    pub fn tenants(&self) -> u32 {
        self.tenants
    }

    /// How long the trace lasts, with whatever silence it ends in.
    pub fn duration(&self) -> Span {
        self.duration
    }
}

/// Why a trace was refused, and what to change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TraceError {
    /// The duration was shorter than one period of the quota.
    TooShort,
    /// The duration was longer than [`Scenario::DURATION_MAX`](crate::Scenario::DURATION_MAX).
    TooLong,
    /// There were more requests than [`Trace::REQUESTS_MAX`].
    TooManyRequests,
    /// There were more tenants than [`Trace::TENANTS_MAX`].
    TooManyTenants,
    /// A shape about several tenants was asked for fewer than two.
    TooFewTenants,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::TooShort => {
                f.write_str("the duration is shorter than one period of the quota: lengthen it")
            }
            TraceError::TooLong => {
                f.write_str("the duration is longer than ten years: choose a shorter one")
            }
            TraceError::TooManyRequests => write!(
                f,
                "the traffic would hold more than {} requests: lower the quota, the duration or \
                 the number of tenants, or raise the cost",
                Trace::REQUESTS_MAX
            ),
            TraceError::TooManyTenants => {
                write!(f, "there are more than {} tenants: lower their number", Trace::TENANTS_MAX)
            }
            TraceError::TooFewTenants => {
                f.write_str("one noisy tenant needs a quiet one: give at least 2 tenants")
            }
        }
    }
}

impl std::error::Error for TraceError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(at: u64, tenant: u32) -> Request {
        Request { at: Tick::from_micros(at), tenant, cost: 1 }
    }

    #[test]
    fn requests_come_out_in_order_of_time() {
        let trace =
            Trace::new(vec![request(3, 0), request(1, 1), request(3, 1)], Span::from_micros(5))
                .unwrap();
        assert_eq!(trace.requests(), [request(1, 1), request(3, 0), request(3, 1)]);
        assert_eq!(trace.tenants(), 2);
    }

    #[test]
    fn tenants_are_bounded() {
        let requests = vec![request(0, Trace::TENANTS_MAX)];
        assert_eq!(Trace::new(requests, Span::from_micros(1)), Err(TraceError::TooManyTenants));
    }
}
