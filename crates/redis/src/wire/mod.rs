//! Sends script calls to whoever holds a slot, each at most once.
//!
//! A call whose outcome is unknown is never sent again; a call that the server certainly did not
//! run may be. The client library carries one connection to one server; who that is, when to
//! connect again and what to send again are decided here, because the library's own cluster client
//! repeats calls after a broken connection, and its Sentinel client does not follow a fail-over.

mod answer;
mod backoff;
mod batch;
mod cluster;
mod dial;
mod info;
mod join;
mod keeper;
mod lane;
mod link;
mod refusal;
mod script;
mod sentinel;
mod shared;
mod slots;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use tokio::time::timeout;

use self::batch::{Flight, chase};
use self::dial::Dialer;
use self::info::Wanted;
use self::keeper::{Way, keep};
use self::link::Task;
pub(crate) use self::refusal::{CallError, Refusal};
pub(crate) use self::script::{Script, ScriptCall, slot_of};
use self::sentinel::Sentinels;
pub(crate) use self::shared::LANES_MAX;
use self::shared::Shared;
use self::slots::Slots;
use crate::error::ConnectError;
use crate::health::Health;
use crate::settings::{Address, Settings, Topology};

/// The connections to all servers.
#[derive(Debug)]
pub(crate) struct Wire {
    shared: Arc<Shared>,
    /// Keeps the slot map, in a cluster.
    _follower: Option<Task>,
}

impl Wire {
    /// Connects for the first time, and checks that the servers will do.
    pub(crate) async fn connect(settings: &Settings) -> Result<Wire, ConnectError> {
        let dialer = Dialer::new(settings)?;
        match &settings.topology {
            Topology::Single(address) => {
                let way = Way { dialer, wanted: Wanted::Primary, sentinels: None };
                Wire::connect_one(way, address.clone()).await
            }
            Topology::Sentinel { sentinels, master } => {
                let address = sentinels[0].clone();
                let sentinels = Some(Sentinels::new(sentinels.clone(), master.clone()));
                Wire::connect_one(Way { dialer, wanted: Wanted::Primary, sentinels }, address).await
            }
            Topology::Cluster(seeds) => {
                let way = Way { dialer, wanted: Wanted::ClusterNode, sentinels: None };
                Wire::connect_cluster(way, seeds.clone()).await
            }
        }
    }

    async fn connect_one(
        way: Way,
        address: crate::settings::Address,
    ) -> Result<Wire, ConnectError> {
        let shared = Shared::new(way, None);
        let lane = shared.first_lane(address);
        match shared.way.connect(lane).await {
            Ok(()) => {}
            // It will be there in a while, and everything else about it was found to be right.
            Err(error @ ConnectError::Loading { .. }) => lane.fail(&error),
            Err(error) => return Err(error),
        }
        keep(lane, &shared.way);
        Ok(Wire { shared: Arc::new(shared), _follower: None })
    }

    async fn connect_cluster(way: Way, seeds: Vec<Address>) -> Result<Wire, ConnectError> {
        let shared = Arc::new(Shared::new(way, Some(Slots::new())));
        cluster::begin(&shared, &seeds).await?;
        // Of many servers one may always be down; the others need not wait for it longer.
        let _ = timeout(shared.way.dialer.timeout(), async {
            for lane in shared.lanes() {
                lane.wait().await;
            }
        })
        .await;
        let follower = cluster::follow(&shared, seeds);
        Ok(Wire { shared, _follower: Some(follower) })
    }

    /// The lane of whoever holds `slot`: a small number that stays the same for one server, always
    /// below `LANES_MAX`, and always zero unless in a cluster.
    pub(crate) fn lane_of(&self, slot: u16) -> usize {
        self.shared.lane_of(slot)
    }

    /// Sends all calls to `lane` in one write, and answers in their order.
    ///
    /// Follows redirections, and waits for a connection if there is none, all `within` the time.
    pub(crate) async fn run(
        &self,
        lane: usize,
        calls: Vec<ScriptCall>,
        within: Duration,
    ) -> Vec<Result<Value, CallError>> {
        let shared = &*self.shared;
        let mut flights: Vec<_> = calls.into_iter().map(|call| Flight::new(call, lane)).collect();
        // What is not done by then says of itself whether it was sent.
        let _ = timeout(within, async {
            if let [flight] = &mut flights[..]
                && let Some(link) = shared.lane(lane).link()
            {
                flight.send(shared, link).await;
                if flight.is_done() {
                    return;
                }
            }
            chase(shared, flights.iter_mut().collect()).await;
        })
        .await;
        flights.into_iter().map(Flight::end).collect()
    }

    /// Gives up the lane's connection and looks for the primary anew.
    pub(crate) fn reconnect(&self, lane: usize) {
        self.shared.lane(lane).give_up("calls keep timing out");
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.shared.slots.is_some()
    }

    pub(crate) fn health(&self) -> Health {
        let nodes = self.shared.lanes().filter(|lane| !lane.is_idle()).map(|lane| lane.health());
        Health { nodes: nodes.collect() }
    }
}

#[cfg(test)]
mod tests;
