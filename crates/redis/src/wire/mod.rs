//! Sends script calls to the server that holds a slot, each at most once.
//!
//! A call whose outcome is unknown is never sent again; a call that the server certainly did not
//! run may be. Who to connect to, when to connect again and what to send again are decided here,
//! because the client library's own cluster client repeats calls after a broken connection, and
//! its Sentinel client does not follow a fail-over.

mod answer;
mod backoff;
mod batch;
mod cluster;
mod dial;
mod frame;
mod hello;
mod info;
mod join;
mod keeper;
mod link;
mod node;
mod pipe;
mod refusal;
mod reply;
mod run;
mod script;
mod sentinel;
mod shared;
mod slots;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Tick;
use tidegate_store::{Clock as _, SystemClock};
use tokio::time::timeout;

use self::batch::{Flight, chase};
use self::dial::{Dialer, within};
use self::info::Wanted;
use self::keeper::{Way, keep};
use self::link::Task;
pub(crate) use self::refusal::{CallError, Refusal};
pub(crate) use self::reply::{Item, Items, Reply};
pub(crate) use self::run::ServerRun;
pub(crate) use self::script::{Script, ScriptCall, slot_of};
use self::sentinel::Sentinels;
pub(crate) use self::shared::LANES_MAX;
use self::shared::Shared;
use self::slots::Slots;
use crate::error::ConnectError;
use crate::settings::{Address, Settings, Topology};
use tidegate_store::Health;

/// The connections to all servers.
#[derive(Debug)]
pub(crate) struct Wire {
    shared: Arc<Shared>,
    clock: SystemClock,
    /// Keeps the slot map, in a cluster.
    _follower: Option<Task>,
}

impl Wire {
    /// Connects for the first time, and checks that the servers will do. Where nobody answers yet
    /// it begins without a connection, unless the settings want one.
    pub(crate) async fn connect(settings: &Settings) -> Result<Wire, ConnectError> {
        let dialer = Dialer::new(settings)?;
        let is_required = settings.is_required;
        match &settings.topology {
            Topology::Single(address) => {
                let way = Way { dialer, wanted: Wanted::Primary, sentinels: None };
                Wire::connect_one(way, address.clone(), is_required).await
            }
            Topology::Sentinel { sentinels, master } => {
                let address = sentinels[0].clone();
                let sentinels = Some(Sentinels::new(sentinels.clone(), master.clone()));
                let way = Way { dialer, wanted: Wanted::Primary, sentinels };
                Wire::connect_one(way, address, is_required).await
            }
            Topology::Cluster(seeds) => {
                let way = Way { dialer, wanted: Wanted::ClusterNode, sentinels: None };
                Wire::connect_cluster(way, seeds.clone(), is_required).await
            }
        }
    }

    fn new(shared: Arc<Shared>, follower: Option<Task>) -> Wire {
        Wire { shared, clock: SystemClock::new(), _follower: follower }
    }

    async fn connect_one(
        way: Way,
        address: Address,
        is_required: bool,
    ) -> Result<Wire, ConnectError> {
        let shared = Shared::new(way, None);
        let lane = shared.first_lane(address);
        match shared.way.connect(lane).await {
            Ok(()) => {}
            Err(error) if begins_without(&error, is_required) => lane.fail(&error),
            Err(error) => return Err(error),
        }
        keep(lane, &shared.way);
        Ok(Wire::new(Arc::new(shared), None))
    }

    async fn connect_cluster(
        way: Way,
        seeds: Vec<Address>,
        is_required: bool,
    ) -> Result<Wire, ConnectError> {
        let shared = Arc::new(Shared::new(way, Some(Slots::new())));
        let begun = cluster::begin(&shared, &seeds);
        let begun = if is_required {
            begun.await
        } else {
            // A caller that can start without a server does not wait for every seed of a long list.
            within(shared.way.dialer.timeout() * 3, &seeds[0], begun).await
        };
        match begun {
            Ok(()) => {}
            Err(error) if begins_without(&error, is_required) => {
                // All slots are its own until the map is known, and it sends us on.
                let lane = shared.lane_for(&seeds[0]).map(|number| shared.lane(number));
                lane.inspect(|lane| lane.fail(&error));
            }
            Err(error) => return Err(error),
        }
        // Of many servers one may always be down; the others need not wait for it longer.
        let _ = timeout(shared.way.dialer.timeout(), async {
            for lane in shared.lanes() {
                lane.wait().await;
            }
        })
        .await;
        let follower = cluster::follow(&shared, seeds);
        Ok(Wire::new(shared, Some(follower)))
    }

    /// The lane of the server that holds `slot`: a small number that stays the same for one server,
    /// always below `LANES_MAX`, and always zero unless in a cluster.
    pub(crate) fn lane_of(&self, slot: u16) -> usize {
        self.shared.lane_of(slot)
    }

    /// Sends a call to `lane` before `deadline`, and waits for the answer until then.
    ///
    /// Follows redirections, and waits for a connection if there is none.
    pub(crate) async fn run_one(
        &self,
        lane: usize,
        call: ScriptCall,
        deadline: Tick,
    ) -> Result<Reply, CallError> {
        let shared = &*self.shared;
        let mut flight = Flight::new(call, lane);
        if let Some(link) = shared.lane(lane).link() {
            flight.send(shared, &link, deadline).await;
        }
        if !flight.is_done() {
            // What is not done by then says of itself whether it was sent.
            let left = Duration::from(deadline.since(self.clock.now()));
            let _ = timeout(left, chase(shared, vec![&mut flight])).await;
        }
        flight.end()
    }

    /// Sends all calls to `lane` in one write, and answers in their order, all `within` the time.
    pub(crate) async fn run(
        &self,
        lane: usize,
        calls: Vec<ScriptCall>,
        within: Duration,
    ) -> Vec<Result<Reply, CallError>> {
        let shared = &*self.shared;
        let mut flights: Vec<_> = calls.into_iter().map(|call| Flight::new(call, lane)).collect();
        let _ = timeout(within, chase(shared, flights.iter_mut().collect())).await;
        flights.into_iter().map(Flight::end).collect()
    }

    /// Gives up the lane's connection and looks for the primary anew.
    pub(crate) fn reconnect(&self, lane: usize) {
        self.shared.lane(lane).give_up("calls keep timing out");
    }

    /// The present run of all servers: to be noted before something is charged.
    pub(crate) fn run_now(&self) -> ServerRun {
        self.shared.runs.now()
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.shared.slots.is_some()
    }

    pub(crate) fn health(&self) -> Health {
        let nodes = self.shared.lanes().filter(|lane| !lane.is_idle()).map(|lane| lane.health());
        let mut health = Health::default();
        health.nodes = nodes.collect();
        health
    }
}

/// Whether a wire begins without a connection, because of what its first try has found.
fn begins_without(error: &ConnectError, is_required: bool) -> bool {
    // A server that loads its data has been found to be right in everything else.
    matches!(error, ConnectError::Loading { .. }) || (!is_required && error.may_pass())
}

#[cfg(test)]
mod tests;
