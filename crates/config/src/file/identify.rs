//! `identify`, `jwt` and `tiers`: who a request is from.

use tidegate_core::Span as Time;

use super::Reading;
use super::tables::{FORWARDED, IDENTIFY, JWT, TIERS};
use crate::address::{self, Believes, Proxies};
use crate::attribute::Attribute;
use crate::identify::{Alternative, Identify};
use crate::misread::Misread;
use crate::problem::Span;
use crate::quantity;
use crate::read::Fields;
use crate::source::{Entry, Node};
use crate::token::{KeySource, TokenSettings, Tokens};
use ipnet::IpNet;

impl Reading<'_> {
    pub(super) fn read_identify(
        &mut self,
        identify: Option<&Node>,
        jwt: Option<&Node>,
        tiers: Option<&Node>,
    ) -> Identify {
        let mut read = Identify::default();
        (read.tokens, read.token_in) = jwt.map_or((None, None), |node| self.read_jwt(node));
        self.has_tokens = read.tokens.is_some();
        let entries = identify.and_then(|node| node.map("identify", &mut self.problems));
        let entries = entries.unwrap_or_default();
        let is_name = |entry: &&Entry| entry.name != "client" && !is_setting(&entry.name);
        self.identities.extend(entries.iter().filter(is_name).map(|it| (*it.name).into()));
        read.names.clone_from(&self.identities);
        read.identities = vec![vec![vec![Attribute::Ip]]; read.names.len()];
        for entry in entries {
            if let Some(index) = read.names.iter().position(|name| **name == *entry.name) {
                self.own_name(entry);
                read.identities[index] = self.read_identity(&entry.node, index);
            }
        }
        read.proxies = self.read_proxies(entries);
        self.read_tiers(tiers);
        read
    }

    /// A name of the file's own must not hide one of ours.
    fn own_name(&mut self, entry: &Entry) {
        let is_ours = crate::attribute::PLAIN.contains(&&*entry.name) && entry.name != "client";
        if is_ours || entry.name.contains([':', '{', '}']) || entry.name.is_empty() {
            let message = format!("`{}` cannot be the name of an identity", entry.name);
            let problem = self.problems.error(entry.name_at, message);
            problem.help("choose a word that is no attribute and has no colon in it");
        }
    }

    /// The first alternative that is present counts; a list within the list is all of it together.
    fn read_identity(&mut self, node: &Node, index: usize) -> Vec<Alternative> {
        let alternatives = node.one_or_more().iter();
        alternatives
            .map(|alternative| {
                let all = alternative.one_or_more().iter();
                all.filter_map(|one| {
                    let attribute = self.read_attribute(one)?;
                    if matches!(attribute, Attribute::Identity(other) if index <= other) {
                        let problem = self.problems.error(one.at, "an identity made of itself");
                        problem.help("refer only to identities that stand above");
                        return None;
                    }
                    if matches!(attribute, Attribute::Tier | Attribute::Named(_)) {
                        let message = format!("`{attribute}` says nothing about who somebody is");
                        self.problems.error(one.at, message).help("leave it out");
                        return None;
                    }
                    Some(attribute)
                })
                .collect()
            })
            .collect()
    }

    pub(super) fn read_attribute(&mut self, node: &Node) -> Option<Attribute> {
        let text = node.text("an attribute", &mut self.problems)?;
        match Attribute::parse(text, &self.identities) {
            Ok(attribute) => {
                self.needs_tokens(&attribute, node.at);
                Some(attribute)
            }
            Err(wrong) => {
                self.problems.error(node.at, wrong);
                None
            }
        }
    }

    /// A claim is only worth something if somebody checks it.
    pub(super) fn needs_tokens(&mut self, attribute: &Attribute, at: Span) {
        if matches!(attribute, Attribute::Claim(_)) && !self.has_tokens {
            let problem = self.problems.error(at, "nothing says how to check tokens");
            problem.help("add `jwt:` with a `secret_env`, a `key_file` or a `jwks_file`");
        }
    }

    fn read_proxies(&mut self, entries: &[Entry]) -> Proxies {
        let mut proxies = Proxies::default();
        let field = |name: &str| entries.iter().find(|it| it.name == name).map(|it| &it.node);
        if let Some(node) = field("trusted_proxies") {
            proxies.trusted = self.read_networks(node);
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

    pub(super) fn read_networks(&mut self, node: &Node) -> Vec<IpNet> {
        let mut networks = Vec::new();
        for one in node.one_or_more() {
            let Some(text) = one.text("a network", &mut self.problems) else { continue };
            match address::networks(text) {
                Ok(named) => networks.extend(named),
                Err(misread) => self.misread(one.at, misread),
            }
        }
        networks
    }

    fn read_tiers(&mut self, node: Option<&Node>) {
        let fields = node.and_then(|node| Fields::of(node, &TIERS, &mut self.problems));
        let Some(fields) = fields else { return };
        if let Some(header) = fields.get("header")
            && let Some(name) = header.text("header", &mut self.problems)
        {
            self.tiers.from.push(Attribute::Header(name.to_ascii_lowercase().into()));
        }
        for one in fields.get("from").map_or(&[][..], Node::one_or_more) {
            if let Some(attribute) = self.read_attribute(one) {
                self.tiers.from.push(attribute);
            }
        }
        if self.tiers.from.is_empty() {
            let problem =
                self.problems.error(fields.at(), "nothing says which tier a request is of");
            problem.help("add `header: x-tier`, or `from: jwt:tier`");
        }
        let default = fields.required("default", &mut self.problems);
        if let Some(name) = default.and_then(|node| node.scalar("default", &mut self.problems)) {
            self.tiers.names.push((*name).into());
        }
        for one in fields.get("names").map_or(&[][..], Node::one_or_more) {
            if let Some(name) = one.scalar("names", &mut self.problems)
                && self.tiers.index(name.as_bytes()).is_none()
            {
                self.tiers.names.push((*name).into());
            }
            self.tiers_are_known = true;
        }
    }

    /// The place of a tier that a rule names.
    pub(super) fn tier(&mut self, name: &str, at: Span) -> usize {
        if let Some(index) = self.tiers.index(name.as_bytes()) {
            return index;
        }
        if self.tiers.names.is_empty() {
            let problem = self.problems.error(at, "nothing says which tier a request is of");
            problem.help("add `tiers: { header: x-tier, default: free }` to the file");
        } else if self.tiers_are_known {
            let names = self.tiers.names.iter().map(|name| &**name);
            let near = crate::suggest::did_you_mean(name, names).map(str::to_owned);
            let problem = self.problems.error(at, format!("there is no tier `{name}`"));
            problem.help(match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "add it to the `names` under `tiers`".to_owned(),
            });
        }
        if self.tiers.names.is_empty() {
            // Whatever comes first is the default; there is an error for it already.
            self.tiers.names.push(name.into());
            return 0;
        }
        self.tiers.names.push(name.into());
        self.tiers.names.len() - 1
    }

    pub(super) fn misread(&mut self, at: Span, misread: Misread) {
        let problem = self.problems.error(at, misread.message);
        if let Some(help) = misread.help {
            problem.help(help);
        }
    }

    /// A length of time.
    pub(super) fn read_duration(&mut self, node: &Node, what: &str) -> Option<Time> {
        let text = node.scalar(what, &mut self.problems)?;
        match quantity::duration(&text) {
            Ok(time) => Some(time),
            Err(misread) => {
                self.misread(node.at, misread);
                None
            }
        }
    }

    fn read_jwt(&mut self, node: &Node) -> (Option<Tokens>, Option<Attribute>) {
        let Some(fields) = Fields::of(node, &JWT, &mut self.problems) else { return (None, None) };
        let token_in = match fields.get("in") {
            Some(node) => self.read_attribute(node),
            None => Some(Attribute::Header("authorization".into())),
        };
        if !matches!(token_in, None | Some(Attribute::Header(_) | Attribute::Cookie(_))) {
            let problem = self.problems.error(fields.at(), "a token is in a header or a cookie");
            problem.help("write `in: header:authorization` or `in: cookie:NAME`");
        }
        let settings = self.read_token_settings(&fields);
        match Tokens::new(settings) {
            Ok(tokens) => (Some(tokens), token_in),
            Err(misread) => {
                self.misread(fields.at(), misread);
                (None, token_in)
            }
        }
    }

    fn read_token_settings(&mut self, fields: &Fields<'_>) -> TokenSettings {
        let mut settings = TokenSettings::default();
        if let Some(node) = fields.get("secret_env")
            && let Some(name) = node.text("secret_env", &mut self.problems)
        {
            match self.outside.variable(name) {
                Some(secret) if !secret.is_empty() => {
                    settings.keys.push(KeySource::Secret(secret.into_bytes()));
                }
                _ => {
                    let message = format!("the environment variable `{name}` is not set");
                    self.problems
                        .error(node.at, message)
                        .help("set it to the secret of the tokens");
                }
            }
        }
        let secret = fields.get("secret_file").and_then(|node| self.read_outside(node));
        let secret = secret.map(|secret| KeySource::Secret(secret.trim_ascii().to_vec()));
        settings.keys.extend(secret);
        for one in fields.get("key_file").map_or(&[][..], Node::one_or_more) {
            settings.keys.extend(self.read_outside_text(one).map(KeySource::Pem));
        }
        let key_set = fields.get("jwks_file").and_then(|node| self.read_outside_text(node));
        settings.keys.extend(key_set.map(KeySource::Jwks));
        settings.issuer = self.read_names(fields.get("issuer"), "issuer");
        settings.audience = self.read_names(fields.get("audience"), "audience");
        if let Some(leeway) = fields.get("leeway").and_then(|it| self.read_duration(it, "leeway")) {
            settings.leeway = leeway;
        }
        let mut flag = |name: &'static str| {
            let flag = fields.get(name).and_then(|node| node.flag(name, &mut self.problems));
            flag.unwrap_or(false)
        };
        settings.allow_without_expiry = flag("allow_without_expiry");
        settings.dangerously_trust_unverified = flag("dangerously_trust_unverified");
        settings
    }

    fn read_names(&mut self, node: Option<&Node>, what: &str) -> Vec<String> {
        let nodes = node.map_or(&[][..], Node::one_or_more).iter();
        nodes.filter_map(|one| Some(one.text(what, &mut self.problems)?.to_owned())).collect()
    }

    fn read_outside_text(&mut self, node: &Node) -> Option<String> {
        let bytes = self.read_outside(node)?;
        let text = String::from_utf8(bytes).ok();
        if text.is_none() {
            self.problems.error(node.at, "this file is not text").help("give a PEM or JSON file");
        }
        text
    }

    fn read_outside(&mut self, node: &Node) -> Option<Vec<u8>> {
        let name = node.text("a file", &mut self.problems)?;
        match self.outside.file(name) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                let problem =
                    self.problems.error(node.at, format!("cannot read `{name}`: {error}"));
                problem.help("give a path relative to the policy file, or an absolute one");
                None
            }
        }
    }
}

fn is_setting(name: &str) -> bool {
    IDENTIFY.fields.iter().any(|field| field.name == name)
}
