//! Several requests at once, by Redis: one round trip for all that is enforced.

use std::sync::Arc;

use tidegate_config::{Facts, Plan, Request};
use tidegate_redis::Fleet;

use super::Together;
use super::share::Shares;
use crate::apart::Lease;
use crate::fleet::{Asked, judge};
use crate::fleet_key::fleet_key;
use crate::gate::Gate;
use crate::later::Later;

/// All that is needed of the requests is taken here.
pub(super) fn admit(
    gate: &Gate,
    generation: &Arc<Lease>,
    fleet: &Fleet,
    requests: &[&dyn Request],
) -> Later<Together> {
    // Calendars go by the server's clock, as everything that is decided there does.
    let (now, server_now) = (gate.now(), fleet.server_now());
    let requests = requests.iter();
    let facts: Vec<Facts<'_, '_>> =
        requests.map(|request| generation.rules.facts(*request, now)).collect();
    let plans: Vec<Plan<'_>> = facts.iter().map(|facts| generation.rules.plan(facts)).collect();
    let secret = generation.home.secret.as_ref();
    let key_of = |parts: &[tidegate_config::Part<'_>]| fleet_key(parts, secret);
    let (shares, once) = Shares::new(generation, &plans, now, key_of);
    let (mut enforced, mut shadow) = (Vec::new(), Vec::new());
    for one in &once {
        let asked = if one.planned.is_shadow { &mut shadow } else { &mut enforced };
        gate.ask(fleet, generation, one.planned, one.key, server_now, asked);
    }
    let fleet = fleet.clone();
    Later::Asked(Box::pin(async move {
        let charges = shares.pass_so_far();
        let (_, by) = judge(&fleet, &mut enforced, &mut shadow, charges).await;
        shares.hand_out(by, enforced.into_iter().chain(shadow).map(Asked::into_judged))
    }))
}
