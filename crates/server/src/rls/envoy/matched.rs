//! Which limits a request's descriptors are for, and the keys that these count.

use std::collections::BTreeSet;

use smallvec::SmallVec;
use tidegate_config::{EnvoyLimit, EnvoyUnit};
use tidegate_gate::AdhocLimit;

use super::InForce;
use crate::rls::fields::OVERRIDE;
use crate::rls::overrides::Override;
use crate::rls::proto::{RateLimitDescriptor, RateLimitRequest};
use crate::rls::{RateLimits, checked};

/// A descriptor with its limit.
#[derive(Debug)]
pub(super) enum Matched<'a> {
    /// No limit is for it.
    Free,
    /// It passes uncounted.
    Unlimited(&'a EnvoyLimit),
    /// It is counted, or blocked.
    Limited(Limited<'a>),
}

#[derive(Debug)]
pub(super) struct Limited<'a> {
    /// Nothing where nothing passes.
    pub(super) plain: Option<AdhocLimit>,
    pub(super) key: SmallVec<[&'a [u8]; 7]>,
    pub(super) cost: u32,
    pub(super) name: &'a str,
    pub(super) shown: &'a str,
    pub(super) requests_per_unit: u32,
    pub(super) unit: EnvoyUnit,
    pub(super) mode: Mode,
    /// What the files say about it; nothing for a limit that came along.
    pub(super) limit: Option<&'a EnvoyLimit>,
}

/// How a limit takes part in a decision.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mode {
    /// It refuses.
    Normal,
    /// It refuses only together with all others like it.
    Quota,
    /// It never refuses.
    Shadow,
}

pub(super) type All<'a> = SmallVec<[Matched<'a>; 4]>;

/// Finds the limit of every descriptor, and drops those that others replace.
pub(super) fn all<'a>(
    limits: &RateLimits,
    config: &'a InForce,
    request: &'a RateLimitRequest,
) -> All<'a> {
    let mut matched = All::new();
    if !config.rules.has_domain(&request.domain) {
        matched.extend(request.descriptors.iter().map(|_| Matched::Free));
        return matched;
    }
    for descriptor in &request.descriptors {
        matched.push(match descriptor.limit {
            Some(limit) => {
                Matched::Limited(brought(request, descriptor, limits.0.overrides.limit(limit)))
            }
            None => find(config, request, descriptor),
        });
    }
    let replaced: BTreeSet<&str> = matched
        .iter()
        .filter_map(Matched::limit)
        .flat_map(|limit| limit.replaces.iter().map(|name| &**name))
        .collect();
    for one in &mut matched {
        let name = one.limit().and_then(|limit| limit.name.as_deref());
        if name.is_some_and(|name| replaced.contains(name)) {
            *one = Matched::Free;
        }
    }
    matched
}

fn find<'a>(
    config: &'a InForce,
    request: &'a RateLimitRequest,
    descriptor: &'a RateLimitDescriptor,
) -> Matched<'a> {
    let entries = descriptor.entries.iter().map(|it| (&*it.key, &*it.value));
    let Some(number) = config.rules.find(&request.domain, entries) else { return Matched::Free };
    let (limit, kept) = (&config.rules.limits()[number], &config.limits[number]);
    let Some(unit) = limit.unit else { return Matched::Unlimited(limit) };
    let mode = match limit {
        _ if limit.is_shadow => Mode::Shadow,
        _ if limit.is_quota => Mode::Quota,
        _ => Mode::Normal,
    };
    Matched::Limited(Limited {
        plain: kept.plain.clone(),
        key: key(request, descriptor, &limit.shared),
        cost: checked::hits(request, descriptor).unwrap_or(1),
        name: limit.name.as_deref().unwrap_or_default(),
        shown: &kept.shown,
        requests_per_unit: limit.requests_per_unit,
        unit,
        mode,
        limit: Some(limit),
    })
}

fn brought<'a>(
    request: &'a RateLimitRequest,
    descriptor: &'a RateLimitDescriptor,
    said: Override,
) -> Limited<'a> {
    Limited {
        plain: said.limit,
        key: key(request, descriptor, &[]),
        cost: checked::hits(request, descriptor).unwrap_or(1),
        name: "",
        shown: OVERRIDE,
        requests_per_unit: said.requests_per_unit,
        unit: said.unit,
        mode: Mode::Normal,
        limit: None,
    }
}

/// The key that a descriptor is counted under: the domain, every key, and every value or the
/// pattern that it shares its count under.
fn key<'a>(
    request: &'a RateLimitRequest,
    descriptor: &'a RateLimitDescriptor,
    shared: &'a [Option<Box<str>>],
) -> SmallVec<[&'a [u8]; 7]> {
    let mut parts = SmallVec::new();
    parts.push(request.domain.as_bytes());
    for (at, entry) in descriptor.entries.iter().enumerate() {
        let pattern = shared.get(at).and_then(Option::as_deref);
        parts.push(&*entry.key);
        parts.push(pattern.map_or(&*entry.value, str::as_bytes));
    }
    parts
}

impl Limited<'_> {
    /// Its number and unit, if it came along.
    pub(super) fn own(&self) -> Option<(u32, EnvoyUnit)> {
        self.limit.is_none().then_some((self.requests_per_unit, self.unit))
    }
}

impl<'a> Matched<'a> {
    /// The limit in the files, if it is one of those.
    fn limit(&self) -> Option<&'a EnvoyLimit> {
        match self {
            Matched::Free => None,
            Matched::Unlimited(limit) => Some(limit),
            Matched::Limited(limited) => limited.limit,
        }
    }
}
