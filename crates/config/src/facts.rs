//! What is known of one request, looked up once and only when a rule asks.
//!
//! A value that is empty, or longer than anybody's name, counts as missing: what a rule does then
//! is written in the file, so nobody gets around a limit by sending something odd.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::net::IpAddr;
use std::sync::LazyLock;

use smallvec::SmallVec;
use tidegate_core::Tick;

use crate::address::Group;
use crate::api_keys::Presented;
use crate::attribute::Attribute;
use crate::identify::{Identify, Tiers};
use crate::matcher::Matcher;
use crate::path::Normal;
use crate::request::Request;
use crate::route::{ByRoute, Route};
use crate::token::Claims;

/// The most bytes of a value that says who somebody is.
pub(crate) const VALUE_BYTES_MAX: usize = 1_024;

/// A request, and what was found out about it.
pub struct Facts<'r, 'a> {
    pub(crate) identify: &'r Identify,
    pub(crate) request: &'a dyn Request,
    pub(crate) path: Normal<'a>,
    pub(crate) now: Tick,
    client: OnceCell<Option<IpAddr>>,
    group: OnceCell<Option<Group>>,
    pub(crate) claims: OnceCell<Option<Claims>>,
    pub(crate) api_key: OnceCell<Presented<'r>>,
    tiers: OnceCell<SmallVec<[usize; 1]>>,
    /// Whether its path is read in another way than the plain one.
    is_other: bool,
    /// This request by the next reading of its path: see [`Facts::readings`].
    next: Option<Box<Facts<'r, 'a>>>,
    pub(crate) route: Route,
}

/// A part of a key: an attribute and its value.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Part<'f> {
    /// Where the value is from, so that no value of one source is taken for that of another.
    pub source: &'f Attribute,
    /// The value.
    pub value: Value<'f>,
}

/// The value of an attribute.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Value<'f> {
    /// An address, or the network that counts as one.
    Address(Group),
    /// Anything else.
    Bytes(Cow<'f, [u8]>),
    /// Nothing: all requests without it count together.
    Missing,
}

/// The parts of a key. Most have one, a few have two.
pub type Parts<'f> = SmallVec<[Part<'f>; 2]>;

impl<'r, 'a> Facts<'r, 'a> {
    pub(crate) fn new(
        identify: &'r Identify,
        by_route: Option<ByRoute>,
        request: &'a dyn Request,
        now: Tick,
    ) -> Self {
        let mut route = Route::Any;
        if let Some(by_route) = by_route {
            route = by_route.find(request.method(), request.path());
            if matches!(route, Route::Known(_)) {
                let path = Normal::known(request.path());
                return Facts { route, ..Facts::by(path, identify, request, now) };
            }
        }
        let path = Normal::new(request.path(), identify.servers);
        if !path.is_disputed() {
            return Facts { route, ..Facts::by(path, identify, request, now) };
        }
        let mut readings = Normal::readings(request.path(), identify.servers);
        let first = readings.remove(0);
        let mut next = None;
        for other in readings.into_iter().rev() {
            let facts = Facts::by(other, identify, request, now);
            next = Some(Box::new(Facts { is_other: true, next, ..facts }));
        }
        Facts { next, route, ..Facts::by(first, identify, request, now) }
    }

    #[inline]
    fn by(path: Normal<'a>, identify: &'r Identify, request: &'a dyn Request, now: Tick) -> Self {
        let (client, group) = (OnceCell::new(), OnceCell::new());
        let (claims, tiers) = (OnceCell::new(), OnceCell::new());
        let (api_key, is_other, next, route) = (OnceCell::new(), false, None, Route::Any);
        Facts {
            identify,
            request,
            path,
            now,
            client,
            group,
            claims,
            api_key,
            tiers,
            is_other,
            next,
            route,
        }
    }

    /// The request by each way to read its path, this one first: nearly all have no other, and
    /// none has more than eight.
    ///
    /// Some applications follow `.` and `..`, and some route by what was sent; some take `%2F` for
    /// a slash, or cut `;x`. Rules are for a request if any reading says so, and let it pass only
    /// if all do.
    pub(crate) fn readings(&self) -> impl Iterator<Item = &Facts<'r, 'a>> {
        std::iter::successors(Some(self), |facts| facts.next.as_deref())
    }

    /// As [`Facts::readings`], without this one.
    #[inline]
    pub(crate) fn others(&self) -> impl Iterator<Item = &Facts<'r, 'a>> {
        std::iter::successors(self.next.as_deref(), |facts| facts.next.as_deref())
    }

    /// Whether there is more than one way to read its path.
    #[inline]
    pub(crate) fn has_others(&self) -> bool {
        self.next.is_some()
    }

    /// Whether this is not the first way to read its path.
    #[inline]
    pub(crate) fn is_other(&self) -> bool {
        self.is_other
    }

    /// When it came.
    pub fn now(&self) -> Tick {
        self.now
    }

    /// The client's address, past the proxies that the file trusts.
    pub(crate) fn client(&self) -> Option<IpAddr> {
        let proxies = &self.identify.proxies;
        if !proxies.believes_anybody() {
            // The peer that is connected: that is found as quickly as it is remembered.
            return self.request.peer().map(|peer| peer.to_canonical());
        }
        *self.client.get_or_init(|| {
            let mut lines: SmallVec<[&[u8]; 2]> = SmallVec::new();
            self.request.header_lines(proxies.header(), &mut |line| lines.push(line));
            proxies.client(self.request.peer(), lines.into_iter())
        })
    }

    /// The network that the client counts as.
    pub(crate) fn group(&self) -> Option<Group> {
        let group = || self.client().map(|client| self.identify.proxies.group(client));
        if !self.identify.proxies.believes_anybody() {
            return group();
        }
        *self.group.get_or_init(group)
    }

    /// The tier, by its place among the file's.
    pub(crate) fn tier(&self) -> usize {
        self.tiers().first().copied().unwrap_or(Tiers::DEFAULT)
    }

    /// Every tier that it may be of, [`Facts::tier`] first: nearly all have one. Of several values
    /// the application may take any, or none.
    pub(crate) fn tiers(&self) -> &[usize] {
        self.tiers.get_or_init(|| {
            let tiers = &self.identify.tiers;
            let (mut plain, mut others) = (Tiers::DEFAULT, SmallVec::<[usize; 1]>::new());
            for attribute in &tiers.from {
                let index =
                    |name: &[u8]| tiers.index(name, attribute.case()).unwrap_or(Tiers::DEFAULT);
                if let Some(name) = self.bytes(attribute, None) {
                    plain = index(&name);
                    break;
                }
                if self.says_too_much(attribute) {
                    others.extend(0..tiers.names.len());
                }
                let said = self.repeated(attribute).unwrap_or_default();
                others.extend(said.iter().filter(|it| !it.is_empty()).map(|it| index(it)));
            }
            others.retain(|other| *other != plain);
            others.sort_unstable();
            others.dedup();
            others.insert(0, plain);
            others
        })
    }

    /// Adds what `attribute` is of this request; whether there is anything. `within` is the match
    /// that gives names to segments of the path.
    pub(crate) fn push<'f>(
        &'f self,
        attribute: &'f Attribute,
        within: Option<&'f Matcher>,
        parts: &mut Parts<'f>,
    ) -> bool {
        match attribute {
            Attribute::Identity(index) => self.push_identity(*index, within, parts),
            Attribute::Fingerprint => self.push_fingerprint(parts),
            Attribute::Ip => {
                let Some(group) = self.group() else { return false };
                let value = Value::Address(group);
                parts.push(Part { source: attribute, value });
                true
            }
            Attribute::Ip6(bits) => {
                let Some(client) = self.client() else { return false };
                let value = Value::Address(self.identify.proxies.group_of(client, *bits));
                parts.push(Part { source: attribute, value });
                true
            }
            _ => {
                let Some(bytes) = self.bytes(attribute, within) else { return false };
                parts.push(Part { source: attribute, value: Value::Bytes(bytes) });
                true
            }
        }
    }

    fn push_identity<'f>(
        &'f self,
        index: usize,
        within: Option<&'f Matcher>,
        parts: &mut Parts<'f>,
    ) -> bool {
        let Some(alternatives) = self.identify.identities.get(index) else { return false };
        alternatives.iter().any(|all| self.push_all(all, within, parts))
    }

    /// Adds address, endpoint and user agent. Who sends no user agent is known by that, too.
    fn push_fingerprint<'f>(&'f self, parts: &mut Parts<'f>) -> bool {
        let [address @ .., user_agent] = &*FINGERPRINT;
        if !self.push_all(address, None, parts) {
            return false;
        }
        if !self.push(user_agent, None, parts) {
            parts.push(Part { source: user_agent, value: Value::Missing });
        }
        true
    }

    /// Adds all of them, or none.
    pub(crate) fn push_all<'f>(
        &'f self,
        all: &'f [Attribute],
        within: Option<&'f Matcher>,
        parts: &mut Parts<'f>,
    ) -> bool {
        let before = parts.len();
        let all_there = all.iter().all(|attribute| self.push(attribute, within, parts));
        if !all_there {
            parts.truncate(before);
        }
        all_there
    }
}

/// A host with one spelling: in lower case, and without dots at its end, of which a full name may
/// have one and some servers take any number.
pub(crate) fn plain_host(host: &str) -> String {
    host.trim().trim_end_matches('.').to_ascii_lowercase()
}

/// Whether it asks for what `GET` asks for, without its body.
pub(crate) fn is_head(method: &str) -> bool {
    method.eq_ignore_ascii_case("HEAD")
}

/// A method with one spelling: in upper case, as almost all are sent.
pub(crate) fn plain_method(method: &str) -> Cow<'_, [u8]> {
    if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return method.to_ascii_uppercase().into_bytes().into();
    }
    method.as_bytes().into()
}

/// What a fingerprint is made of.
pub(crate) static FINGERPRINT: LazyLock<[Attribute; 4]> = LazyLock::new(|| {
    [Attribute::Ip, Attribute::Method, Attribute::Path, Attribute::Header("user-agent".into())]
});

impl std::fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Address(group) => group.fmt(f),
            Value::Bytes(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            Value::Missing => f.write_str("(missing)"),
        }
    }
}

impl std::fmt::Debug for Facts<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Facts");
        debug
            .field("method", &self.request.method())
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
