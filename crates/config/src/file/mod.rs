//! From what was typed to rules: each section has a file of its own.

mod adaptive;
mod api_keys;
mod costs;
mod identify;
mod jwt;
mod limits;
mod matching;
mod measures;
mod outcome;
mod overrides;
mod paths;
mod rule;
mod share;
mod short_lease;
mod tables;
mod tiers;
mod unpayable;
mod unverified;
mod useless;
mod ways;

use std::collections::HashMap;

use crate::address::Proxies;
use crate::identify::Tiers;
use crate::index::Index;
use crate::key::find_sources;
use crate::lint::{Allowed, Lint};
use crate::misread::quoted;
use crate::path::Servers;
use crate::problem::{Problems, Span};
use crate::read::Fields;
use crate::route::ByRoute;
use crate::rules::{FallbackHeader, Headers, Rules};
use crate::source::Node;
use crate::suggest::did_you_mean;

pub(crate) use self::tables::FILE;

/// What sections have to know of each other while they are read.
#[derive(Debug)]
pub(crate) struct Reading<'o> {
    pub(crate) problems: Problems,
    pub(crate) outside: &'o dyn Outside,
    /// The names under `identify`.
    identities: Vec<Box<str>>,
    tiers: Tiers,
    /// Where each tier is among them.
    tier_places: HashMap<Box<str>, usize>,
    /// Whether the file lists all tiers there are.
    tiers_are_known: bool,
    /// Whether there is a section `jwt`, be it wrong.
    has_tokens: bool,
    /// Where known API keys are named, be it wrong.
    keys_at: Option<Span>,
    /// Whether there is a section `tiers`, be it wrong.
    has_tiers: bool,
    /// How much each identity is made of.
    sizes: Vec<identify::Size>,
    /// Of what.
    made_of: Vec<Vec<crate::identify::Alternative>>,
    proxies: Proxies,
    servers: Servers,
    defaults: Defaults,
    /// The names of rules, and where each stands.
    names: HashMap<Box<str>, Span>,
    /// What needs the response, and does not allow the warning of that.
    needs_response: Vec<Box<str>>,
    /// Where each entry of `costs` stands.
    costs_at: Vec<Span>,
}

/// What rules do that do not say so themselves.
#[derive(Clone, Copy, Debug)]
struct Defaults {
    without_store: Option<&'static str>,
    nodes: u32,
}

/// What a policy file refers to: secrets and keys.
pub(crate) trait Outside: std::fmt::Debug {
    /// The bytes of a file, by its name relative to the policy file.
    fn file(&self, name: &str) -> std::io::Result<Vec<u8>>;

    /// An environment variable.
    fn variable(&self, name: &str) -> Option<String>;
}

impl<'o> Reading<'o> {
    pub(crate) fn new(outside: &'o dyn Outside) -> Reading<'o> {
        Reading {
            problems: Problems::default(),
            outside,
            identities: Vec::new(),
            tiers: Tiers::default(),
            tier_places: HashMap::new(),
            tiers_are_known: false,
            has_tokens: false,
            keys_at: None,
            has_tiers: false,
            sizes: Vec::new(),
            made_of: Vec::new(),
            proxies: Proxies::default(),
            servers: Servers::default(),
            defaults: Defaults { without_store: None, nodes: 1 },
            names: HashMap::new(),
            needs_response: Vec::new(),
            costs_at: Vec::new(),
        }
    }

    /// Reads the trees of one or more files as one policy.
    pub(crate) fn rules(&mut self, trees: &[Node]) -> Rules {
        let mut rules = Rules::default();
        let files: Vec<Fields<'_>> =
            trees.iter().filter_map(|tree| Fields::of(tree, &FILE, &mut self.problems)).collect();
        for file in &files {
            let allowed = self.read_allowed(file.get("allow"));
            self.problems.allow(file.at().file, allowed);
        }
        let mut once = |name: &'static str| {
            let mut found = files.iter().filter_map(|file| file.get(name));
            let first = found.next();
            for again in found {
                let message = format!("`{name}` stands in another file already");
                self.problems.error(again.at, message).help("say it in one of the files");
            }
            first
        };
        let [identify, keys, jwt, tiers] = ["identify", "api_keys", "jwt", "tiers"].map(&mut once);
        let [paths, headers, fallback, on_store_error, nodes] =
            ["paths", "headers", "fallback_header", "on_store_error", "nodes"].map(&mut once);
        rules.name = once("name").and_then(|node| self.read_policy_name(node));
        self.servers = paths.map_or(Servers::Any, |node| self.read_servers(node));
        self.read_defaults(on_store_error, nodes);
        rules.headers = headers.map_or(Headers::Both, |node| self.read_headers(node));
        rules.fallback = fallback.map_or(FallbackHeader::None, |node| self.read_fallback(node));
        rules.identify = self.read_identify(identify, [keys, jwt, tiers]);
        let costs = files.iter().filter_map(|file| file.get("costs"));
        rules.costs = costs.flat_map(|node| self.read_costs(node)).collect();
        let lists = files.iter().filter_map(|file| file.get("rules"));
        let read: Vec<rule::Ranked> = lists.flat_map(|node| self.read_rules(node)).collect();
        for node in files.iter().filter_map(|file| file.get("share")) {
            self.read_shares(node, &mut rules.shares);
        }
        if read.is_empty() && rules.shares.is_empty() && !self.problems.is_fatal() {
            let at = files.first().map(Fields::at).unwrap_or_default();
            let problem = self.problems.error(at, "there is no rule: nothing would be limited");
            problem.help("add one under `rules:`");
        }
        self.warn_of_short_leases(&read, &rules.shares);
        self.warn_of_nothing_enforced(&read, &rules.shares);
        rules.list = self.in_order(read, &rules.costs);
        rules.needs_response = std::mem::take(&mut self.needs_response);
        find_sources(&mut rules.list, &rules.identify);
        self.warn_of_tiers(&rules.identify);
        rules.identify.tiers = std::mem::take(&mut self.tiers);
        rules.identify.servers = self.servers;
        rules.index = Index::new(rules.list.iter().map(|rule| &rule.matcher), self.servers);
        rules.by_route = ByRoute::of(&rules.list).filter(|_| rules.costs.is_empty());
        let matchers = rules.costs.iter().map(|(matcher, _)| matcher);
        rules.costs_index = Index::new(matchers, self.servers);
        rules
    }

    fn read_defaults(&mut self, on_store_error: Option<&Node>, nodes: Option<&Node>) {
        let choice =
            |node: &Node| node.choice("on_store_error", &tables::WITHOUT_STORE, &mut self.problems);
        self.defaults.without_store = on_store_error.and_then(choice);
        let count = |node: &Node| node.count("nodes", 1..=u32::MAX.into(), &mut self.problems);
        let nodes = nodes.and_then(count).and_then(|nodes| u32::try_from(nodes).ok());
        self.defaults.nodes = nodes.unwrap_or(1);
    }

    fn read_policy_name(&mut self, node: &Node) -> Option<Box<str>> {
        let name = node.scalar("name", &mut self.problems)?;
        if Rules::can_be_named(&name) {
            return Some((*name).into());
        }
        let problem = self.problems.error(node.at, format!("{} cannot be a name", quoted(&name)));
        problem.help("use up to 64 letters, digits, `-`, `_` and `.`: keys in Redis begin with it");
        None
    }

    /// The warnings that a file or a rule allows.
    fn read_allowed(&mut self, node: Option<&Node>) -> Allowed {
        let mut allowed = Allowed::default();
        for one in node.map_or(&[][..], Node::one_or_more) {
            let Some(name) = one.scalar("allow", &mut self.problems) else { continue };
            if let Ok(lint) = name.parse() {
                allowed.add(lint);
                continue;
            }
            let begins = |lint: &&&str| !name.is_empty() && lint.starts_with(&*name);
            let near = did_you_mean(&name, Lint::NAMES.iter().copied());
            let near = near.or_else(|| Lint::NAMES.iter().find(begins).copied());
            let help = near.map_or_else(
                || "`tidegate explain` lists their names".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            let message = format!("no warning is called {}", quoted(&name));
            self.problems.error(one.at, message).help(help);
        }
        allowed
    }

    /// Notes that something needs the response, unless that is allowed at `at`.
    fn note_response(&mut self, what: String, at: Span) {
        let is_known = self.needs_response.last().is_some_and(|last| **last == *what);
        if !is_known && !self.problems.allows(Lint::NeedsResponse, at) {
            self.needs_response.push(what.into());
        }
    }

    fn read_fallback(&mut self, node: &Node) -> FallbackHeader {
        match node.choice("fallback_header", &tables::FALLBACK, &mut self.problems) {
            Some("full") => FallbackHeader::Full,
            Some("plain") => FallbackHeader::Plain,
            _ => FallbackHeader::None,
        }
    }

    fn read_headers(&mut self, node: &Node) -> Headers {
        let word = node.choice("headers", &Headers::WORDS, &mut self.problems);
        word.and_then(Headers::of_word).unwrap_or_default()
    }
}
