//! Which requests a rule is for.

use std::fmt;
use std::sync::LazyLock;

use ipnet::IpNet;

use crate::attribute::Attribute;
use crate::facts::{Facts, is_head};
use crate::glob::Glob;
use crate::identify::Identify;
use crate::path::{Case, Pattern, Servers};

/// Which requests a rule is for: those that meet all conditions of any of its alternatives.
///
/// Without an alternative it is for none; with one that has no conditions, for all.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Matcher {
    pub(crate) any: Vec<All>,
}

/// Conditions that hold together.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct All {
    pub(crate) conditions: Vec<Condition>,
}

/// One condition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Condition {
    /// The client's address is in one of these.
    Network(Vec<IpNet>),
    /// What is inside does not match.
    Not(Matcher),
    /// The path is like one of these.
    Path(Vec<Pattern>),
    /// The tier is one of these, by their places.
    Tier(Vec<usize>),
    /// An attribute is like one of these.
    Value { attribute: Attribute, like: Vec<Glob> },
}

/// How sure it has to be that a request matches. A client can say things that one application takes
/// for this and another for that; what it means to ours is not for us to know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Certainty {
    /// It may: enough for what restricts.
    Perhaps,
    /// It does, for every server that looks at it: what exempts wants that.
    Surely,
}

impl Certainty {
    /// How sure it has to be of what must not match.
    fn of_the_opposite(self) -> Certainty {
        match self {
            Certainty::Perhaps => Certainty::Surely,
            Certainty::Surely => Certainty::Perhaps,
        }
    }

    /// Whether letters of a path are the same in upper and lower case.
    fn case(self, servers: Servers) -> Case {
        match self {
            Certainty::Perhaps => Case::compared(servers),
            Certainty::Surely => Case::Kept,
        }
    }
}

impl Matcher {
    /// For every request.
    pub(crate) fn everything() -> Matcher {
        Matcher { any: vec![All::default()] }
    }

    /// By this reading of its path.
    pub(crate) fn matches(&self, facts: &Facts<'_, '_>, certainty: Certainty) -> bool {
        self.any.iter().any(|all| all.holds(facts, certainty))
    }

    /// Whether a request matches by every reading of its path, and whatever else is in doubt.
    pub(crate) fn is_sure(&self, facts: &Facts<'_, '_>) -> bool {
        facts.readings().all(|reading| self.matches(reading, Certainty::Surely))
    }

    /// By which reading of its path a request may match; see [`Facts::readings`].
    pub(crate) fn reading<'f, 'r, 'a>(
        &self,
        facts: &'f Facts<'r, 'a>,
    ) -> Option<&'f Facts<'r, 'a>> {
        facts.readings().find(|reading| self.matches(reading, Certainty::Perhaps))
    }

    /// The first condition that keeps a request out; of the last alternative, if there are several.
    pub(crate) fn why_not(&self, facts: &Facts<'_, '_>) -> Option<&Condition> {
        let mut why = None;
        for all in &self.any {
            why = Some(all.conditions.iter().find(|it| !it.holds(facts, Certainty::Perhaps))?);
        }
        why
    }

    /// Whether every request that `other` matches is matched by this one. Says no when unsure.
    pub(crate) fn covers(&self, other: &Matcher) -> bool {
        other.any.iter().all(|narrow| self.any.iter().any(|wide| wide.covers(narrow)))
    }

    /// What stands in the path where an alternative that matches has `{name}`.
    pub(crate) fn capture<'f>(&self, facts: &'f Facts<'_, '_>, name: &str) -> Option<&'f str> {
        let matching = self.any.iter().filter(|all| all.holds(facts, Certainty::Perhaps));
        let case = Certainty::Perhaps.case(facts.identify.servers);
        matching.flat_map(All::patterns).find_map(|it| it.capture(&facts.path, case, name))
    }

    /// How many patterns and values it has: what comparing it costs.
    pub(crate) fn weight(&self) -> usize {
        let weight = |condition: &Condition| match condition {
            Condition::Network(networks) => networks.len(),
            Condition::Not(matcher) => matcher.weight(),
            Condition::Path(patterns) => patterns.len(),
            Condition::Tier(tiers) => tiers.len(),
            Condition::Value { like, .. } => like.len(),
        };
        let conditions = self.any.iter().flat_map(|all| &all.conditions);
        self.any.len() + conditions.map(weight).sum::<usize>()
    }

    /// Whether any condition is about the client's address.
    pub(crate) fn reads_address(&self, identify: &Identify) -> bool {
        let reads = |condition: &Condition| match condition {
            Condition::Network(_) => true,
            Condition::Not(matcher) => matcher.reads_address(identify),
            Condition::Value { attribute, .. } => identify.reads_address(attribute),
            Condition::Path(_) | Condition::Tier(_) => false,
        };
        self.any.iter().flat_map(|all| &all.conditions).any(reads)
    }

    /// The names that its paths give to segments.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.any.iter().flat_map(All::patterns).flat_map(Pattern::names)
    }
}

impl All {
    fn holds(&self, facts: &Facts<'_, '_>, certainty: Certainty) -> bool {
        self.conditions.iter().all(|condition| condition.holds(facts, certainty))
    }

    /// Whether they may hold, where the condition at a place is known to.
    pub(crate) fn may_hold_but(&self, known: usize, facts: &Facts<'_, '_>) -> bool {
        let mut conditions = self.conditions.iter().enumerate();
        conditions.all(|(at, it)| at == known || it.holds(facts, Certainty::Perhaps))
    }

    fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        let paths = self.conditions.iter().filter_map(|condition| match condition {
            Condition::Path(patterns) => Some(patterns),
            _ => None,
        });
        paths.flatten()
    }

    fn covers(&self, narrow: &All) -> bool {
        let implied = |wide: &Condition| narrow.conditions.iter().any(|it| wide.covers(it));
        self.conditions.iter().all(|wide| implied(wide) || wide.always_holds())
    }
}

impl Condition {
    fn holds(&self, facts: &Facts<'_, '_>, certainty: Certainty) -> bool {
        match self {
            Condition::Network(networks) => {
                let inside = |client| networks.iter().any(|network| network.contains(&client));
                facts.client().is_some_and(inside)
            }
            Condition::Not(matcher) => !matcher.matches(facts, certainty.of_the_opposite()),
            Condition::Path(patterns) => {
                let case = certainty.case(facts.identify.servers);
                patterns.iter().any(|it| it.matches(&facts.path, case))
            }
            Condition::Tier(tiers) => {
                let mut said = facts.tiers().iter();
                match certainty {
                    Certainty::Perhaps => said.any(|tier| tiers.contains(tier)),
                    Certainty::Surely => said.all(|tier| tiers.contains(tier)),
                }
            }
            // As below, and shorter: many rules ask for one.
            Condition::Value { attribute: Attribute::Method, like } => {
                let method = facts.request.method();
                let is_like = |method: &str| {
                    !method.is_empty() && like.iter().any(|it| it.matches(method.as_bytes()))
                };
                is_like(method) || is_head(method) && is_like("GET")
            }
            Condition::Value { attribute, like } => {
                facts.has_value(attribute, certainty, |value| {
                    like.iter().any(|it| it.matches(value))
                })
            }
        }
    }

    /// Whether it holds for every request. Says no when unsure: all have a method and a path, but a
    /// host, an address or a header may be missing.
    fn always_holds(&self) -> bool {
        static EVERY_PATH: LazyLock<Option<Pattern>> = LazyLock::new(|| Pattern::parse("/**").ok());
        match self {
            Condition::Path(patterns) => {
                let every = EVERY_PATH.as_ref();
                every.is_some_and(|every| patterns.iter().any(|it| it.covers(every)))
            }
            Condition::Value { attribute: Attribute::Method, like } => {
                like.iter().any(Glob::is_any)
            }
            _ => false,
        }
    }

    /// Whether it holds wherever `narrow` does.
    fn covers(&self, narrow: &Condition) -> bool {
        match (self, narrow) {
            (Condition::Path(wide), Condition::Path(narrow)) => {
                narrow.iter().all(|it| wide.iter().any(|wide| wide.covers(it)))
            }
            (Condition::Network(wide), Condition::Network(narrow)) => {
                narrow.iter().all(|it| wide.iter().any(|wide| wide.contains(it)))
            }
            (Condition::Tier(wide), Condition::Tier(narrow)) => {
                narrow.iter().all(|it| wide.contains(it))
            }
            (
                Condition::Value { attribute, like },
                Condition::Value { attribute: other, like: narrow },
            ) => {
                let covered = |it: &Glob| like.iter().any(|wide| wide.covers(it));
                attribute == other && narrow.iter().all(covered)
            }
            (Condition::Not(wide), Condition::Not(narrow)) => narrow.covers(wide),
            _ => false,
        }
    }
}

impl fmt::Display for Condition {
    /// What is wanted, such as `path like /search/**`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Network(networks) => write!(f, "ip in {}", or(networks)),
            Condition::Not(matcher) => {
                let all = |all: &All| {
                    let texts: Vec<String> =
                        all.conditions.iter().map(ToString::to_string).collect();
                    texts.join(" and ")
                };
                let texts: Vec<String> = matcher.any.iter().map(all).collect();
                write!(f, "not ({})", texts.join(", or "))
            }
            Condition::Path(patterns) => write!(f, "path like {}", or(patterns)),
            Condition::Tier(_) => f.write_str("a tier that the rule names"),
            Condition::Value { attribute, like } if matches!(&like[..], [one] if one.is_any()) => {
                write!(f, "any {attribute}")
            }
            Condition::Value { attribute, like } => write!(f, "{attribute} {}", or(like)),
        }
    }
}

fn or(items: &[impl ToString]) -> String {
    let texts: Vec<String> = items.iter().map(ToString::to_string).collect();
    texts.join(" or ")
}
