//! Limits that a command names itself, as redis-cell's and throttlecrab's clients send them.
//!
//! What redis-cell calls a burst comes on top of the one request that always passes, so its limit
//! is one more; throttlecrab's is the burst itself. The same parameters thus are two limits.

use std::sync::Arc;

use tidegate_core::{Decision, Kind, Policy, Quota, Span, Verdict};
use tidegate_gate::AdhocLimit;

use super::WITHOUT_STORE;
use super::refused::Refused;
use super::reply::Reply;
use crate::caller::Caller;
use crate::desk::{Desk, NamedLimit, NoLimit};
use crate::limits::{NAMED_RETRY_AFTER_SECS, RESP_LIMITS_KNOWN_MAX};
use crate::metrics::What;

/// Whose command it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Dialect {
    /// `CL.THROTTLE`
    RedisCell,
    /// `THROTTLE`
    Throttlecrab,
}

/// A limit as it stands in a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Parameters {
    pub(super) dialect: Dialect,
    pub(super) burst_max: u32,
    pub(super) count: u32,
    pub(super) period_secs: u32,
}

/// A command that names its limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Throttle<'a> {
    pub(super) parameters: Parameters,
    pub(super) key: &'a [u8],
    pub(super) quantity: u32,
}

/// Limits that a connection has asked by.
#[derive(Debug, Default)]
pub(super) struct Known {
    limits: Vec<(Parameters, Arc<NamedLimit>)>,
    /// The one to forget next.
    oldest: usize,
}

impl<'a> Throttle<'a> {
    /// Reads what follows the name of the command.
    #[inline]
    pub(super) fn read(dialect: Dialect, arguments: &[&'a [u8]]) -> Result<Self, Refused> {
        let (key, numbers) = match arguments {
            [key, numbers @ ..] if (3..=4).contains(&numbers.len()) => (*key, numbers),
            _ => return Err(Refused::arity(dialect.name())),
        };
        let (burst_min, burst_max) = dialect.bursts();
        let burst_max = number("max_burst", numbers[0], (burst_min, burst_max))?;
        let count = number("count", numbers[1], (1, u32::MAX))?;
        let period_secs = number("period", numbers[2], (1, PERIOD_SECS_MAX))?;
        let quantity = numbers.get(3).map(|text| number("quantity", text, (0, u32::MAX)));
        let parameters = Parameters { dialect, burst_max, count, period_secs };
        Ok(Throttle { parameters, key, quantity: quantity.transpose()?.unwrap_or(1) })
    }
}

/// The longest period: 366 days.
const PERIOD_SECS_MAX: u32 = 366 * 86_400;

/// A number in digits, from one to another.
#[inline]
fn number(name: &str, text: &[u8], (min, max): (u32, u32)) -> Result<u32, Refused> {
    let mut value = 0_u32;
    let mut is_number = !text.is_empty();
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        let next = value.checked_mul(10).and_then(|tens| tens.checked_add(digit.into()));
        is_number &= digit <= 9 && next.is_some();
        value = next.unwrap_or(value);
    }
    if is_number && min <= value && value <= max {
        return Ok(value);
    }
    Err(Refused::value(name, &format!("a whole number from {min} to {max}"), text))
}

impl Dialect {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Dialect::RedisCell => "cl.throttle",
            Dialect::Throttlecrab => "throttle",
        }
    }

    const fn bursts(self) -> (u32, u32) {
        match self {
            Dialect::RedisCell => (0, u32::MAX - 1),
            Dialect::Throttlecrab => (1, u32::MAX),
        }
    }

    /// Five integers.
    #[inline]
    pub(super) fn write(self, decision: &Decision, reply: &mut Reply<'_>) {
        let retry_secs = match decision.verdict {
            Verdict::Deny { retry_after } => seconds(retry_after),
            Verdict::Never => -1,
            Verdict::Allow | Verdict::Delay { .. } => match self {
                Dialect::RedisCell => -1,
                Dialect::Throttlecrab => 0,
            },
        };
        let (passes, reset_secs) = (decision.verdict.passes(), seconds(decision.reset_after));
        let (limit, remaining) = (decision.limit.into(), decision.remaining.into());
        reply.numbers(match self {
            Dialect::RedisCell => [(!passes).into(), limit, remaining, retry_secs, reset_secs],
            Dialect::Throttlecrab => [passes.into(), limit, remaining, reset_secs, retry_secs],
        });
    }
}

/// Whole seconds: a promise is never early.
fn seconds(span: Span) -> i64 {
    i64::try_from(span.as_secs_ceil()).unwrap_or(i64::MAX)
}

impl Parameters {
    fn limit(self) -> u32 {
        match self.dialect {
            Dialect::RedisCell => self.burst_max.saturating_add(1),
            Dialect::Throttlecrab => self.burst_max,
        }
    }

    pub(super) fn policy(self) -> Result<Policy, Refused> {
        let limit = self.limit();
        let quota = Quota::new(self.count, Span::from_secs(self.period_secs)).burst(limit);
        Policy::new(Kind::Gcra, quota).map_err(|error| Refused::new(format!("ERR {error}")))
    }

    /// What is said where there is no room for this limit.
    pub(super) fn refuse(self, reply: &mut Reply<'_>) {
        let limit = self.limit();
        let retry_after = Span::from_secs(NAMED_RETRY_AFTER_SECS);
        let verdict = Verdict::Deny { retry_after };
        let reset_after = retry_after;
        self.dialect.write(&Decision { verdict, limit, remaining: 0, reset_after }, reply);
    }

    /// A name for the limit; commands that name the same limit have the same name for it.
    fn name(self) -> String {
        let Parameters { dialect, burst_max, count, period_secs } = self;
        format!("{}:{burst_max}:{count}:{period_secs}", dialect.name())
    }
}

impl Known {
    /// Where the limit of these parameters is, if it is known.
    #[inline]
    pub(super) fn find(&self, parameters: &Parameters) -> Option<usize> {
        self.limits.iter().position(|(known, _)| known == parameters)
    }

    /// Gets to know a limit; where all places are taken, another one is forgotten. Nothing, if
    /// there is no room for more limits.
    pub(super) fn learn(
        &mut self,
        desk: &Desk,
        caller: Caller,
        parameters: Parameters,
    ) -> Result<Option<usize>, Refused> {
        let named = (parameters.policy()?, WITHOUT_STORE);
        let limit = match desk.named.limit(&desk.gate, caller, &parameters.name(), named) {
            Ok(limit) => limit,
            Err(NoLimit::Failed(failure)) => return Err(Refused::new(format!("ERR {failure}"))),
            Err(NoLimit::NoRoom(why)) => {
                desk.metrics.no_room(What::Limit, caller, why);
                return Ok(None);
            }
        };
        if self.limits.len() < RESP_LIMITS_KNOWN_MAX {
            self.limits.push((parameters, limit));
            return Ok(Some(self.limits.len() - 1));
        }
        let place = self.oldest;
        self.limits[place] = (parameters, limit);
        self.oldest = (place + 1) % RESP_LIMITS_KNOWN_MAX;
        Ok(Some(place))
    }

    #[inline]
    pub(super) fn limit(&self, place: usize) -> &AdhocLimit {
        &self.limits[place].1.limit
    }

    /// Something is charged under it.
    #[inline]
    pub(super) fn charges(&self, place: usize) {
        self.limits[place].1.is_charged();
    }

    #[inline]
    pub(super) fn dialect(&self, place: usize) -> Dialect {
        self.limits[place].0.dialect
    }
}
