//! Forgetting: the keys of a request are made fresh, as if they had never been seen.

use smallvec::SmallVec;
use tidegate_config::{Planned, Request};

use crate::answer::name_of;
use crate::gate::Gate;
use crate::generation::Generation;
use crate::later::{Later, later};
use crate::store::{AnyStore, StoreFailure};

later! {
    /// Keys that are being made fresh: done at once in this process. The names of the limits.
    Resetting -> Result<Vec<String>, StoreFailure>
}

impl Gate {
    /// Makes the keys of this request fresh under the rules that are for it, those in shadow
    /// included, or only under `rule`. Gives the names of the limits that were reset.
    ///
    /// A rule with tiers forgets what was counted under the tier of this request. Permits are
    /// forgotten, too: those that are held still work, but do not count any more.
    pub fn reset(&self, request: &dyn Request, rule: Option<&str>) -> Resetting {
        let generation = self.0.generation();
        let facts = generation.rules.facts(request, self.0.clock.now());
        let plan = generation.rules.plan(&facts);
        let is_wanted =
            |planned: &&Planned<'_>| rule.is_none_or(|rule| rule == planned.rule.name());
        let wanted: SmallVec<[&Planned<'_>; 4]> = plan.charges.iter().filter(is_wanted).collect();
        Resetting(match &self.0.store {
            #[cfg(feature = "redis")]
            AnyStore::Fleet(fleet) => crate::fleet::reset(self, &generation, fleet, &wanted),
            AnyStore::Here(_) => Later::Here(self.reset_here(&generation, &wanted)),
        })
    }

    fn reset_here(
        &self,
        generation: &Generation,
        wanted: &[&Planned<'_>],
    ) -> Result<Vec<String>, StoreFailure> {
        let (mut names, now) = (Vec::with_capacity(wanted.len()), self.now());
        let Some(store) = self.0.store.here() else { return Ok(names) };
        for planned in wanted {
            let key = store.key(&planned.key[..]);
            let key = key.map_err(|error| StoreFailure::new(error.to_string()))?;
            self.limits_here(generation, planned, key, now, |(present, key), _| {
                present.here().inspect(|rule| store.reset(rule, key));
            });
            names.extend(names_of(planned));
        }
        Ok(names)
    }
}

/// The names of all limits of a rule.
pub(crate) fn names_of(planned: &Planned<'_>) -> impl Iterator<Item = String> {
    let limits = planned.rule.variants()[planned.variant].policies().iter();
    limits.map(|timed| name_of(planned.rule.name(), timed.part()))
}
