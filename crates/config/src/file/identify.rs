//! `identify`: who a request is from.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::Reading;
use super::tables::{FORWARDED, IDENTIFY};
use crate::address::{self, Believes, Proxies};
use crate::attribute::{Attribute, instead_of};
use crate::identify::{Alternative, Identify};
use crate::lint::Lint;
use crate::misread::Misread;
use crate::problem::Span;
use crate::source::{Entry, Node, Value};
use crate::suggest::did_you_mean;

/// The most parts of an identity, and of a key.
pub(super) const PARTS_MAX: usize = 16;
/// The most attributes that are looked at to find out who somebody is.
const TRIES_MAX: usize = 256;
/// The most names under `identify`.
const NAMES_MAX: usize = 256;

/// How much an identity is made of: identities in identities multiply.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Size {
    /// Of how many parts it may be.
    parts: BTreeSet<usize>,
    /// How many attributes are looked at.
    tries: usize,
}

impl Reading<'_> {
    pub(super) fn read_identify(
        &mut self,
        identify: Option<&Node>,
        [api_keys, jwt, tiers]: [Option<&Node>; 3],
    ) -> Identify {
        let api_keys = api_keys.and_then(|node| self.read_api_keys(node));
        let mut read = Identify { api_keys, ..Identify::default() };
        (read.tokens, read.token_in) = jwt.map_or((None, None), |node| self.read_jwt(node));
        self.check_place_of_keys(&read);
        let entries = identify.and_then(|node| node.map("identify", &mut self.problems));
        let mut entries = entries.unwrap_or_default();
        let is_name = |entry: &&Entry| !is_setting(&entry.name);
        if NAMES_MAX < entries.len() {
            let at = identify.map(|node| node.at).unwrap_or_default();
            let message = format!("`identify` has {} names", entries.len());
            self.problems.error(at, message).help(format!("give at most {NAMES_MAX}"));
            entries = &[];
        }
        let has_client = entries.iter().any(|entry| entry.name == "client");
        self.identities = if has_client { Vec::new() } else { vec!["client".into()] };
        self.sizes = if has_client { Vec::new() } else { vec![Size::of_one(1)] };
        let named: Vec<&Entry> = entries.iter().filter(is_name).collect();
        self.identities.extend(named.iter().map(|entry| Box::from(&*entry.name)));
        read.names.clone_from(&self.identities);
        read.identities = vec![vec![vec![Attribute::Ip]]; self.sizes.len()];
        for entry in named {
            let alternatives = if self.read_name_of_identity(entry, has_client) {
                self.read_identity(&entry.node, read.identities.len())
            } else {
                Vec::new()
            };
            let size = self.size_of(entry, &alternatives);
            self.sizes.push(size);
            read.identities.push(alternatives);
        }
        self.made_of.clone_from(&read.identities);
        read.proxies = self.read_proxies(entries);
        self.proxies = read.proxies.clone();
        self.read_tiers(tiers);
        read
    }

    /// Whether what stands under this name is to be read. A name of the file's own must not hide
    /// one of ours, and is none if it is nearly a setting.
    fn read_name_of_identity(&mut self, entry: &Entry, has_client: bool) -> bool {
        let name = &*entry.name;
        if name == "client" {
            return true;
        }
        let settings = IDENTIFY.fields.iter().map(|field| field.name);
        match did_you_mean(name, settings) {
            Some("client") if !has_client => {
                let message =
                    format!("`{name}` is a name of your own, and `client` is the address");
                let problem = self.problems.lint(Lint::AlmostClient, entry.name_at, message);
                problem.help("did you mean `client`?");
            }
            None | Some("client") => {}
            Some(near) => {
                let message = format!("unknown field `{name}` in `identify`");
                let problem = self.problems.error(entry.name_at, message);
                problem.help(format!("did you mean `{near}`?"));
                return false;
            }
        }
        let is_ours = crate::attribute::PLAIN.contains(&name);
        if is_ours || name.contains([':', '{', '}']) || name.is_empty() {
            let message = format!("`{name}` cannot be the name of an identity");
            let problem = self.problems.error(entry.name_at, message);
            problem.help("choose a word that is no attribute and has no colon in it");
            return false;
        }
        true
    }

    /// The first alternative that is present counts; a list within the list is all of it together.
    fn read_identity(&mut self, node: &Node, index: usize) -> Vec<Alternative> {
        let mut identity = Vec::new();
        for alternative in self.read_filled(node) {
            self.read_filled(alternative);
            let all = self.read_together(alternative).iter();
            let all = all.filter_map(|one| self.read_who(one, index)).collect();
            identity.push(all);
        }
        identity
    }

    /// Attributes that count together, as a key or as a part of an identity: not too many.
    pub(super) fn read_together<'n>(&mut self, node: &'n Node) -> &'n [Node] {
        let nodes = node.one_or_more();
        if PARTS_MAX < nodes.len() {
            let message = format!("{} attributes are too many to count together", nodes.len());
            self.problems.error(node.at, message).help(format!("use at most {PARTS_MAX}"));
        }
        nodes.get(..PARTS_MAX).unwrap_or(nodes)
    }

    /// What is in a list, or the node itself; something has to be there.
    pub(super) fn read_filled<'n>(&mut self, node: &'n Node) -> &'n [Node] {
        let nodes = node.one_or_more();
        if nodes.is_empty() {
            self.problems.error(node.at, "the list is empty").help("put something in it");
        }
        nodes
    }

    fn read_who(&mut self, node: &Node, index: usize) -> Option<Attribute> {
        let attribute = self.read_attribute(node)?;
        self.check_identity(&attribute, node.at);
        match attribute {
            Attribute::Identity(other) if index <= other => {
                let (name, other) = (&self.identities[index], &self.identities[other]);
                let message =
                    format!("`{name}` cannot be made of `{other}`, which is not above it");
                let problem = self.problems.error(node.at, message);
                problem.help("refer only to identities that stand above");
                None
            }
            Attribute::Tier | Attribute::Named(_) => {
                let message = format!("`{attribute}` says nothing about who somebody is");
                self.problems.error(node.at, message).help("leave it out");
                None
            }
            _ => Some(attribute),
        }
    }

    /// How much an identity is made of; one that is too much counts as one part.
    fn size_of(&mut self, entry: &Entry, identity: &[Alternative]) -> Size {
        let mut size = Size { parts: BTreeSet::new(), tries: 0 };
        for all in identity {
            let Size { parts, tries } = self.size_of_all(all);
            size.parts.extend(parts);
            size.tries = size.tries.saturating_add(tries);
        }
        let is_too_much = size.parts.last().is_some_and(|most| PARTS_MAX < *most);
        if is_too_much || TRIES_MAX < size.tries {
            let message = format!("`{}` is made of too much", entry.name);
            let problem = self.problems.error(entry.name_at, message);
            problem.help(format!(
                "use at most {PARTS_MAX} parts together, and {TRIES_MAX} attributes in all"
            ));
            return Size::of_one(1);
        }
        size
    }

    /// How much attributes are together.
    pub(super) fn size_of_all(&self, all: &[Attribute]) -> Size {
        let mut size = Size { parts: BTreeSet::from([0]), tries: 0 };
        for attribute in all {
            let more = match attribute {
                Attribute::Fingerprint => Size::of_one(4),
                Attribute::Identity(index) => {
                    self.sizes.get(*index).cloned().unwrap_or(Size::of_one(1))
                }
                _ => Size::of_one(1),
            };
            // One more than is accepted stands for all that is more.
            let sum = |(one, other): (&usize, &usize)| (one + other).min(PARTS_MAX + 1);
            let pairs =
                size.parts.iter().flat_map(|one| more.parts.iter().map(move |it| (one, it)));
            size = Size {
                parts: pairs.map(sum).collect(),
                tries: size.tries.saturating_add(more.tries),
            };
        }
        size
    }

    pub(super) fn read_attribute(&mut self, node: &Node) -> Option<Attribute> {
        if let Some(meant) = as_text(node) {
            let problem = self.problems.error(node.at, "an attribute is a text, not a map");
            problem.help(format!("write `{meant}`"));
            return None;
        }
        let text = node.text("an attribute", &mut self.problems)?;
        match Attribute::parse(text, &self.identities) {
            Ok(attribute) => {
                self.needs_source(&attribute, node.at);
                Some(attribute)
            }
            Err(Misread { message, help }) => {
                let names = &self.identities;
                self.problems.misread(node.at, || {
                    Misread::new(message, help.unwrap_or_else(|| instead_of(text, names)))
                });
                None
            }
        }
    }

    /// A claim is only worth something if somebody checks it, and a key if it was given out. Said
    /// once.
    pub(super) fn needs_source(&mut self, attribute: &Attribute, at: Span) {
        if matches!(attribute, Attribute::Claim(_)) && !self.has_tokens {
            self.has_tokens = true;
            let problem = self.problems.error(at, "nothing says how to check tokens");
            problem.help("add `jwt:` with a `secret_env`, a `key_file` or a `jwks_file`");
        }
        let is_key = matches!(attribute, Attribute::ApiKey | Attribute::ApiKeyOwner(_));
        if is_key && self.keys_at.is_none() {
            self.keys_at = Some(at);
            let problem = self.problems.error(at, "nothing says which API keys are known");
            problem.help("add `api_keys: { header: x-api-key, file: keys.yaml }` to the file");
        }
    }

    fn read_proxies(&mut self, entries: &[Entry]) -> Proxies {
        let mut proxies = Proxies::default();
        let field = |name: &str| entries.iter().find(|it| it.name == name).map(|it| &it.node);
        if let Some(node) = field("trusted_proxies") {
            proxies.trusted = self.read_networks(node);
            self.warn_of_trust(node, &proxies.trusted);
        }
        if let Some(node) = field("forwarded_by") {
            let choice = node.choice("forwarded_by", &FORWARDED, &mut self.problems);
            proxies.believes = match choice {
                Some("forwarded") => Believes::Forwarded,
                _ => Believes::XForwardedFor,
            };
        }
        let mut prefix = |name: &str, max: u64, usual: u8| {
            let count = |node: &Node| node.count(name, 1..=max, &mut self.problems);
            let bits = field(name).and_then(count).and_then(|bits| u8::try_from(bits).ok());
            bits.unwrap_or(usual)
        };
        proxies.ipv4_prefix = prefix("ipv4_prefix", 32, 32);
        proxies.ipv6_prefix = prefix("ipv6_prefix", 128, 64);
        proxies
    }

    fn warn_of_trust(&mut self, node: &Node, trusted: &[IpNet]) {
        if let Some(all) = trusted.iter().find(|network| is_too_large(network)) {
            let message =
                format!("`{all}` is far too large: any client in it can forge its address");
            let problem = self.problems.lint(Lint::TrustsEverybody, node.at, message);
            problem.help("name only the networks of your own proxies");
        }
    }

    pub(super) fn read_networks(&mut self, node: &Node) -> Vec<IpNet> {
        let mut networks = Vec::new();
        for one in self.read_filled(node) {
            let Some(text) = one.text("a network", &mut self.problems) else { continue };
            match address::networks(text) {
                Ok(named) => networks.extend(named),
                Err(misread) => self.misread(one.at, misread),
            }
        }
        networks
    }

    pub(super) fn misread(&mut self, at: Span, misread: Misread) {
        let problem = self.problems.error(at, misread.message);
        if let Some(help) = misread.help {
            problem.help(help);
        }
    }
}

impl Size {
    /// Always of so many parts.
    fn of_one(parts: usize) -> Size {
        Size { parts: BTreeSet::from([parts]), tries: parts }
    }

    pub(super) fn parts(&self) -> &BTreeSet<usize> {
        &self.parts
    }
}

/// `{ header: x-api-key }`, as it should have been written.
fn as_text(node: &Node) -> Option<String> {
    let Value::Map(entries) = &node.value else { return None };
    let [Entry { name, node, .. }] = &entries[..] else { return None };
    let Value::Text(value) = &node.value else { return None };
    let is_kind = crate::attribute::WITH_NAME.contains(&&**name);
    is_kind.then(|| format!("{name}:{}", crate::problem::shortened(value)))
}

/// Whether a network is larger than any that belongs to somebody, and not private.
fn is_too_large(network: &IpNet) -> bool {
    match network {
        IpNet::V4(network) => network.prefix_len() < 8,
        IpNet::V6(network) => {
            let is_private = network.network().octets()[0] & 0xfe == 0xfc;
            network.prefix_len() < if is_private { 7 } else { 16 }
        }
    }
}

/// Whether a name under `identify` is one of ours.
fn is_setting(name: &str) -> bool {
    name != "client" && IDENTIFY.fields.iter().any(|field| field.name == name)
}
