//! A rule: which requests it is for, which key it counts, and by how much.

use smallvec::SmallVec;
use tidegate_core::adapt::Fraction;
use tidegate_core::{Kind, Policy, Quota, Span, Tick, WithoutStore};

use crate::attribute::Attribute;
use crate::cost::Cost;
use crate::facts::{Facts, Part};
use crate::key::KeySource;
use crate::matcher::Matcher;
use crate::outcome::Outcome;
use crate::overrides::Overrides;
use crate::quantity::CalendarUnit;
use crate::request::Response;
use crate::zone::Zone;

/// A rule of a policy file.
#[derive(Debug)]
pub struct Rule {
    pub(crate) name: Box<str>,
    pub(crate) matcher: Matcher,
    pub(crate) action: Action,
    /// Whether no rule below it applies to what it matches.
    pub(crate) is_last: bool,
    /// If only the key that it counts depends on the request, and what the caller or the route says
    /// that the request costs.
    pub(crate) steady: Option<Steady>,
}

/// What has to be known of a rule with one quota for everybody, always enforced, which has no say
/// in what a request costs: beside the rule, so that nothing else is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steady {
    /// How many limits it has.
    pub(crate) limits: u8,
    /// As in [`Limit::source`].
    pub(crate) source: KeySource,
}

/// What a rule does with what it matches.
#[derive(Debug)]
pub(crate) enum Action {
    Block,
    Limit(Box<Limit>),
    Unlimited,
}

/// The key that a rule counts, and by how much.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) key: Vec<Attribute>,
    /// What the key is taken from, beside those of other rules.
    pub(crate) source: KeySource,
    pub(crate) missing: Missing,
    pub(crate) variants: Vec<Variant>,
    /// Which of them is for which tier, by the tier's place.
    pub(crate) by_tier: Vec<usize>,
    pub(crate) overrides: Overrides,
    /// Its own; otherwise that of the route.
    pub(crate) cost: Option<Cost>,
    pub(crate) counts_when: Option<Outcome>,
    /// For how many of 10,000 keys it is enforced; it is in shadow for the others.
    pub(crate) enforced: u16,
    pub(crate) without_store: WithoutStore,
    /// The part of its limits that is left whatever the load; nothing if they stay.
    pub(crate) adaptive: Option<Fraction>,
    pub(crate) is_shown: bool,
    pub(crate) unit: Unit,
}

/// What happens to a request that lacks a part of the key.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Missing {
    /// The rule does not apply.
    Skip,
    /// All such requests count as one.
    Together,
}

/// What a rule counts, as HTTP clients see it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Unit {
    /// Bytes of content, in units that go by this word: `B`, or `kB`.
    Bytes(&'static str),
    /// Requests that are under way.
    InFlight,
    /// Something that the file has a word for.
    Named(Box<str>),
    /// Requests.
    #[default]
    Requests,
}

/// The quota of a tier or of one key.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Tells it from the rule's others: nothing, a tier, or a key.
    pub(crate) id: Box<str>,
    pub(crate) quota: Quotas,
    /// The limit as the file says it, such as `100/min, burst 5`.
    pub(crate) written: Box<str>,
}

/// What a variant allows.
#[derive(Clone, Debug)]
pub(crate) enum Quotas {
    Block,
    /// All of them together; mostly one.
    Judged(SmallVec<[Timed; 1]>),
    Unlimited,
}

/// A policy, or one that depends on the date.
#[derive(Clone, Debug)]
pub struct Timed {
    /// Tells it from the variant's others: nothing, or `peak`.
    pub(crate) part: &'static str,
    pub(crate) policy: When,
    /// What the policy was made of; of a calendar's, with about the length of its windows.
    pub(crate) quota: Quota,
    /// The time in which the limit comes back in full, as clients see it.
    pub(crate) window: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum When {
    Always(Policy),
    Calendar { limit: u32, unit: CalendarUnit, zone: Zone },
}

impl Rule {
    pub(crate) fn new(name: Box<str>, matcher: Matcher, action: Action, is_last: bool) -> Rule {
        let steady = if let Action::Limit(limit) = &action { limit.steady() } else { None };
        Rule { name, matcher, action, is_last, steady }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The quotas that it has for tiers and keys; none if it blocks, or lets everything pass.
    pub fn variants(&self) -> &[Variant] {
        self.limit().map_or(&[], |limit| &limit.variants)
    }

    /// What it does when its store does not answer.
    pub fn without_store(&self) -> WithoutStore {
        self.limit().map_or(WithoutStore::Open, |limit| limit.without_store)
    }

    /// Whether clients see it.
    pub fn is_shown(&self) -> bool {
        self.limit().is_some_and(|limit| limit.is_shown)
    }

    /// What it counts.
    pub fn unit(&self) -> &Unit {
        const REQUESTS: &Unit = &Unit::Requests;
        self.limit().map_or(REQUESTS, |limit| &limit.unit)
    }

    /// Whether it says itself what a request costs.
    pub fn has_own_cost(&self) -> bool {
        self.limit().is_some_and(|limit| limit.cost.is_some())
    }

    /// What a request should have cost by its response: `None` if that changes nothing.
    pub(crate) fn settled(
        &self,
        route_cost: Option<&Cost>,
        response: &dyn Response,
    ) -> Option<u32> {
        let limit = self.limit()?;
        if limit.counts_when.as_ref().is_some_and(|outcome| !outcome.holds(response)) {
            return Some(0);
        }
        limit.cost.as_ref().or(route_cost)?.at_response(response)
    }

    pub(crate) fn limit(&self) -> Option<&Limit> {
        match &self.action {
            Action::Limit(limit) => Some(limit),
            Action::Block | Action::Unlimited => None,
        }
    }

    /// Whether the rules below it are out of reach for all that it matches.
    pub(crate) fn stops(&self) -> bool {
        match &self.action {
            Action::Limit(limit) => self.is_last && !limit.may_be_skipped(),
            Action::Block | Action::Unlimited => true,
        }
    }
}

impl Limit {
    /// Whether there are requests that it matches and does not apply to: those without its key.
    pub(crate) fn may_be_skipped(&self) -> bool {
        self.missing == Missing::Skip && !self.key.is_empty()
    }

    /// Whether it refuses anybody: it does not where it only watches.
    pub(crate) fn is_enforced(&self) -> bool {
        0 < self.enforced
    }

    /// Whether it is settled by the response, by what it says itself.
    pub(crate) fn needs_response(&self) -> bool {
        self.counts_when.is_some() || self.cost.as_ref().is_some_and(Cost::is_by_response)
    }

    fn steady(&self) -> Option<Steady> {
        let [only] = &self.variants[..] else { return None };
        let limits = u8::try_from(only.policies().len()).ok().filter(|limits| 0 < *limits)?;
        let is_enforced = self.enforced >= 10_000;
        let has_no_say = self.cost.is_none() && self.counts_when.is_none();
        (is_enforced && has_no_say).then_some(Steady { limits, source: self.source })
    }

    /// The variant for a request, by its key or its tier; of several tiers that of the one that
    /// gives least.
    pub(crate) fn variant(&self, facts: &Facts<'_, '_>, parts: &[Part<'_>]) -> usize {
        if let Some(own) = self.overrides.of(parts) {
            return own;
        }
        match &self.by_tier[..] {
            [] => 0,
            by_tier => {
                let of_tier = |tier: &usize| by_tier.get(*tier).copied().unwrap_or(0);
                let tighter = |least: usize, other: usize| {
                    let is_tighter = self.variants[other].is_tighter_than(&self.variants[least]);
                    if is_tighter { other } else { least }
                };
                facts.tiers().iter().map(of_tier).reduce(tighter).unwrap_or(0)
            }
        }
    }
}

impl Variant {
    /// Tells it from the rule's others: nothing, a tier, or a key.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The limit as the file says it, such as `100/min, burst 5`.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// The tier that it is for; empty if it is for all requests, or for a single key.
    pub fn tier(&self) -> &str {
        if self.is_of_one_key() { "" } else { &self.id }
    }

    /// Whether it is the quota of a single key: those are in no tier.
    pub fn is_of_one_key(&self) -> bool {
        // No tier's name holds this mark.
        self.id.starts_with('=')
    }

    /// Whether it gives less than another, of one rule.
    pub(crate) fn is_tighter_than(&self, other: &Variant) -> bool {
        match (&self.quota, &other.quota) {
            (Quotas::Block, quota) => !matches!(quota, Quotas::Block),
            (_, Quotas::Block) | (Quotas::Unlimited, _) => false,
            (_, Quotas::Unlimited) => true,
            (Quotas::Judged(these), Quotas::Judged(others)) => {
                let pairs = these.iter().zip(others);
                // The first that differ say which: the rest is what may be saved up.
                let mut orders = pairs.map(|(this, other)| this.cmp_quota(other));
                orders.find(|order| order.is_ne()).is_some_and(std::cmp::Ordering::is_lt)
            }
        }
    }

    /// Whether it refuses whatever comes.
    pub(crate) fn blocks(&self) -> bool {
        matches!(self.quota, Quotas::Block)
    }

    /// The most cells that all of its policies ever let pass at once.
    pub(crate) fn most_at_once(&self) -> u32 {
        self.policies().iter().map(Timed::most_at_once).min().unwrap_or(u32::MAX)
    }

    /// The policies that judge together; none if it blocks, or lets everything pass.
    pub fn policies(&self) -> &[Timed] {
        match &self.quota {
            Quotas::Judged(policies) => policies,
            Quotas::Block | Quotas::Unlimited => &[],
        }
    }
}

impl Timed {
    /// Tells it from the others that judge together with it: nothing, or `peak`.
    pub fn part(&self) -> &'static str {
        self.part
    }

    /// The policy at a tick.
    #[expect(clippy::missing_panics_doc, reason = "what it expects was checked with the file")]
    pub fn policy(&self, now: Tick) -> Policy {
        match &self.policy {
            When::Always(policy) => *policy,
            When::Calendar { limit, unit, zone } => {
                let made = Policy::calendar(*limit, zone.boundaries(*unit, now));
                made.expect("boundaries are in order, and the limit was checked with the file")
            }
        }
    }

    /// Which gives more: over time, and otherwise at once.
    fn cmp_quota(&self, other: &Timed) -> std::cmp::Ordering {
        let [(limit, window), (other_limit, other_window)] = [self, other].map(|it| {
            let limit = match &it.policy {
                When::Always(policy) => policy.limit(),
                When::Calendar { limit, .. } => *limit,
            };
            (u128::from(limit), u128::from(it.window.get()).max(1))
        });
        (limit * other_window).cmp(&(other_limit * window)).then(limit.cmp(&other_limit))
    }

    /// From when on it is another one; `None` for one that stays.
    pub fn changes_at(&self, now: Tick) -> Option<Tick> {
        match &self.policy {
            When::Always(_) => None,
            When::Calendar { unit, zone, .. } => Some(zone.boundaries(*unit, now)[1]),
        }
    }

    /// The most cells that it ever lets pass at once.
    pub(crate) fn most_at_once(&self) -> u32 {
        match &self.policy {
            When::Always(policy) => policy.limit(),
            When::Calendar { limit, .. } => *limit,
        }
    }

    /// What the policy was made of. A calendar's windows differ in length: of these, about as long
    /// as they are.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// The time in which the limit comes back in full.
    pub fn window(&self) -> Span {
        self.window
    }

    /// The algorithm.
    pub fn kind(&self) -> Kind {
        match &self.policy {
            When::Always(policy) => policy.kind(),
            When::Calendar { .. } => Kind::FixedWindow,
        }
    }
}
