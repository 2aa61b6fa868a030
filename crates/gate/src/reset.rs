//! Forgetting: the keys of a request are made fresh, as if they had never been seen.

use smallvec::SmallVec;
use tidegate_config::{Planned, Request};
use tidegate_store::{Later, Place, StoreFailure};

use crate::admission::Judged;
use crate::answer::name_of;
use crate::gate::Gate;
use crate::judge::unsaid;
use crate::later::later;

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
        let in_force = self.0.in_force();
        let facts = in_force.rules.facts(request, self.0.clock.now());
        let plan = in_force.rules.plan(&facts);
        let is_wanted =
            |planned: &&Planned<'_>| rule.is_none_or(|rule| rule == planned.rule.name());
        let wanted: SmallVec<[&Planned<'_>; 4]> = plan.charges.iter().filter(is_wanted).collect();
        let (home, now) = (&self.0.home, self.0.home.now());
        let (mut names, mut limits) = (Vec::with_capacity(wanted.len()), Vec::new());
        for planned in wanted {
            match home.key(&planned.key) {
                Ok(key) => limits.extend(unsaid(&in_force, planned, &key)),
                Err(error) => {
                    return Resetting(Later::Ready(Err(StoreFailure::new(error.to_string()))));
                }
            }
            names.extend(names_of(planned));
        }
        let reset = |judged: &Judged| {
            let limit = in_force.present(judged, now);
            home.store.reset(Place { limit: &limit, key: &judged.key })
        };
        let resets: Vec<_> = limits.iter().map(reset).collect();
        Resetting(home.later(async move {
            for reset in resets {
                reset.await?;
            }
            Ok(names)
        }))
    }
}

/// The names of all limits of a rule.
pub(crate) fn names_of(planned: &Planned<'_>) -> impl Iterator<Item = String> {
    let limits = planned.rule.variants()[planned.variant].policies().iter();
    limits.map(|timed| name_of(planned.rule.name(), timed.part()))
}
