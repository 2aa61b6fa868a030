//! Why each rule is for a request, or is not: what `tidegate check --request` tells.

use std::fmt;
use std::net::IpAddr;

use crate::attribute::Attribute;
use crate::cost::Cost;
use crate::excerpt::drawn;
use crate::facts::{Facts, Part, Parts, Value};
use crate::key::LastKey;
use crate::matcher::Condition;
use crate::path::Case;
use crate::plan::{Planned, Turn};
use crate::rule::Rule;
use crate::rules::Rules;

/// What a rule does with a request, and why.
#[derive(Debug)]
pub struct Explained<'f> {
    /// The rule.
    pub rule: &'f Rule,
    /// What it does.
    pub does: Does<'f>,
}

/// What a rule does with a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum Does<'f> {
    /// Refuses it.
    Blocks,
    /// Counts it.
    Counts(Planned<'f>),
    /// Has no limit for this tier or key.
    HasNoLimit {
        /// The quota that says so: a tier, or a key.
        variant: &'f str,
    },
    /// Lets it pass; no rule below applies.
    LetsPass,
    /// Is not for it.
    IsNotForIt {
        /// The condition that does not hold, and what there was instead.
        why: String,
    },
    /// Is never looked at, because a rule above ends the list.
    IsOutOfReach {
        /// The rule above.
        by: &'f str,
    },
    /// Refuses it, because it does not say how long its body is.
    WantsLength,
    /// Does not apply, because a part of its key is missing.
    MissesItsKey {
        /// The parts that it wants.
        key: String,
    },
}

impl Rules {
    /// What every rule does with a request, in the order in which they are looked at.
    pub fn explain<'f>(&'f self, facts: &'f Facts<'_, '_>) -> Vec<Explained<'f>> {
        let route_cost = self.route_cost(facts).map(|number| &self.costs[number].1);
        let mut ended_by: Option<&str> = None;
        let mut explained = Vec::with_capacity(self.list.len());
        for (number, rule) in self.list.iter().enumerate() {
            let does = match ended_by {
                Some(by) => Does::IsOutOfReach { by },
                None => self.does(number, facts, route_cost),
            };
            let applies = matches!(does, Does::Counts(_) | Does::HasNoLimit { .. });
            let ends = matches!(does, Does::Blocks | Does::LetsPass | Does::WantsLength)
                || (applies && rule.is_last && rule.matcher.is_sure(facts));
            if ends && ended_by.is_none() {
                ended_by = Some(&rule.name);
            }
            explained.push(Explained { rule, does });
        }
        explained
    }

    /// The tier that a request is of; `None` if the file has no tiers.
    pub fn tier<'f>(&'f self, facts: &Facts<'_, '_>) -> Option<&'f str> {
        self.identify.tiers.names.get(facts.tier()).map(|name| &**name)
    }

    /// The client's address, past the proxies that the file trusts.
    pub fn client(&self, facts: &Facts<'_, '_>) -> Option<IpAddr> {
        facts.client()
    }

    /// The header that says who asks where a proxy is trusted; `None` if none is.
    pub fn forwarded_by(&self) -> Option<&'static str> {
        let proxies = &self.identify.proxies;
        proxies.believes_anybody().then(|| proxies.header())
    }

    /// A part of a key for people: `header:x-api-key = k3y1…`. Of what may be a secret only the
    /// start is shown.
    pub fn shown(&self, part: &Part<'_>) -> String {
        let name = self.name_of(part.source);
        match &part.value {
            Value::Missing => format!("no {name}"),
            Value::Address(group) => format!("{name} = {group}"),
            Value::Bytes(bytes) => format!("{name} = {}", part.source.shown(bytes)),
        }
    }

    /// Who a request is from: each identity of the file, and what it is made of.
    pub fn identities<'f>(&'f self, facts: &'f Facts<'_, '_>) -> Vec<(&'f str, Parts<'f>)> {
        let names = self.identify.names.iter().zip(&self.identify.identities);
        names
            .map(|(name, alternatives)| {
                let mut parts = Parts::new();
                alternatives.iter().any(|all| facts.push_all(all, None, &mut parts));
                (&**name, parts)
            })
            .collect()
    }

    fn does<'f>(
        &'f self,
        number: usize,
        facts: &'f Facts<'_, '_>,
        route_cost: Option<&Cost>,
    ) -> Does<'f> {
        let (rule, mut last) = (&self.list[number], LastKey::default());
        let Some(reading) = rule.matcher.reading(facts) else {
            let why = rule.matcher.why_not(facts).map(|condition| self.why(condition, facts));
            return Does::IsNotForIt { why: why.unwrap_or_default() };
        };
        match self.turn_by_any(number, reading, route_cost, &mut last) {
            Turn::Unlimited if !rule.matcher.is_sure(facts) => {
                let why = "not every way to read its path and headers is".to_owned();
                Does::IsNotForIt { why }
            }
            Turn::Blocks => Does::Blocks,
            Turn::WantsLength => Does::WantsLength,
            Turn::Charges(asks) => Does::Counts(Planned { asks, key: last.into_parts() }),
            Turn::Misses => {
                let key = rule.limit().map(|limit| &limit.key[..]).unwrap_or_default();
                let names: Vec<String> = key.iter().map(|it| self.name_of(it)).collect();
                Does::MissesItsKey { key: names.join(" + ") }
            }
            Turn::NoLimit { variant } => {
                Does::HasNoLimit { variant: rule.variants()[variant].id() }
            }
            Turn::Unlimited => Does::LetsPass,
        }
    }

    fn why(&self, condition: &Condition, facts: &Facts<'_, '_>) -> String {
        let there_is = match condition {
            Condition::Network(_) => {
                facts.client().map_or("no address".to_owned(), |client| client.to_string())
            }
            Condition::Not(_) => return format!("it wants {condition}"),
            Condition::Path(_) => drawn(facts.path.text(Case::Kept).chars()),
            Condition::Tier(tiers) => {
                let names: Vec<&str> = tiers.iter().map(|tier| self.tier_name(*tier)).collect();
                let (wanted, tier) = (names.join(" or "), self.tier_name(facts.tier()));
                return format!("it wants tier {wanted}, but there is {tier}");
            }
            Condition::Value { attribute, .. } => {
                let value = facts.value(attribute, None);
                value.map_or("none".to_owned(), |it| attribute.shown(&it))
            }
        };
        format!("it wants {condition}, but there is {there_is}")
    }

    /// An attribute as the file calls it.
    pub fn name_of(&self, attribute: &Attribute) -> String {
        match attribute {
            Attribute::Identity(index) => {
                self.identify.names.get(*index).map_or(String::new(), ToString::to_string)
            }
            other => other.to_string(),
        }
    }
}

impl Attribute {
    /// A value of it for people. Of what may be a secret only the start is shown, unless it is too
    /// short to be one.
    pub fn shown(&self, value: &[u8]) -> String {
        let value = String::from_utf8_lossy(value);
        if self.may_be_secret() && value.chars().nth(SHORT).is_some() {
            return drawn(value.chars().take(START)) + "…";
        }
        drawn(value.chars())
    }
}

/// What has no more characters is no secret.
const SHORT: usize = 8;
/// How many characters of a secret are shown.
const START: usize = 4;

impl fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.does {
            Does::Blocks => f.write_str("refuses it"),
            Does::WantsLength => {
                f.write_str("refuses it: the request does not say how long its body is")
            }
            Does::Counts(planned) => {
                f.write_str(if planned.is_shadow { "counts it in shadow" } else { "counts it" })
            }
            Does::HasNoLimit { variant: "" } => f.write_str("has no limit"),
            Does::HasNoLimit { variant } => {
                write!(f, "has no limit for `{}`", variant.trim_start_matches('='))
            }
            Does::LetsPass => f.write_str("lets it pass; no rule below applies"),
            Does::IsNotForIt { why } => write!(f, "is not for it: {why}"),
            Does::IsOutOfReach { by } => write!(f, "is out of reach: `{by}` ends the list"),
            Does::MissesItsKey { key } => write!(f, "is skipped: the request has no {key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_a_rule_has_no_limit_for_is_told() {
        let policy = "rules: [{ name: a, limit: unlimited }, \
                      { name: b, key: user, limit: 1/s, overrides: { ada: unlimited } }]";
        let rules = Rules::from_text(policy).unwrap().rules;
        let request = crate::Sample::new("GET /").with_attribute("user", "ada");
        let facts = rules.facts(&request, tidegate_core::Tick::from_micros(0));
        let told: Vec<String> = rules.explain(&facts).iter().map(ToString::to_string).collect();
        assert_eq!(told, ["has no limit", "has no limit for `ada`"]);
    }

    #[test]
    fn of_a_secret_only_the_start_is_shown() {
        let header = Attribute::Header("x-api-key".into());
        let shown = |value: &[u8]| header.shown(value);
        assert_eq!(shown(b"k3y1"), "k3y1");
        assert_eq!(shown(b"12345678"), "12345678");
        assert_eq!(shown(b"123456789"), "1234…");
        assert_eq!(shown("ääääääääää".as_bytes()), "ääää…");
        assert_eq!(shown(b"a\x1b[2J"), "a\u{fffd}[2J");
        assert_eq!(Attribute::Path.shown(b"/search/everything"), "/search/everything");
    }
}
