//! Plain limits in Redis, for a fleet.

use sha1_smol::Sha1;
use smallvec::SmallVec;
use tidegate_core::{Decision, Tick, Verdict};
use tidegate_redis::{Fleet, FleetKey, KeyPart, KeyText, SharedCharge, SharedRule};
use tidegate_store::{By, MemoryStore};

use super::ask::{Asked, PIECE_BYTES_MAX, fits};
use super::here::no_key;
use super::{PlainCharge, PlainDecided, PlainLimit};
use crate::later::Later;
use crate::secret::KeySecret;
use crate::store::{StoreFailure, StoreRule};

/// Bytes as they are written: the text that they are, or their digest where they are none or long.
struct Text<'a>(&'a [u8], Option<&'a KeySecret>);

/// Parts that are too long together: one digest stands for all of them.
struct Long<'a>(&'a [&'a [u8]], Option<&'a KeySecret>);

impl KeyPart for Text<'_> {
    fn write(&self, text: &mut KeyText) {
        let Text(bytes, secret) = *self;
        // Two parts, so that no text is taken for a digest.
        match (str::from_utf8(bytes), secret) {
            (_, Some(secret)) => ("hmac", secret.name_of("plain", bytes)).write(text),
            (Ok(plain), None) if plain.len() <= PIECE_BYTES_MAX => plain.write(text),
            _ => ("sha1", Sha1::from(bytes).digest().to_string()).write(text),
        }
    }
}

impl KeyPart for Long<'_> {
    fn write(&self, text: &mut KeyText) {
        let mut sum = Sha1::new();
        for part in self.0 {
            // With their lengths: a part never runs into the next.
            sum.update(&part.len().to_be_bytes());
            sum.update(part);
        }
        // A pair in a pair, so that no list of texts is taken for it.
        let sum = sum.digest();
        match self.1 {
            Some(secret) => ("hmac", ("parts", secret.name_of("parts", &sum.bytes()))).write(text),
            None => ("sha1", ("parts", sum.to_string())).write(text),
        }
    }
}

/// The key of these parts. The first is the tenant.
fn key_of(key: &[&[u8]], secret: Option<&KeySecret>) -> Option<FleetKey> {
    let made = match key {
        // A pair, which no text is.
        [] => FleetKey::new(("", "")),
        [only] => FleetKey::new(Text(only, secret)),
        [first, rest @ ..] if !fits(rest) => {
            FleetKey::in_tenant(Text(first, secret), Long(rest, secret))
        }
        [first, rest @ ..] => {
            let rest: SmallVec<[Text<'_>; 4]> =
                rest.iter().map(|part| Text(part, secret)).collect();
            FleetKey::in_tenant(Text(first, secret), &rest[..])
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
    (fleet, secret): (&Fleet, Option<&KeySecret>),
    charges: &[PlainCharge<'_>],
    now: Tick,
    takes: bool,
) -> Later<PlainDecided> {
    let never = PlainDecided::never(charges, now);
    let Some(asked) = Asked::new(charges, |charge| key_of(charge.key, secret)) else {
        return Later::Here(never);
    };
    let rule = |limit| rule_of(limit).cloned();
    let rules = asked.once.iter().map(|one| Some((rule(one.limit)?, one.key, one.cost)));
    let rules: Option<SmallVec<[(SharedRule, FleetKey, u32); 1]>> = rules.collect();
    let Some(rules) = rules else { return Later::Here(never) };
    let (fleet, places) = (fleet.clone(), asked.places);
    Later::Asked(Box::pin(async move {
        let charges = rules.iter().map(|(rule, key, cost)| SharedCharge { rule, key, cost: *cost });
        let charges: SmallVec<[SharedCharge<'_>; 4]> = charges.collect();
        let is_many = MemoryStore::LIMITS_MAX < charges.len();
        let mut said = Said::default();
        if !takes || is_many {
            said = ask(&fleet, &charges, false).await;
        }
        if takes && said.verdict.passes() {
            said = ask(&fleet, &charges, true).await;
        }
        let each = places
            .iter()
            .zip(&never.each)
            .map(|(place, never)| said.each.get(*place).copied().unwrap_or(*never));
        PlainDecided { verdict: said.verdict, by: said.by, now, each: each.collect() }
    }))
}

/// What limits said, each asked once.
struct Said {
    verdict: Verdict,
    by: By,
    each: SmallVec<[Decision; 4]>,
}

impl Default for Said {
    /// Nobody has refused.
    fn default() -> Said {
        Said { verdict: Verdict::Allow, by: By::Store, each: SmallVec::new() }
    }
}

/// Asks as many at a time as are judged together.
async fn ask(fleet: &Fleet, charges: &[SharedCharge<'_>], takes: bool) -> Said {
    let mut said = Said::default();
    for some in charges.chunks(MemoryStore::LIMITS_MAX) {
        let decided = if takes { fleet.decide(some).await } else { fleet.peek(some).await };
        said.verdict = said.verdict.and(decided.verdict);
        if !said.by.is_fallback() {
            said.by = decided.by;
        }
        said.each.extend(decided.each);
    }
    said
}

pub(super) fn reset(
    (fleet, secret): (&Fleet, Option<&KeySecret>),
    limit: &PlainLimit,
    key: &[&[u8]],
) -> Later<Result<Vec<String>, StoreFailure>> {
    let (Some(rule), Some(key)) = (rule_of(limit).cloned(), key_of(key, secret)) else {
        return Later::Here(Err(no_key()));
    };
    let (fleet, name) = (fleet.clone(), limit.name().to_owned());
    Later::Asked(Box::pin(async move {
        let done = fleet.reset(&rule, &key).await;
        done.map(|()| vec![name]).map_err(|error| StoreFailure::new(error.to_string()))
    }))
}
