//! Plain limits in Redis, for a fleet.

use sha1_smol::Sha1;
use smallvec::SmallVec;
use tidegate_core::Tick;
use tidegate_redis::{Fleet, FleetKey, KeyPart, KeyText, SharedCharge, SharedRule};
use tidegate_store::MemoryStore;

use super::ask::{Asked, fits};
use super::here::too_long;
use super::{PlainCharge, PlainDecided, PlainLimit};
use crate::later::Later;
use crate::store::{StoreFailure, StoreRule};

/// Bytes as they are written: the text that they are, or their digest.
struct Text<'a>(&'a [u8]);

impl KeyPart for Text<'_> {
    fn write(&self, text: &mut KeyText) {
        match str::from_utf8(self.0) {
            Ok(plain) => plain.write(text),
            // Two, so that no text is taken for a digest.
            Err(_) => ("sha1", Sha1::from(self.0).digest().to_string()).write(text),
        }
    }
}

/// The key of these parts. The first is the tenant.
fn key_of(key: &[&[u8]]) -> Option<FleetKey> {
    if !fits(key) {
        return None;
    }
    let made = match key {
        // A pair, which no text is.
        [] => FleetKey::new(("", "")),
        [only] => FleetKey::new(Text(only)),
        [first, rest @ ..] => {
            let rest: SmallVec<[Text<'_>; 4]> = rest.iter().map(|part| Text(part)).collect();
            FleetKey::in_tenant(Text(first), &rest[..])
        }
    };
    made.ok()
}

fn rule_of(limit: &PlainLimit) -> Option<&SharedRule> {
    match &limit.0.rule {
        StoreRule::Fleet(rule) => Some(rule),
        StoreRule::Here(_) => None,
    }
}

pub(super) fn decide(
    fleet: &Fleet,
    charges: &[PlainCharge<'_>],
    now: Tick,
    takes: bool,
) -> Later<PlainDecided> {
    let never = PlainDecided::never(charges, now);
    let Some(asked) = Asked::new(charges, |charge| key_of(charge.key)) else {
        return Later::Here(never);
    };
    let rule = |limit| rule_of(limit).cloned();
    let rules = asked.once.iter().map(|one| Some((rule(one.limit)?, one.key, one.cost)));
    let rules: Option<SmallVec<[(SharedRule, FleetKey, u32); 1]>> = rules.collect();
    let Some(rules) = rules.filter(|rules| rules.len() <= MemoryStore::LIMITS_MAX) else {
        return Later::Here(never);
    };
    let (fleet, places) = (fleet.clone(), asked.places);
    Later::Asked(Box::pin(async move {
        let charges = rules.iter().map(|(rule, key, cost)| SharedCharge { rule, key, cost: *cost });
        let charges: SmallVec<[SharedCharge<'_>; 4]> = charges.collect();
        let decided = if takes { fleet.decide(&charges).await } else { fleet.peek(&charges).await };
        let each = places
            .iter()
            .zip(&never.each)
            .map(|(place, never)| decided.each.get(*place).copied().unwrap_or(*never));
        PlainDecided { verdict: decided.verdict, by: decided.by, now, each: each.collect() }
    }))
}

pub(super) fn reset(
    fleet: &Fleet,
    limit: &PlainLimit,
    key: &[&[u8]],
) -> Later<Result<Vec<String>, StoreFailure>> {
    let (Some(rule), Some(key)) = (rule_of(limit).cloned(), key_of(key)) else {
        return Later::Here(Err(too_long()));
    };
    let (fleet, name) = (fleet.clone(), limit.name().to_owned());
    Later::Asked(Box::pin(async move {
        let done = fleet.reset(&rule, &key).await;
        done.map(|()| vec![name]).map_err(|error| StoreFailure::new(error.to_string()))
    }))
}
