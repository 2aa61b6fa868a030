//! What a request costs by its route.

use smallvec::SmallVec;

use crate::cost::Price;
use crate::facts::Facts;
use crate::matcher::Certainty;
use crate::rules::Rules;

impl Rules {
    /// Which cost counts for the request's route; none if its caller says what it costs.
    pub fn route_cost(&self, facts: &Facts<'_, '_>) -> Option<usize> {
        if self.costs.is_empty() || facts.request.cost().is_some() {
            return None;
        }
        // By whichever reading is dearest, of all that may be the first that matches. A request
        // without a cost costs one cell, so that no reading that is free makes it free.
        let cost = |at: &Option<usize>| {
            let said = at.map(|at| self.costs[at].1.at_request(facts));
            (said.unwrap_or(Price::Cells(1)), at.is_some())
        };
        facts.readings().flat_map(|reading| self.costs_by(reading)).max_by_key(cost).flatten()
    }

    /// The costs that may be for one reading of a request: up to the first that surely is, or none
    /// behind all of them.
    fn costs_by(&self, facts: &Facts<'_, '_>) -> SmallVec<[Option<usize>; 4]> {
        let mut found = SmallVec::new();
        for at in self.costs_index.candidates_by(facts) {
            let matcher = &self.costs[at as usize].0;
            if self.costs_index.confirms(at, matcher, facts) {
                found.push(Some(at as usize));
                if matcher.matches(facts, Certainty::Surely) {
                    return found;
                }
            }
        }
        found.push(None);
        found
    }
}
