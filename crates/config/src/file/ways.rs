//! What a key may be made of, and which keys an override names.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Reading;
use super::identify::PARTS_MAX;
use crate::attribute::Attribute;
use crate::facts::{FINGERPRINT, plain_host, plain_method};
use crate::path::{Case, Normal, Servers, key_spelling};
use crate::repeated::{has_scheme, plain_cookie, plain_scheme};

/// Single attributes that a key may be made of, in order.
pub(super) type Way = Vec<Attribute>;

/// Where each value of a key is from, and the values as requests have them.
pub(super) type NamedKey = (Way, Vec<String>);

/// The most ways of one key, where single ones have a quota of their own.
pub(super) const WAYS_MAX: usize = 64;

impl Reading<'_> {
    /// All ways in which a key may be made of its attributes; `None` if they are too many.
    pub(super) fn ways(&self, key: &[Attribute]) -> Option<Vec<Way>> {
        let mut ways = vec![Way::new()];
        for attribute in key {
            let more = self.ways_of(attribute)?;
            if WAYS_MAX < ways.len() * more.len() {
                return None;
            }
            let longer = |way: &Way| -> Vec<Way> {
                more.iter().map(|more| [&way[..], &more[..]].concat()).collect()
            };
            ways = ways.iter().flat_map(longer).collect();
            // That is refused elsewhere.
            if ways.iter().any(|way| PARTS_MAX < way.len()) {
                return None;
            }
        }
        Some(ways)
    }

    fn ways_of(&self, attribute: &Attribute) -> Option<Vec<Way>> {
        match attribute {
            Attribute::Fingerprint => Some(vec![FINGERPRINT.to_vec()]),
            Attribute::Identity(index) => {
                let mut ways = Vec::new();
                for all in self.made_of.get(*index).into_iter().flatten() {
                    ways.extend(self.ways(all)?);
                }
                (ways.len() <= WAYS_MAX).then_some(ways)
            }
            _ => Some(vec![vec![attribute.clone()]]),
        }
    }

    /// The keys that these values may be, one for each way at most.
    pub(super) fn keys_named(&self, ways: &[&Way], values: &[String]) -> Vec<NamedKey> {
        let key = |way: &&Way| {
            let spelled = way.iter().zip(values).enumerate().map(|(place, (source, value))| {
                let others = ways.iter().filter_map(|way| way.get(place));
                self.spelled(source, value, others)
            });
            Some(((*way).clone(), spelled.collect::<Option<Vec<String>>>()?))
        };
        let mut keys: Vec<NamedKey> = ways.iter().filter_map(key).collect();
        // Alternatives may say the same twice.
        let mut known: Vec<NamedKey> = Vec::new();
        keys.retain(|key| {
            let is_new = !known.contains(key);
            if is_new {
                known.push(key.clone());
            }
            is_new
        });
        keys
    }

    /// A value as requests have it from `source`; `None` if it cannot be from there. `others` are
    /// all sources that the part may be from.
    fn spelled<'a>(
        &self,
        source: &Attribute,
        value: &str,
        mut others: impl Iterator<Item = &'a Attribute> + Clone,
    ) -> Option<String> {
        let after = |source: &Attribute| value.strip_prefix(&source.to_string())?.strip_prefix('=');
        let (value, is_sure) = match after(source) {
            Some(value) => (value, true),
            // From another source, which it names.
            None if others.clone().any(|other| after(other).is_some()) => return None,
            None => (value, false),
        };
        Some(match source {
            Attribute::Ip => return self.address(value, 128),
            Attribute::Ip6(bits) => return self.address(value, *bits),
            // An address is no name: otherwise a client that sends an address as its name would
            // have the quota of that address.
            _ if !is_sure
                && others.any(|it| matches!(it, Attribute::Ip | Attribute::Ip6(_)))
                && self.address(value, 128).is_some() =>
            {
                return None;
            }
            Attribute::Cookie(_) => text(&plain_cookie(value.as_bytes())),
            Attribute::Header(name) if has_scheme(name) => text(&plain_scheme(value.as_bytes())),
            Attribute::Host => plain_host(value),
            Attribute::Method => text(&plain_method(value)),
            Attribute::Path => Normal::new(value, self.servers).text(Case::Ignored).to_owned(),
            Attribute::Named(_) | Attribute::Segment(_) if self.servers == Servers::Any => {
                key_spelling(value)
            }
            _ => value.to_owned(),
        })
    }

    /// The group of an address, or the group itself.
    fn address(&self, value: &str, bits: u8) -> Option<String> {
        if let Ok(address) = value.parse::<IpAddr>() {
            return Some(self.proxies.group_of(address, bits).to_string());
        }
        let network: IpNet = value.parse().ok()?;
        let group = self.proxies.group_of(network.network(), bits).to_string();
        (group == network.trunc().to_string()).then_some(group)
    }
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}
