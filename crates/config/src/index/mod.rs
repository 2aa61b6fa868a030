//! Finds the rules that may be for a request without looking at the others.
//!
//! Each alternative of a rule stands under one of its conditions, the rarest in the file: a path,
//! or an exact value of an attribute. What has neither is looked at for every request. The index
//! only has to find enough: whatever is found is matched afterwards, but for a condition that the
//! index has proved by finding it.

mod trie;

use std::collections::HashMap;

use foldhash::quality::RandomState;
use smallvec::SmallVec;

use self::trie::Trie;
use crate::attribute::Attribute;
use crate::facts::Facts;
use crate::matcher::{All, Certainty, Condition, Matcher};
use crate::path::{Case, Pattern, Servers};

/// The place of a rule in the order in which rules are read.
pub(crate) type RuleNumber = u32;

/// Rules that may be for a request, in order.
pub(crate) type Candidates = SmallVec<[RuleNumber; 16]>;

type ByValue = HashMap<Box<[u8]>, Vec<RuleNumber>, RandomState>;

/// Rules by what they are for.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Those that can only be known by asking.
    always: Vec<RuleNumber>,
    paths: Trie,
    /// Attribute by attribute: which rules want which value.
    values: Vec<(Attribute, ByValue)>,
    tiers: HashMap<usize, Vec<RuleNumber>, RandomState>,
    /// By rule.
    open: Vec<Open>,
    servers: Servers,
}

/// What is still to be asked of a rule that was found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Open {
    /// Everything.
    All,
    /// All conditions of its only alternative but one, by its place.
    AllBut(usize),
    /// Nothing: it is for the request.
    Nothing,
}

/// Under what an alternative can stand.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Place<'m> {
    Path(String),
    Tier(usize),
    Value(&'m Attribute, Box<[u8]>),
}

impl Index {
    pub(crate) fn new<'m>(
        matchers: impl Iterator<Item = &'m Matcher> + Clone,
        servers: Servers,
    ) -> Index {
        let mut counts: HashMap<Place<'m>, usize, RandomState> = HashMap::default();
        let all = |matcher: &'m Matcher| matcher.any.iter();
        for place in matchers.clone().flat_map(all).flat_map(|all| &all.conditions).flat_map(places)
        {
            *counts.entry(place).or_default() += 1;
        }
        let mut index = Index { servers, ..Index::default() };
        for (rule, matcher) in (0..).zip(matchers) {
            let mut open = Open::All;
            for all in &matcher.any {
                let proved = index.put(rule, all, &counts);
                open = Open::of(matcher, proved);
            }
            index.open.push(open);
        }
        index.always.dedup();
        index
    }

    /// Whether a rule that was found may be for the request.
    #[inline]
    pub(crate) fn confirms(
        &self,
        rule: RuleNumber,
        matcher: &Matcher,
        facts: &Facts<'_, '_>,
    ) -> bool {
        match (self.open[rule as usize], &matcher.any[..]) {
            (Open::Nothing, _) => true,
            (Open::AllBut(proved), [only]) => only.may_hold_but(proved, facts),
            _ => matcher.matches(facts, Certainty::Perhaps),
        }
    }

    /// By which reading of its path a rule that was found may be for the request; see
    /// [`Facts::readings`].
    #[inline]
    pub(crate) fn reading<'f, 'r, 'a>(
        &self,
        rule: RuleNumber,
        matcher: &Matcher,
        facts: &'f Facts<'r, 'a>,
    ) -> Option<&'f Facts<'r, 'a>> {
        if facts.has_others() {
            // It may have been found by another reading than this one, which proves nothing here.
            return matcher.reading(facts);
        }
        self.confirms(rule, matcher, facts).then_some(facts)
    }

    /// Puts an alternative where it will be found. Says which of its conditions is proved then, by
    /// its place.
    fn put<'m>(
        &mut self,
        rule: RuleNumber,
        all: &'m All,
        counts: &HashMap<Place<'m>, usize, RandomState>,
    ) -> Option<usize> {
        let crowd = |(at, condition): (usize, &'m Condition)| {
            let places = places(condition);
            let most = places.iter().map(|place| counts.get(place).copied().unwrap_or(1)).max();
            most.map(|most| (most, at, condition))
        };
        // Among equals the path: every request is looked up by that anyway.
        let rank = |(most, _, condition): &(usize, usize, &Condition)| {
            (*most, !matches!(condition, Condition::Path(_)))
        };
        let rarest = all.conditions.iter().enumerate().filter_map(crowd).min_by_key(rank);
        match rarest {
            None => {
                self.always.push(rule);
                None
            }
            Some((_, at, Condition::Path(patterns))) => {
                let case = Case::compared(self.servers);
                for pattern in patterns {
                    self.paths.put(pattern, case, rule);
                }
                patterns.iter().all(trie::is_proved).then_some(at)
            }
            Some((_, at, condition)) => {
                places(condition).into_iter().for_each(|place| self.put_value(rule, place));
                Some(at)
            }
        }
    }

    fn put_value(&mut self, rule: RuleNumber, place: Place<'_>) {
        match place {
            Place::Path(_) => {}
            Place::Tier(tier) => self.tiers.entry(tier).or_default().push(rule),
            Place::Value(attribute, value) => {
                let known = self.values.iter().position(|(other, _)| other == attribute);
                let at = known.unwrap_or_else(|| {
                    self.values.push((attribute.clone(), HashMap::default()));
                    self.values.len() - 1
                });
                self.values[at].1.entry(value).or_default().push(rule);
            }
        }
    }

    /// The rules that may be for a request by any reading of its path, each once, in order.
    #[inline]
    pub(crate) fn candidates(&self, facts: &Facts<'_, '_>) -> Candidates {
        let mut found = self.candidates_by(facts);
        for other in facts.others() {
            found.extend(self.candidates_by(other));
            put_in_order(&mut found);
        }
        found
    }

    /// As [`Index::candidates`], but by one reading.
    pub(crate) fn candidates_by(&self, facts: &Facts<'_, '_>) -> Candidates {
        let mut found = Candidates::new();
        put(&self.always, &mut found);
        self.paths.find(&facts.path, &mut found);
        for (attribute, rules) in &self.values {
            if facts.says_too_much(attribute) {
                found.extend(rules.values().flatten().copied());
                continue;
            }
            facts.has_value(attribute, Certainty::Perhaps, |value| {
                let rules = if ignores_case(attribute) {
                    // In place: most are as short as `GET`.
                    let mut lower: SmallVec<[u8; 64]> = SmallVec::from_slice(value);
                    lower.make_ascii_lowercase();
                    rules.get(&lower[..])
                } else {
                    rules.get(value)
                };
                put(rules.map_or(&[], Vec::as_slice), &mut found);
                // Every value has its rules.
                false
            });
        }
        if !self.tiers.is_empty() {
            for tier in facts.tiers() {
                put(self.tiers.get(tier).map_or(&[], Vec::as_slice), &mut found);
            }
        }
        put_in_order(&mut found);
        found
    }
}

impl Open {
    /// Where there are several alternatives, being found by one proves nothing of the others.
    fn of(matcher: &Matcher, proved: Option<usize>) -> Open {
        match (&matcher.any[..], proved) {
            ([only], None) if only.conditions.is_empty() => Open::Nothing,
            ([only], Some(_)) if only.conditions.len() == 1 => Open::Nothing,
            ([_], Some(proved)) => Open::AllBut(proved),
            _ => Open::All,
        }
    }
}

/// Adds rules that were found. One by one: most are few.
fn put(rules: &[RuleNumber], found: &mut Candidates) {
    for rule in rules {
        found.push(*rule);
    }
}

/// Puts rules in order, each once. Most are few and nearly in order.
fn put_in_order(found: &mut Candidates) {
    let rules = &mut found[..];
    if FEW < rules.len() {
        rules.sort_unstable();
        return found.dedup();
    }
    let mut is_twice = false;
    for end in 1..rules.len() {
        let rule = rules[end];
        let mut at = end;
        while 0 < at && rule < rules[at - 1] {
            rules[at] = rules[at - 1];
            at -= 1;
        }
        rules[at] = rule;
        is_twice |= 0 < at && rules[at - 1] == rule;
    }
    if is_twice {
        found.dedup();
    }
}

/// As many are put in order in the plain way.
const FEW: usize = 16;

/// Where an alternative with this condition may stand: in each of them, or nowhere.
fn places(condition: &Condition) -> SmallVec<[Place<'_>; 2]> {
    match condition {
        Condition::Path(patterns) if patterns.iter().all(starts_plain) => {
            patterns.iter().map(|pattern| Place::Path(pattern.to_string())).collect()
        }
        Condition::Tier(tiers) => tiers.iter().map(|tier| Place::Tier(*tier)).collect(),
        Condition::Value { attribute, like } => {
            let exact = like.iter().map(|glob| {
                (glob.ignores_case() == ignores_case(attribute)).then(|| glob.exact()).flatten()
            });
            let exact: Option<SmallVec<[Place<'_>; 2]>> =
                exact.map(|it| it.map(|it| Place::Value(attribute, it.into()))).collect();
            exact.unwrap_or_default()
        }
        _ => SmallVec::new(),
    }
}

/// Whether looking a path up narrows anything down.
fn starts_plain(pattern: &Pattern) -> bool {
    !trie::is_for_everything(pattern)
}

/// Whether values of an attribute mean the same in upper and lower case.
pub(crate) fn ignores_case(attribute: &Attribute) -> bool {
    matches!(attribute, Attribute::Host | Attribute::Method)
}
