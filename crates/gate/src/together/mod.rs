//! Several requests decided as one: all limits of all of them let it pass, or none is charged.
//!
//! A rule that several of them meet with one key is asked once, for the highest cost; the one that
//! brought that cost holds the charge, and only it can give it back.

#[cfg(feature = "redis")]
mod fleet;
mod here;
mod share;

use tidegate_config::Request;
use tidegate_core::Verdict;

use crate::admission::Admission;
use crate::gate::Gate;
use crate::later::{Later, later};
use crate::store::AnyStore;

/// What was decided about several requests as one.
#[derive(Debug)]
pub struct Together {
    /// The verdict over all of them.
    pub verdict: Verdict,
    /// One for each request, in order. Its verdict is that of its own limits: where all of it was
    /// refused, those that would pass by themselves say so, and nothing was charged to them.
    pub each: Vec<Admission>,
}

later! {
    /// A decision about several requests that is being made. In this process it is there at once.
    AdmitTogether -> Together
}

impl Gate {
    /// Decides about several requests as one: all limits of all of them let it pass, or none is
    /// charged. One admission for each, in order.
    ///
    /// A limit that several of them share under one key is charged once, by the highest cost; the
    /// first that has this cost holds the charge, and is the one to settle, refund or drop. More
    /// than [`Rules::LIMITS_MAX`](tidegate_config::Rules::LIMITS_MAX) limits together never pass.
    pub fn admit_together(&self, requests: &[&dyn Request]) -> AdmitTogether {
        self.advance();
        let current = self.0.current.load();
        let generation = current.mine();
        AdmitTogether(match &self.0.store {
            #[cfg(feature = "redis")]
            AnyStore::Fleet(fleet) => fleet::admit(self, generation, fleet, requests),
            AnyStore::Here(store) => Later::Here(here::admit(self, generation, store, requests)),
        })
    }
}
