//! Which keys have a quota of their own, as requests bring them.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::attribute::Attribute;
use crate::facts::{Part, Parts, Value};
use crate::overrides::Overridden;
use crate::rule::Rule;
use crate::rules::Rules;

impl Rules {
    /// The keys that have a quota of their own under a rule, from every source that they can be
    /// from.
    pub fn overridden(&self, rule: usize) -> Vec<Parts<'_>> {
        let Some(limit) = self.list.get(rule).and_then(Rule::limit) else { return Vec::new() };
        let by_values = limit.overrides.by_values.iter();
        let mut named: Vec<(&[u8], &Overridden)> =
            by_values.flat_map(|(values, all)| all.iter().map(|one| (&**values, one))).collect();
        // In one order, whatever the map's.
        named.sort_unstable_by_key(|(_, one)| one.variant);
        named.into_iter().filter_map(|(key, one)| self.parts(&one.sources, key)).collect()
    }

    /// Every tier that these rules or those before them know, by its places: before, and now. One
    /// that either does not know has the place of the default.
    pub fn tiers_since(&self, before: &Rules) -> Vec<(usize, usize)> {
        let (had, has) = (&before.identify.tiers.names, &self.identify.tiers.names);
        let place = |names: &[Box<str>]| -> HashMap<Box<str>, usize> {
            names.iter().cloned().zip(0..).collect()
        };
        let (before, now) = (place(had), place(has));
        let at = |places: &HashMap<Box<str>, usize>, name| places.get(name).copied().unwrap_or(0);
        let mut tiers = vec![(0, 0)];
        tiers.extend(had.iter().chain(has).map(|name| (at(&before, name), at(&now, name))));
        tiers.sort_unstable();
        tiers.dedup();
        tiers
    }

    fn parts<'r>(&'r self, sources: &'r [Attribute], key: &'r [u8]) -> Option<Parts<'r>> {
        sources.iter().zip(values(key)).map(|(source, value)| self.part(source, value)).collect()
    }

    fn part<'r>(&self, source: &'r Attribute, value: &'r [u8]) -> Option<Part<'r>> {
        let bits = match source {
            Attribute::Ip => 128,
            Attribute::Ip6(bits) => *bits,
            _ => return Some(Part { source, value: Value::Bytes(value.into()) }),
        };
        let text = str::from_utf8(value).ok()?;
        let address: IpAddr = text.split('/').next()?.parse().ok()?;
        Some(Part { source, value: Value::Address(self.identify.proxies.group_of(address, bits)) })
    }
}

impl Rule {
    /// Which of its variants may be for a key, by their place: its own, or otherwise those of the
    /// tiers.
    pub fn variants_of(&self, key: &[Part<'_>]) -> Vec<usize> {
        let Some(limit) = self.limit() else { return Vec::new() };
        if let Some(own) = limit.overrides.of(key) {
            return vec![own];
        }
        self.variants_of_tiers()
    }

    /// The variants that are not of single keys, by their places.
    pub fn variants_of_tiers(&self) -> Vec<usize> {
        let Some(limit) = self.limit() else { return Vec::new() };
        let mut tiers = limit.by_tier.clone();
        tiers.sort_unstable();
        tiers.dedup();
        if tiers.is_empty() { vec![0] } else { tiers }
    }

    /// The variant of a tier, both by their places; `None` if the rule has no limits.
    pub fn variant_of_tier(&self, tier: usize) -> Option<usize> {
        let limit = self.limit()?;
        Some(limit.by_tier.get(tier).copied().unwrap_or_else(|| self.usual_variant()))
    }

    /// The variant for requests that say nothing of their tier, by its place.
    pub fn usual_variant(&self) -> usize {
        self.limit().and_then(|limit| limit.by_tier.first()).copied().unwrap_or(0)
    }
}

/// The values of a key, as `Overrides::add` puts them together.
fn values(mut key: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = key.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (value, rest) = rest.split_at_checked(length)?;
        key = rest;
        Some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(policy: &str) -> Vec<String> {
        let rules = Rules::from_text(policy).unwrap().rules;
        let part = |part: &Part<'_>| format!("{}={}", part.source, part.value);
        let text = |key: Parts<'_>| key.iter().map(part).collect::<Vec<_>>().join(" ");
        let mut keys: Vec<String> = rules.overridden(0).into_iter().map(text).collect();
        keys.sort();
        keys
    }

    #[test]
    fn a_value_may_be_from_any_source_but_an_address_is_one() {
        let keys = keys(
            "{ identify: { client: [header:x-api-key, [ip, path]], who: [client, 'query:id', ip] },
               rules: [{ name: r, key: who, limit: 1/s,
                         overrides: { acme: 2/s, '192.0.2.1': 2/s, '2001:db8::1': 2/s } }] }",
        );
        let expected =
            ["header:x-api-key=acme", "ip=192.0.2.1", "ip=2001:db8::/64", "query:id=acme"];
        assert_eq!(keys, expected);
    }

    #[test]
    fn each_part_may_be() {
        let keys = keys(
            "{ identify: { client: [header:a, header:b] },
               rules: [{ name: r, key: [client, path], limit: 1/s,
                         overrides: [{ key: [acme, /x], limit: 2/s }] }] }",
        );
        assert_eq!(keys, ["header:a=acme path=/x", "header:b=acme path=/x"]);
        assert_eq!(
            self::keys(
                "rules: [{ name: r, key: fingerprint, limit: 1/s,
                           overrides: [{ key: [192.0.2.1, GET, /x, curl], limit: 2/s }] }]"
            ),
            ["ip=192.0.2.1 method=GET path=/x header:user-agent=curl"]
        );
    }
}
