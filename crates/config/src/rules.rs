//! A policy file, read and made ready: rules in the order in which they are looked at.

use tidegate_core::Tick;

use crate::api_keys::ApiKeys;
use crate::attribute::Attribute;
use crate::cost::Cost;
use crate::facts::Facts;
use crate::identify::Identify;
use crate::index::Index;
use crate::matcher::Matcher;
use crate::request::{Request, Response};
use crate::route::ByRoute;
use crate::rule::{Limit, Rule, Variant};
use crate::share::SharedCapacity;

/// The rules of a policy file, or of a folder of them.
#[derive(Debug, Default)]
pub struct Rules {
    pub(crate) name: Option<Box<str>>,
    pub(crate) identify: Identify,
    /// By priority, then as they stand in the file.
    pub(crate) list: Vec<Rule>,
    pub(crate) index: Index,
    /// If rules are chosen by route, and routes have no costs.
    pub(crate) by_route: Option<ByRoute>,
    pub(crate) costs: Vec<(Matcher, Cost)>,
    pub(crate) costs_index: Index,
    pub(crate) shares: Vec<SharedCapacity>,
    pub(crate) headers: Headers,
    pub(crate) fallback: FallbackHeader,
    pub(crate) needs_response: Vec<Box<str>>,
}

/// What responses say of a decision that was made while Redis did not answer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum FallbackHeader {
    /// By what it was made: `local`, `open` or `closed`.
    Full,
    /// Nothing.
    #[default]
    None,
    /// That it was so.
    Plain,
}

/// Which headers tell clients about their limits.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Headers {
    /// The IETF draft's two, and the three with `X-`.
    #[default]
    Both,
    /// `RateLimit` and `RateLimit-Policy`.
    Draft,
    /// Envoy's: the third version of the draft.
    Envoy,
    /// As GitHub has them.
    GitHub,
    /// The three with `X-`.
    Legacy,
    /// None.
    None,
    /// The three without `X-`, of the closest limit: as envoyproxy/ratelimit sends them.
    RateLimit,
}

impl Headers {
    /// Every dialect.
    pub const ALL: [Headers; 7] = [
        Headers::Both,
        Headers::Draft,
        Headers::Legacy,
        Headers::GitHub,
        Headers::Envoy,
        Headers::RateLimit,
        Headers::None,
    ];

    /// What files and options call them, in the order of [`Headers::ALL`].
    pub const WORDS: [&str; Headers::ALL.len()] = {
        let mut words = [""; Headers::ALL.len()];
        let mut at = 0;
        while at < words.len() {
            words[at] = Headers::ALL[at].word();
            at += 1;
        }
        words
    };

    /// What files and options call it.
    pub const fn word(self) -> &'static str {
        match self {
            Headers::Both => "both",
            Headers::Draft => "draft",
            Headers::Envoy => "envoy",
            Headers::GitHub => "github",
            Headers::Legacy => "legacy",
            Headers::None => "none",
            Headers::RateLimit => "ratelimit",
        }
    }

    /// The dialect that goes by this word.
    pub fn of_word(word: &str) -> Option<Headers> {
        Headers::ALL.into_iter().find(|headers| headers.word() == word)
    }
}

impl Rules {
    /// The policy's name, if it has one. What it counts in Redis is kept apart by it.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether a policy, or what it counts in Redis, can be called so: the name stands in the names
    /// of keys, and in patterns of an ACL.
    pub fn can_be_named(name: &str) -> bool {
        let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
        !name.is_empty() && name.len() <= Rules::NAME_BYTES_MAX && name.chars().all(is_plain)
    }

    /// The longest name of a policy. Every key in Redis begins with it.
    pub const NAME_BYTES_MAX: usize = 64;

    /// The rules, in the order in which they are looked at.
    pub fn rules(&self) -> &[Rule] {
        &self.list
    }

    /// The JSON schema of a policy file, for editors.
    pub fn schema() -> serde_json::Value {
        let id = "https://github.com/tidegate/tidegate/blob/main/docs/policy.schema.json";
        crate::schema::schema(&crate::file::FILE, id, "A Tidegate policy")
    }

    /// How a client is asked for another API key where an unknown one is refused.
    pub fn challenge(&self) -> Option<String> {
        self.identify.api_keys.as_ref().map(ApiKeys::challenge)
    }

    /// Whether an address is that of a proxy which says truly for which client it asks.
    pub fn trusts(&self, address: std::net::IpAddr) -> bool {
        self.identify.proxies.trusts(address)
    }

    /// Which headers tell clients about their limits.
    pub fn headers(&self) -> Headers {
        self.headers
    }

    /// What needs the response to be settled, such as "rule `logins`", and does not allow the
    /// warning [`NeedsResponse`](crate::Lint::NeedsResponse): for those who are never told it.
    pub fn needs_response(&self) -> &[Box<str>] {
        &self.needs_response
    }

    /// Whether a rule that refuses, or a share, tells clients apart by their address: without one
    /// it would count strangers together, or not apply.
    pub fn enforces_by_address(&self) -> bool {
        let identify = &self.identify;
        let counts = |key: &[Attribute]| key.iter().any(|it| identify.reads_address(it));
        let rules = self.list.iter().filter(|rule| rule.limit().is_none_or(Limit::is_enforced));
        { rules }.any(|rule| {
            rule.matcher.reads_address(identify) || rule.limit().is_some_and(|it| counts(&it.key))
        }) || self
            .shares
            .iter()
            .any(|share| share.matcher.reads_address(identify) || counts(&share.by))
    }

    /// What responses say of a decision that was made while Redis did not answer.
    pub fn fallback_header(&self) -> FallbackHeader {
        self.fallback
    }

    /// What is known of a request; see [`Rules::plan`].
    pub fn facts<'r, 'a>(&'r self, request: &'a dyn Request, now: Tick) -> Facts<'r, 'a> {
        Facts::new(&self.identify, self.by_route, request, now)
    }

    /// What a request should have cost under a rule, by its response: `None` if that changes
    /// nothing. `route_cost` is the plan's.
    pub fn settled(
        &self,
        rule: usize,
        route_cost: Option<usize>,
        response: &dyn Response,
    ) -> Option<u32> {
        let route_cost = route_cost.and_then(|number| self.costs.get(number)).map(|(_, cost)| cost);
        self.list.get(rule)?.settled(route_cost, response)
    }

    /// The name of a tier.
    pub(crate) fn tier_name(&self, tier: usize) -> &str {
        self.identify.tiers.names.get(tier).map_or("", |name| name)
    }
}

impl Rule {
    /// The name of its second limit, as clients see it, if it has one: `NAME-peak` where there are
    /// `credits`.
    pub(crate) fn second_name(&self) -> Option<String> {
        let mut policies = self.variants().iter().flat_map(Variant::policies);
        let second = policies.find(|timed| !timed.part().is_empty())?;
        Some(format!("{}-{}", self.name(), second.part()))
    }
}
