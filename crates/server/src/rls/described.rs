//! A descriptor as a request: what rules of our own policy see of it.
//!
//! Entries are attributes by their keys, and so is the domain. Some keys mean more: those that
//! Envoy itself gives to addresses, and those that are named like parts of a request.

use std::borrow::Cow;
use std::net::IpAddr;

use smallvec::SmallVec;
use tidegate_gate::{Request, without_port};

use super::proto::Entry;
use crate::legible;

/// A descriptor of a domain.
#[derive(Debug)]
pub(super) struct Described<'a> {
    domain: &'a str,
    entries: SmallVec<[Said<'a>; 8]>,
    cost: Option<u32>,
}

/// An entry. Rules look at texts: in those, bytes that are no UTF-8 are all the same sign.
#[derive(Debug)]
struct Said<'a> {
    key: Cow<'a, str>,
    text: Cow<'a, str>,
    bytes: &'a [u8],
}

impl<'a> Described<'a> {
    pub(super) fn new(domain: &'a str, entries: &'a [Entry], cost: Option<u32>) -> Described<'a> {
        let said = |entry: &'a Entry| Said {
            key: legible::text(&entry.key),
            text: legible::text(&entry.value),
            bytes: &entry.value,
        };
        Described { domain, entries: entries.iter().map(said).collect(), cost }
    }

    /// The value of the first entry that has one of these keys.
    fn value(&self, keys: &[&str]) -> Option<&str> {
        let found = self.entries.iter().find(|entry| keys.contains(&&*entry.key));
        found.map(|entry| &*entry.text)
    }

    fn target(&self) -> &str {
        self.value(&[":path", "path"]).unwrap_or_default()
    }

    /// The values of a header, from entries with keys such as `header:x-api-key`.
    fn headers(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let of_name = move |entry: &&Said<'_>| {
            let header = entry.key.strip_prefix("header:");
            header.is_some_and(|header| header.eq_ignore_ascii_case(name))
        };
        self.entries.iter().filter(of_name).map(|entry| entry.bytes)
    }
}

impl Request for Described<'_> {
    fn method(&self) -> &str {
        self.value(&[":method", "method"]).unwrap_or_default()
    }

    fn host(&self) -> &str {
        without_port(self.value(&[":authority", "host"]).unwrap_or_default())
    }

    fn path(&self) -> &str {
        let target = self.target();
        target.split_once('?').map_or(target, |(path, _)| path)
    }

    fn query(&self) -> Option<&str> {
        self.target().split_once('?').map(|(_, query)| query)
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers(name).next()
    }

    fn header_lines<'a>(&'a self, name: &str, each: &mut dyn FnMut(&'a [u8])) {
        for value in self.headers(name) {
            each(value);
        }
    }

    fn peer(&self) -> Option<IpAddr> {
        if let Some(address) = self.value(&["remote_address"]) {
            return legible::address(address);
        }
        // As in `10.1.2.0/24`: all of it is one client.
        let masked = self.value(&["masked_remote_address"])?;
        legible::address(masked.split('/').next()?)
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        let own = self.value(&[name]);
        own.or((name == "domain").then_some(self.domain))
    }

    fn cost(&self) -> Option<u32> {
        self.cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(pairs: &[(&str, &str)]) -> Vec<Entry> {
        pairs
            .iter()
            .map(|(key, value)| Entry { key: (*key).into(), value: (*value).into() })
            .collect()
    }

    #[test]
    fn well_known_keys_are_parts_of_a_request() {
        let entries = entries(&[
            (":method", "GET"),
            (":path", "/a?b=c"),
            (":authority", "a.example:443"),
            ("header:X-Api-Key", "secret"),
            ("remote_address", "192.0.2.1"),
            ("plan", "free"),
        ]);
        let request = Described::new("web", &entries, None);
        assert_eq!((request.method(), request.path()), ("GET", "/a"));
        assert_eq!((request.query(), request.host()), (Some("b=c"), "a.example"));
        assert_eq!(request.header("x-api-key"), Some(&b"secret"[..]));
        assert_eq!(request.peer(), Some([192, 0, 2, 1].into()));
        assert_eq!(request.attribute("plan"), Some("free"));
        assert_eq!((request.attribute("domain"), request.attribute("tier")), (Some("web"), None));
    }

    #[test]
    fn a_zone_is_no_part_of_an_address() {
        let entries = entries(&[("remote_address", "fe80::1%eth0")]);
        let request = Described::new("web", &entries, None);
        assert_eq!(request.peer(), Some("fe80::1".parse().unwrap()));
    }

    #[test]
    fn a_masked_address_is_the_address_of_its_network() {
        for (masked, address) in [
            ("10.1.2.0/24", "10.1.2.0"),
            ("2001:db8::/64", "2001:db8::"),
            ("fe80::%eth0/64", "fe80::"),
        ] {
            let entries = entries(&[("masked_remote_address", masked)]);
            let request = Described::new("web", &entries, None);
            assert_eq!(request.peer(), Some(address.parse().unwrap()));
        }
    }

    #[test]
    fn a_descriptor_that_says_little_is_a_request_without_the_rest() {
        let entries = entries(&[("remote_address", "nowhere")]);
        let request = Described::new("web", &entries, None);
        assert_eq!((request.method(), request.path(), request.host()), ("", "", ""));
        assert_eq!((request.peer(), request.query()), (None, None));
    }

    #[test]
    fn bytes_that_are_no_text_are_there_for_all_rules() {
        let entry = |key: &str| Entry { key: key.into(), value: b"/\xff?\xfe".into() };
        let entries = ["path", "plan", "header:x-api-key"].map(entry);
        let request = Described::new("web", &entries, None);
        assert_eq!((request.path(), request.query()), ("/\u{fffd}", Some("\u{fffd}")));
        assert_eq!(request.attribute("plan"), Some("/\u{fffd}?\u{fffd}"));
        assert_eq!(request.header("x-api-key"), Some(&b"/\xff?\xfe"[..]));
    }
}
