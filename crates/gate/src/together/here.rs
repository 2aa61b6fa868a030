//! Several requests at once, in this process: one look at the store for all that is enforced.

use std::sync::Arc;

use tidegate_config::{Facts, Part, Plan, Request};
use tidegate_store::{By, MemoryStore};

use super::Together;
use super::share::Shares;
use crate::admission::Judged;
use crate::apart::Lease;
use crate::gate::Gate;
use crate::here::{Place, judge};

pub(super) fn admit(
    gate: &Gate,
    generation: &Arc<Lease>,
    store: &MemoryStore,
    requests: &[&dyn Request],
) -> Together {
    let now = gate.now();
    let requests = requests.iter();
    let facts: Vec<Facts<'_, '_>> =
        requests.map(|request| generation.rules.facts(*request, now)).collect();
    let plans: Vec<Plan<'_>> = facts.iter().map(|facts| generation.rules.plan(facts)).collect();
    let key_of = |parts: &[Part<'_>]| store.key(parts);
    let (shares, once) = Shares::new(generation, &plans, now, key_of);
    let (mut places, mut each): (Vec<Place<'_>>, Vec<Judged>) = (Vec::new(), Vec::new());
    for one in &once {
        gate.limits_here(generation, one.planned, one.key, now, |place, judged| {
            places.push(place);
            each.push(judged);
        });
    }
    let (enforced, shadow) = shares.limits(&once);
    let charges = shares.pass_so_far();
    let verdict = judge(store, &places[enforced.clone()], now, &mut each[enforced], charges);
    // What is refused is charged to nothing, not even in shadow.
    let charges = charges && verdict.passes();
    for limits in shadow {
        let _ = judge(store, &places[limits.clone()], now, &mut each[limits], charges);
    }
    shares.hand_out(By::Store, each.into_iter())
}
