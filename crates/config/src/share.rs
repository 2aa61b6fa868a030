//! A share: what tenants share by weight, and whose turn a request waits for.
//!
//! The weight is that of the outermost name: a tier is bought by the customer that pays, and those
//! within share alike.

use tidegate_core::fair::{Class, Settings, Shed, Weight};
use tidegate_core::{Policy, Span};

use crate::attribute::Attribute;
use crate::cost::Price;
use crate::facts::{Facts, Part, Parts, Value};
use crate::matcher::Matcher;
use crate::request::Response;
use crate::rules::Rules;

/// What tenants share, by a policy file.
#[derive(Debug)]
pub struct SharedCapacity {
    pub(crate) name: Box<str>,
    pub(crate) matcher: Matcher,
    pub(crate) capacity: Capacity,
    /// From the outside in; at least one, at most three.
    pub(crate) by: Vec<Attribute>,
    pub(crate) weights: Weights,
    /// The first that matches counts; without one, a request is of the normal class.
    pub(crate) classes: Vec<(Class, Matcher)>,
    pub(crate) wait: Span,
    pub(crate) waiting_max: u32,
    pub(crate) waiting_each_max: u32,
    pub(crate) sheds: bool,
}

/// How much there is to share.
#[derive(Clone, Copy, Debug)]
pub enum Capacity {
    /// So many at a time.
    InFlight(u32),
    /// So many over a time.
    Rate(Policy),
    /// As many at a time as are found to be right, within these bounds.
    Adaptive {
        /// At least so many, whatever is found.
        least: u32,
        /// At most so many.
        most: u32,
    },
}

/// The weights of tenants.
#[derive(Debug)]
pub(crate) enum Weights {
    All(Weight),
    /// By the tier's place; tiers that are not named have one.
    ByTier(Vec<Weight>),
}

/// One request's part in a share.
#[derive(Debug)]
pub struct Sharing<'f> {
    /// The share.
    pub share: &'f SharedCapacity,
    /// Its place among the shares.
    pub number: usize,
    /// The weight of the outermost name.
    pub weight: Weight,
    /// How much it matters.
    pub class: Class,
    /// How many cells it takes, as its route or its caller says.
    pub cost: u32,
    /// Whether the response may change what it costs.
    pub is_open: bool,
}

impl Sharing<'_> {
    /// The longest that it waits: the share's time, or its caller's if that is shorter. Most do
    /// not wait at all, so it is only looked up when it is asked for.
    pub fn wait(&self, facts: &Facts<'_, '_>) -> Span {
        facts.request.patience().map_or(self.share.wait, |it| it.min(self.share.wait))
    }
}

impl SharedCapacity {
    /// Its name in metrics: its queue is kept under it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How much there is to share.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// The longest that a request waits.
    pub fn wait(&self) -> Span {
        self.wait
    }

    /// How its queue is set up.
    pub fn settings(&self) -> Settings {
        let shed = self.sheds.then(Shed::default);
        Settings {
            levels: u8::try_from(self.by.len()).unwrap_or(u8::MAX),
            requests_max: self.waiting_max,
            flow_requests_max: self.waiting_each_max,
            shed,
            newest_first_after: shed.map(|shed| shed.interval),
            ..Settings::default()
        }
    }

    /// In whose name a request waits: tells `each`, from the outside in.
    pub fn names<'f>(&'f self, facts: &'f Facts<'_, '_>, mut each: impl FnMut(&Parts<'f>)) {
        for attribute in &self.by {
            let mut parts = Parts::new();
            if !facts.push(attribute, Some(&self.matcher), &mut parts) {
                parts.push(Part { source: attribute, value: Value::Missing });
            }
            each(&parts);
        }
    }

    fn class(&self, facts: &Facts<'_, '_>) -> Class {
        // What serves a request later may be for it; what serves it sooner has to be.
        let found = self.classes.iter().find(|(class, matcher)| match class {
            Class::Low => matcher.reading(facts).is_some(),
            _ => matcher.is_sure(facts),
        });
        found.map_or(Class::Normal, |(class, _)| *class)
    }
}

impl Capacity {
    /// The most cells that one request can take.
    pub fn whole(self) -> u32 {
        match self {
            Capacity::InFlight(cells) => cells,
            Capacity::Rate(policy) => policy.limit(),
            // A request takes one place there, whatever it costs.
            Capacity::Adaptive { .. } => u32::MAX,
        }
    }
}

impl Weights {
    fn of(&self, facts: &Facts<'_, '_>) -> Weight {
        match self {
            Weights::All(weight) => *weight,
            Weights::ByTier(weights) => {
                let of_tier = |tier: &usize| weights.get(*tier).copied().unwrap_or(Weight::ONE);
                facts.tiers().iter().map(of_tier).min().unwrap_or(Weight::ONE)
            }
        }
    }
}

impl Rules {
    /// What tenants share, in the order in which it is looked at.
    pub fn shares(&self) -> &[SharedCapacity] {
        &self.shares
    }

    /// The share that a request waits for: the first that matches. None for a request that costs
    /// nothing, since it only looks. `route_cost` is the plan's.
    pub fn sharing<'f>(
        &'f self,
        facts: &'f Facts<'_, '_>,
        route_cost: Option<usize>,
    ) -> Option<Sharing<'f>> {
        let mut shares = self.shares.iter().enumerate();
        let (number, share) = shares.find(|(_, share)| share.matcher.reading(facts).is_some())?;
        let route_cost = route_cost.and_then(|number| self.costs.get(number)).map(|(_, cost)| cost);
        let given = || Price::Cells(facts.request.cost().unwrap_or(1));
        let price = route_cost.map_or_else(given, |cost| cost.at_request(facts));
        let cost = price.cells(share.capacity.whole());
        if cost == 0 {
            return None;
        }
        Some(Sharing {
            share,
            number,
            weight: share.weights.of(facts),
            class: share.class(facts),
            cost: cost.min(share.capacity.whole()),
            is_open: route_cost.is_some_and(crate::cost::Cost::is_by_response),
        })
    }

    /// What a request should have cost under its share, by its response: `None` if that changes
    /// nothing. `route_cost` is the plan's.
    pub fn settled_share(&self, route_cost: Option<usize>, response: &dyn Response) -> Option<u32> {
        self.costs.get(route_cost?)?.1.at_response(response)
    }

    /// The rules alone: tests of a policy are about its limits, and nobody waits in them.
    #[must_use]
    pub fn without_shares(mut self) -> Rules {
        self.shares.clear();
        self
    }

    /// The share that a request falls into, for `tidegate check`.
    pub fn sharing_of<'f>(&'f self, facts: &'f Facts<'_, '_>) -> Option<Sharing<'f>> {
        self.sharing(facts, self.route_cost(facts))
    }
}
