//! Limits that requests bring along: counted by their descriptor, whatever the configuration says.
//!
//! Each is a plain limit for good, so there is a bound on how many different ones there may be.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use tidegate_config::{EnvoyUnit, WithoutStore};
use tidegate_core::{Kind, Policy, Quota, Span};
use tidegate_gate::{Gate, PlainLimit};
use tonic::Status;

use super::proto::{RateLimitOverride, Unit};
use crate::limits::RLS_OVERRIDES_MAX;

/// The limits that requests have brought along so far.
#[derive(Debug, Default)]
pub(super) struct Overrides(RwLock<HashMap<(u32, EnvoyUnit), PlainLimit>>);

/// What a request says that its limit is.
#[derive(Clone, Debug)]
pub(super) struct Override {
    pub(super) requests_per_unit: u32,
    pub(super) unit: EnvoyUnit,
    /// Nothing if it lets nothing pass.
    pub(super) limit: Option<PlainLimit>,
}

impl Overrides {
    pub(super) fn limit(
        &self,
        gate: &Gate,
        without: WithoutStore,
        asked: RateLimitOverride,
    ) -> Result<Override, Status> {
        let RateLimitOverride { requests_per_unit, unit } = asked;
        let unit = unit_of(unit).ok_or_else(|| {
            Status::invalid_argument("the limit of a descriptor has no unit that is known")
        })?;
        if requests_per_unit == 0 {
            return Ok(Override { requests_per_unit, unit, limit: None });
        }
        let limits = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let known = limits.get(&(requests_per_unit, unit)).cloned();
        drop(limits);
        let limit = match known {
            Some(limit) => limit,
            None => self.add(gate, without, requests_per_unit, unit)?,
        };
        Ok(Override { requests_per_unit, unit, limit: Some(limit) })
    }

    fn add(
        &self,
        gate: &Gate,
        without: WithoutStore,
        requests: u32,
        unit: EnvoyUnit,
    ) -> Result<PlainLimit, Status> {
        let mut limits = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if RLS_OVERRIDES_MAX <= limits.len() && !limits.contains_key(&(requests, unit)) {
            let message = format!(
                "requests have brought along {RLS_OVERRIDES_MAX} different limits: use one of them"
            );
            return Err(Status::resource_exhausted(message));
        }
        let name = format!("envoy/override/{requests}/{}", unit.name());
        let limit = plain(gate, &name, requests, unit, without);
        let limit = limit.map_err(Status::resource_exhausted)?;
        limits.insert((requests, unit), limit.clone());
        Ok(limit)
    }
}

/// A window of so many requests as a limit of the gate.
pub(super) fn plain(
    gate: &Gate,
    name: &str,
    requests: u32,
    unit: EnvoyUnit,
    without: WithoutStore,
) -> Result<PlainLimit, String> {
    let policy = Policy::new(Kind::FixedWindow, Quota::new(requests, span(unit)));
    let policy = policy.map_err(|error| error.to_string())?;
    gate.plain(name, policy, without).map_err(|error| error.to_string())
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
