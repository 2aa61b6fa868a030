//! What a policy file says about one request: which limits judge it, by which keys, at what cost.

use smallvec::SmallVec;

use crate::cost::{Cost, Price};
use crate::facts::{Facts, Parts};
use crate::index::RuleNumber;
use crate::key::{KeySource, LastKey};
use crate::matcher::Certainty;
use crate::route::{Chosen, Route};
use crate::rule::{Action, Quotas, Rule};
use crate::rules::Rules;
use crate::stable;

/// By which limits a request is judged.
#[derive(Debug)]
pub struct Plan<'f> {
    /// The limits, in the order of the rules.
    pub charges: SmallVec<[Planned<'f>; 4]>,
    /// The rule that lets the request pass whatever those below it say, or blocks it.
    pub stopped: Option<Stopped<'f>>,
    /// Whether it is refused for an API key that nobody has.
    pub is_unknown_key: bool,
    /// Whether there are more limits than can be judged together.
    pub is_too_much: bool,
    /// Which of the file's costs counts for the route; none if the caller says what it costs.
    pub route_cost: Option<usize>,
}

/// What a plan says beside its limits.
#[derive(Clone, Copy, Debug)]
pub struct Outline<'f> {
    /// As in [`Plan::stopped`].
    pub stopped: Option<Stopped<'f>>,
    /// As in [`Plan::is_unknown_key`].
    pub is_unknown_key: bool,
    /// As in [`Plan::is_too_much`].
    pub is_too_much: bool,
    /// As in [`Plan::route_cost`].
    pub route_cost: Option<usize>,
}

/// One rule's part in a plan.
#[derive(Debug)]
pub struct Planned<'f> {
    /// What it asks.
    pub asks: Asks<'f>,
    /// The key that it counts.
    pub key: Parts<'f>,
}

/// What a rule asks of a request, whichever key it counts.
#[derive(Clone, Copy, Debug)]
pub struct Asks<'f> {
    /// The rule.
    pub rule: &'f Rule,
    /// Its place among the rules.
    pub number: usize,
    /// Which of its quotas, by their place.
    pub variant: usize,
    /// How many cells.
    pub cost: u32,
    /// Whether the response may change what it costs.
    pub is_open: bool,
    /// Whether it is judged and counted, but does not refuse.
    pub is_shadow: bool,
}

impl<'f> Asks<'f> {
    /// What a steady rule asks.
    #[inline]
    fn steady(rule: &'f Rule, number: usize, cost: u32) -> Asks<'f> {
        Asks { rule, number, variant: 0, cost, is_open: false, is_shadow: false }
    }
}

/// The key that a rule counts.
#[derive(Clone, Copy, Debug)]
pub struct Who<'w, 'f> {
    /// The parts of the key.
    pub parts: &'w Parts<'f>,
    /// What the parts are taken from: where that is the same, they are.
    pub source: KeySource,
}

/// The rules that are known to be for a request's route, one after the other: all are steady.
#[derive(Debug)]
pub struct Known<'f> {
    list: &'f [Rule],
    chosen: std::slice::Iter<'f, RuleNumber>,
    /// What the request costs.
    given: u32,
    limits: usize,
    is_unknown_key: bool,
    last: LastKey<'f>,
}

impl<'f> Known<'f> {
    /// What the next rule asks, and the key that it counts. `facts` are those of the request.
    #[inline]
    pub fn next(&mut self, facts: &'f Facts<'_, '_>) -> Option<(Asks<'f>, Who<'_, 'f>)> {
        loop {
            let number = *self.chosen.next()? as usize;
            let rule = &self.list[number];
            let Some(steady) = rule.steady else { continue };
            if self.last.look_up_plain(steady.source, facts, rule) {
                self.limits += usize::from(steady.limits);
                return Some((Asks::steady(rule, number, self.given), self.last.who()));
            }
        }
    }

    /// What is said beside the limits of the rules so far.
    #[inline]
    pub fn outline(&self) -> Outline<'f> {
        let is_too_much = Rules::LIMITS_MAX < self.limits;
        let is_unknown_key = self.is_unknown_key;
        Outline { stopped: None, is_unknown_key, is_too_much, route_cost: None }
    }
}

/// A rule that ends the list.
#[derive(Clone, Copy, Debug)]
pub struct Stopped<'f> {
    /// The rule.
    pub rule: &'f Rule,
    /// Its place among the rules.
    pub number: usize,
    /// Whether it refuses; otherwise it lets pass.
    pub blocks: bool,
    /// Whether it does so because the request does not say how long its body is.
    pub wants_length: bool,
}

/// Why a rule has no part in a plan, or which.
#[derive(Debug)]
pub(crate) enum Turn<'f> {
    Blocks,
    Charges(Asks<'f>),
    /// A part of the key is missing, and the rule is skipped then.
    Misses,
    /// The tier or the key has no limit under this rule.
    NoLimit {
        variant: usize,
    },
    Unlimited,
    /// The request has to say how long its body is.
    WantsLength,
}

impl Rules {
    /// The most limits that one request is judged by together.
    pub const LIMITS_MAX: usize = 16;

    /// By which limits a request is judged. `facts` are of these rules.
    pub fn plan<'f>(&'f self, facts: &'f Facts<'_, '_>) -> Plan<'f> {
        let mut charges = SmallVec::new();
        let outline = self.walk(facts, |asks, who| {
            charges.push(Planned { asks, key: who.parts.clone() });
        });
        let Outline { stopped, is_unknown_key, is_too_much, route_cost } = outline;
        Plan { charges, stopped, is_unknown_key, is_too_much, route_cost }
    }

    /// As [`Rules::plan`], for a caller that takes each limit as it is found, in order. `facts` are
    /// of these rules.
    #[inline]
    pub fn walk<'f>(
        &'f self,
        facts: &'f Facts<'_, '_>,
        mut each: impl FnMut(Asks<'f>, Who<'_, 'f>),
    ) -> Outline<'f> {
        let Some(mut known) = self.known(facts) else { return self.walk_found(facts, &mut each) };
        while let Some((asks, who)) = known.next(facts) {
            each(asks, who);
        }
        known.outline()
    }

    /// The rules that are for a request, if they are known by its route. `facts` are of these
    /// rules.
    #[inline]
    pub fn known<'f>(&'f self, facts: &'f Facts<'_, '_>) -> Option<Known<'f>> {
        let Route::Known(chosen) = &facts.route else { return None };
        let given = facts.request.cost().unwrap_or(1);
        Some(Known {
            list: &self.list,
            chosen: chosen.iter(),
            given,
            limits: 0,
            is_unknown_key: facts.is_refused_for_key(),
            last: LastKey::default(),
        })
    }

    /// Looks for the rules that are for a request.
    #[inline(never)]
    fn walk_found<'f>(
        &'f self,
        facts: &'f Facts<'_, '_>,
        each: &mut impl FnMut(Asks<'f>, Who<'_, 'f>),
    ) -> Outline<'f> {
        // Of a new route, its rules, for as long as they are all steady.
        let mut chosen = matches!(facts.route, Route::New { .. }).then(Chosen::new);
        let number = self.route_cost(facts);
        let is_unknown_key = facts.is_refused_for_key();
        let mut outline =
            Outline { stopped: None, is_unknown_key, is_too_much: false, route_cost: number };
        let route_cost = number.map(|number| &self.costs[number].1);
        // What a steady rule asks, if the route has no cost and the path has one reading.
        let is_plain = route_cost.is_none() && !facts.has_others();
        let given = facts.request.cost().unwrap_or(1);
        let mut limits = 0;
        let mut last = LastKey::default();
        for candidate in self.index.candidates(facts) {
            let number = candidate as usize;
            let rule = &self.list[number];
            if is_plain && let Some(steady) = rule.steady {
                if !self.index.confirms(candidate, &rule.matcher, facts) {
                    continue;
                }
                // Whether one that ends the list does so depends on the key that it counts.
                chosen = chosen.filter(|chosen| !chosen.is_full() && !rule.is_last);
                if let Some(chosen) = &mut chosen {
                    chosen.push(candidate);
                }
                if last.look_up_plain(steady.source, facts, rule) {
                    limits += usize::from(steady.limits);
                    each(Asks::steady(rule, number, given), last.who());
                    if rule.is_last && rule.matcher.is_sure(facts) {
                        break;
                    }
                }
                continue;
            }
            let Some(reading) = self.index.reading(candidate, &rule.matcher, facts) else {
                continue;
            };
            chosen = None;
            match self.turn_by_any(number, reading, route_cost, &mut last) {
                Turn::Charges(asks) => {
                    if !asks.is_shadow {
                        limits += rule.variants()[asks.variant].policies().len();
                    }
                    each(asks, last.who());
                }
                // What is skipped ends nothing: otherwise a client that leaves its key out would be
                // free of the rules below as well.
                Turn::Misses => continue,
                Turn::NoLimit { .. } => {}
                Turn::Unlimited if !rule.matcher.is_sure(facts) => {}
                turn @ (Turn::Blocks | Turn::Unlimited | Turn::WantsLength) => {
                    let wants_length = matches!(turn, Turn::WantsLength);
                    let blocks = wants_length || matches!(turn, Turn::Blocks);
                    outline.stopped = Some(Stopped { rule, number, blocks, wants_length });
                    break;
                }
            }
            if rule.is_last && rule.matcher.is_sure(facts) {
                break;
            }
        }
        if let (Some(chosen), Route::New { of, hash }) = (chosen, &facts.route)
            && facts.path.is_plain()
            && !facts.has_others()
        {
            of.learn(*hash, (facts.request.method(), facts.request.path()), &chosen);
        }
        outline.is_too_much = Rules::LIMITS_MAX < limits;
        outline
    }

    /// As [`Rules::turn`], for a rule that matches by this reading of the path. What the rule
    /// misses there, it may find by the next; and where another gives less, it gives that.
    #[inline(never)]
    pub(crate) fn turn_by_any<'f>(
        &'f self,
        number: usize,
        facts: &'f Facts<'_, '_>,
        route_cost: Option<&Cost>,
        last: &mut LastKey<'f>,
    ) -> Turn<'f> {
        let mut turn = self.turn(number, facts, route_cost, last);
        let rule = &self.list[number];
        for other in facts.others() {
            let is_open = matches!(turn, Turn::Misses) || rule.steady.is_none();
            if !is_open || !rule.matcher.matches(other, Certainty::Perhaps) {
                continue;
            }
            let mut key = LastKey::default();
            let by_other = self.turn(number, other, route_cost, &mut key);
            if by_other.gives_less_than(&turn, rule) {
                (turn, *last) = (by_other, key);
            }
        }
        turn
    }

    /// What a rule that matches does with a request. The key that it counts is left in `last`.
    #[inline]
    pub(crate) fn turn<'f>(
        &'f self,
        number: usize,
        facts: &'f Facts<'_, '_>,
        route_cost: Option<&Cost>,
        last: &mut LastKey<'f>,
    ) -> Turn<'f> {
        let rule = &self.list[number];
        let limit = match &rule.action {
            Action::Block => return Turn::Blocks,
            Action::Unlimited => return Turn::Unlimited,
            Action::Limit(limit) => limit,
        };
        if !last.look_up(limit, facts, rule) {
            return Turn::Misses;
        }
        if rule.steady.is_some() && route_cost.is_none() {
            let cost = facts.request.cost().unwrap_or(1);
            return Turn::Charges(Asks::steady(rule, number, cost));
        }
        let variant = last.variant(limit, facts, rule);
        let is_shadow =
            limit.enforced < 10_000 && limit.enforced <= stable::place(&rule.name, last.parts());
        match limit.variants[variant].quota {
            // Nothing is counted where nothing may pass, so a block in shadow does nothing.
            Quotas::Block if is_shadow => return Turn::NoLimit { variant },
            Quotas::Block => return Turn::Blocks,
            Quotas::Unlimited => return Turn::NoLimit { variant },
            Quotas::Judged(_) => {}
        }
        let cost = limit.cost.as_ref().or(route_cost);
        let is_open = limit.counts_when.is_some() || cost.is_some_and(Cost::is_by_response);
        let given = || Price::Cells(facts.request.cost().unwrap_or(1));
        let price = cost.map_or_else(given, |cost| cost.at_request(facts));
        if price == Price::Unsaid && !is_shadow {
            return Turn::WantsLength;
        }
        let cost = price.cells(limit.variants[variant].most_at_once());
        Turn::Charges(Asks { rule, number, variant, cost, is_open, is_shadow })
    }
}

impl Turn<'_> {
    /// Whether it is the stricter of two turns of one rule.
    fn gives_less_than(&self, other: &Turn<'_>, rule: &Rule) -> bool {
        let rank = |turn: &Turn<'_>| match turn {
            Turn::Blocks | Turn::WantsLength => 0,
            Turn::Charges(asks) => 1 + u8::from(asks.is_shadow),
            Turn::NoLimit { .. } | Turn::Unlimited => 3,
            Turn::Misses => 4,
        };
        match (self, other) {
            (Turn::Charges(this), Turn::Charges(other)) if this.is_shadow == other.is_shadow => {
                let variants = rule.variants();
                variants[this.variant].is_tighter_than(&variants[other.variant])
            }
            _ => rank(self) < rank(other),
        }
    }
}

impl<'f> Plan<'f> {
    /// What it says beside its limits.
    pub fn outline(&self) -> Outline<'f> {
        let Plan { stopped, is_unknown_key, is_too_much, route_cost, .. } = *self;
        Outline { stopped, is_unknown_key, is_too_much, route_cost }
    }
}

impl<'f> std::ops::Deref for Planned<'f> {
    type Target = Asks<'f>;

    fn deref(&self) -> &Asks<'f> {
        &self.asks
    }
}
