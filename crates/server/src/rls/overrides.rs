//! Limits that requests bring along: counted by their descriptor and unit, whatever the
//! configuration says.
//!
//! A client may have a say in them. So there is one count for all limits of a unit, and each
//! request is judged by its own number: a client that asks under another limit has no other count,
//! and nothing is kept of the limits themselves.

use smallvec::SmallVec;
use tidegate_config::EnvoyUnit;
use tidegate_core::WithoutStore;
use tidegate_core::{Decision, Kind, Policy, Quota, Span, Verdict};
use tidegate_gate::{AdhocCharge, AdhocDecided, AdhocLimit, Gate};

use super::answer::window_left;
use super::proto::{RateLimitOverride, Unit};

/// What counts for limits that come along: a limit of all there is, for each unit.
#[derive(Debug)]
pub(super) struct Overrides(Vec<(EnvoyUnit, AdhocLimit)>);

/// What a request says that its limit is.
#[derive(Clone, Debug)]
pub(super) struct Override {
    pub(super) requests_per_unit: u32,
    pub(super) unit: EnvoyUnit,
    /// Nothing if it lets nothing pass.
    pub(super) limit: Option<AdhocLimit>,
}

/// A key that is asked about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) charge: AdhocCharge<'a>,
    /// The number that a request brought along, and its unit.
    pub(super) own: Option<(u32, EnvoyUnit)>,
}

impl Overrides {
    /// Takes its places in the store, before others take them all.
    pub(super) fn new(gate: &Gate, without: WithoutStore) -> Result<Overrides, String> {
        let limit = |unit: EnvoyUnit| {
            let name = format!("envoy/override/{}", unit.name());
            Ok((unit, plain(gate, &name, u32::MAX, unit, without)?))
        };
        EnvoyUnit::ALL.into_iter().map(limit).collect::<Result<_, String>>().map(Overrides)
    }

    /// A limit of a unit that nobody knows lets nothing pass: an error would let all pass.
    pub(super) fn limit(&self, asked: RateLimitOverride) -> Override {
        let RateLimitOverride { requests_per_unit, unit } = asked;
        let Some(unit) = unit_of(unit) else {
            return Override { requests_per_unit: 0, unit: EnvoyUnit::Second, limit: None };
        };
        let mut limits = self.0.iter().filter(|(known, _)| *known == unit);
        let limit = limits.next().filter(|_| 0 < requests_per_unit);
        Override { requests_per_unit, unit, limit: limit.map(|(_, limit)| limit.clone()) }
    }
}

/// Asks limits: all are charged, or none.
///
/// What came along is looked at first, so that what is refused is charged to nothing. If others
/// take the room in between, nothing passes, and what was charged stays charged.
pub(super) async fn ask(gate: &Gate, asked: &[Asked<'_>], takes: bool) -> AdhocDecided {
    let charges: SmallVec<[AdhocCharge<'_>; 4]> = asked.iter().map(|it| it.charge).collect();
    let has_own = asked.iter().any(|it| it.own.is_some());
    if has_own || !takes {
        let seen = by_own(gate.peek_adhoc(&charges).await, asked, false);
        if !takes || !seen.verdict.passes() {
            return seen;
        }
    }
    let decided = gate.decide_adhoc(&charges).await;
    let has_charged = decided.verdict.passes();
    by_own(decided, asked, has_charged)
}

/// What was decided, by the numbers that came along.
fn by_own(mut decided: AdhocDecided, asked: &[Asked<'_>], has_charged: bool) -> AdhocDecided {
    let now = decided.now;
    for (decision, asked) in decided.each.iter_mut().zip(asked) {
        if let Some((requests, unit)) = asked.own {
            let cost = if has_charged { 0 } else { asked.charge.cost };
            *decision = judged(*decision, cost, requests, window_left(unit, now));
            if requests < asked.charge.cost {
                decision.verdict = Verdict::Never;
            }
            decided.verdict = decided.verdict.and(decision.verdict);
        }
    }
    decided
}

/// What a count of all there is says about a smaller limit, if `cost` is yet to come.
fn judged(counted: Decision, cost: u32, requests: u32, window_left: Span) -> Decision {
    // Without Redis, a node may have only a part of the count: then of the limit as well.
    let part = u64::from(requests) * u64::from(counted.limit) / u64::from(u32::MAX);
    let limit = u32::try_from(part).unwrap_or(u32::MAX).max(1);
    let used = counted.limit.saturating_sub(counted.remaining);
    let fits = counted.verdict.passes() && used.saturating_add(cost) <= limit;
    let verdict = if fits { counted.verdict } else { Verdict::Deny { retry_after: window_left } };
    Decision { verdict, limit, remaining: limit.saturating_sub(used), ..counted }
}

/// A window of so many requests as a limit of the gate.
pub(super) fn plain(
    gate: &Gate,
    name: &str,
    requests: u32,
    unit: EnvoyUnit,
    without: WithoutStore,
) -> Result<AdhocLimit, String> {
    let policy = Policy::new(Kind::FixedWindow, Quota::new(requests, span(unit)));
    let policy = policy.map_err(|error| error.to_string())?;
    gate.adhoc(name, policy, without).map_err(|error| error.to_string())
}

/// How long a window is.
pub(super) fn span(unit: EnvoyUnit) -> Span {
    Span::from_micros(unit.duration().as_secs() * 1_000_000)
}

/// Numbers mean the same in requests and in responses; only these have a week.
fn unit_of(unit: i32) -> Option<EnvoyUnit> {
    Some(match Unit::try_from(unit).ok()? {
        Unit::Unknown => return None,
        Unit::Second => EnvoyUnit::Second,
        Unit::Minute => EnvoyUnit::Minute,
        Unit::Hour => EnvoyUnit::Hour,
        Unit::Day => EnvoyUnit::Day,
        Unit::Week => EnvoyUnit::Week,
        Unit::Month => EnvoyUnit::Month,
        Unit::Year => EnvoyUnit::Year,
    })
}
