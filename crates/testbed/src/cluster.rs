//! A cluster: three primaries with a third of the slots and a replica each.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::slot::SLOTS;
use crate::view::View;
use crate::{Flavor, Server, ServerBuilder, wait};

/// Six servers that are one cluster. Nodes are called by their index; `0..3` begin as primaries.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) nodes: Vec<Server>,
}

impl Cluster {
    /// A cluster of Redis servers, once every node says that all is well.
    pub fn start() -> Result<Cluster> {
        Cluster::start_with(Flavor::Redis)
    }

    /// A cluster of the given program, or of servers with the given settings.
    pub fn start_with(node: impl Into<ServerBuilder>) -> Result<Cluster> {
        Cluster::launch(&node.into().node())
    }

    /// Where to connect, for each node.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Server::url).collect()
    }

    /// The servers.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The servers, to kill and restart.
    pub fn nodes_mut(&mut self) -> &mut [Server] {
        &mut self.nodes
    }

    /// Who owns a slot: of the nodes that say so themselves, the one with the latest epoch.
    pub fn primary_of(&self, slot: u16) -> Result<usize> {
        let owners = self.views().filter(|(_, view)| view.owns(slot));
        let owner = owners.max_by_key(|(_, view)| view.epoch);
        Ok(owner.with_context(|| format!("no node that answers owns the slot `{slot}`"))?.0)
    }

    /// A node that is, by its own account, a replica of that one.
    pub fn replica_of(&self, primary: usize) -> Result<Option<usize>> {
        // The node may be down, so the others are asked who it is.
        let id = self.id_of(primary)?;
        let mut views = self.views();
        Ok(views.find(|(_, view)| view.primary.as_ref() == Some(&id)).map(|(index, _)| index))
    }

    /// Waits until every node that is up says that all slots are served, and every replica that is
    /// up follows its primary.
    pub fn wait_until_ok(&self) -> Result<()> {
        for node in self.nodes.iter().filter(|node| node.is_up()) {
            wait::for_some(OK_WITHIN, "the cluster is well", || is_well(node))?;
        }
        Ok(())
    }

    /// The name of a node within the cluster, whether it is up or not.
    pub fn id_of(&self, node: usize) -> Result<String> {
        let port = format!(":{}@", self.nodes[node].port());
        for other in self.nodes.iter().filter(|other| other.is_up()) {
            let Ok(nodes) = other.run_within(LOOK_WITHIN, &["CLUSTER", "NODES"]) else { continue };
            let text = nodes.text();
            if let Some(line) = text.lines().find(|line| line.contains(&port)) {
                return Ok(line.split(' ').next().unwrap_or_default().to_owned());
            }
        }
        bail!("no node that answers knows the node `{node}`")
    }

    fn launch(builder: &ServerBuilder) -> Result<Cluster> {
        let nodes: Vec<Server> =
            (0..NODES).map(|_| Server::begin(builder.clone())).collect::<Result<_>>()?;
        let mut cluster = Cluster { nodes };
        for node in &mut cluster.nodes {
            if node.wait_for_answer().is_err() {
                // The port was taken meanwhile, or else this says what is wrong.
                *node = Server::launch(builder)?;
            }
        }
        cluster.deal_slots()?;
        cluster.introduce()?;
        cluster.attach_replicas()?;
        cluster.wait_until_ok()?;
        Ok(cluster)
    }

    fn deal_slots(&self) -> Result<()> {
        for (node, range) in self.nodes.iter().zip(thirds()) {
            let slots: Vec<String> = range.map(|slot| slot.to_string()).collect();
            let mut call = vec!["CLUSTER", "ADDSLOTS"];
            call.extend(slots.iter().map(String::as_str));
            node.must(&call)?;
        }
        for (epoch, node) in (1..).zip(&self.nodes) {
            node.must(&["CLUSTER", "SET-CONFIG-EPOCH", &format!("{epoch}")])?;
        }
        Ok(())
    }

    fn introduce(&self) -> Result<()> {
        for node in &self.nodes {
            for other in self.nodes.iter().filter(|other| other.port() != node.port()) {
                let (port, bus) = (other.port().to_string(), other.bus().to_string());
                node.must(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
            }
        }
        wait::for_some(MEET_WITHIN, "the nodes know each other", || {
            let knowing = self.views().filter(|(_, view)| view.known == NODES).count();
            Ok((knowing == NODES).then_some(()))
        })
    }

    fn attach_replicas(&self) -> Result<()> {
        for (primary, replica) in self.nodes.iter().zip(&self.nodes[PRIMARIES..]) {
            let id = primary.must(&["CLUSTER", "MYID"])?.text();
            replica.must(&["CLUSTER", "REPLICATE", &id])?;
        }
        for index in 0..PRIMARIES {
            let what = "every primary has a replica that follows it";
            wait::for_some(MEET_WITHIN, what, || {
                let info = self.nodes[index].must(&["INFO", "replication"])?;
                let online = info.text().contains("state=online");
                Ok((online && self.replica_of(index)?.is_some()).then_some(()))
            })?;
        }
        Ok(())
    }

    fn views(&self) -> impl Iterator<Item = (usize, View)> {
        let up = self.nodes.iter().enumerate().filter(|(_, node)| node.is_up());
        up.filter_map(|(index, node)| {
            let nodes = node.run_within(LOOK_WITHIN, &["CLUSTER", "NODES"]).ok()?;
            Some((index, View::read(&nodes.text())?))
        })
    }
}

fn is_well(node: &Server) -> Result<Option<()>> {
    let state = node.run_within(LOOK_WITHIN, &["CLUSTER", "INFO"])?;
    let replication = node.run_within(LOOK_WITHIN, &["INFO", "replication"])?;
    let slots = state.field("cluster_slots_ok");
    ensure!(state.field("cluster_state").as_deref() == Some("ok"), "{}", state.text());
    ensure!(slots == Some(SLOTS.to_string()), "only {slots:?} slots are well");
    let link = replication.field("master_link_status");
    ensure!(link.is_none_or(|link| link == "up"), "a replica has lost its primary");
    Ok(Some(()))
}

fn thirds() -> [std::ops::Range<u16>; PRIMARIES] {
    [0..5_461, 5_461..10_923, 10_923..SLOTS]
}

const PRIMARIES: usize = 3;
const NODES: usize = 2 * PRIMARIES;
/// Short, because a node that is paused does not answer at all.
const LOOK_WITHIN: Duration = Duration::from_millis(500);
const MEET_WITHIN: Duration = Duration::from_secs(20);
const OK_WITHIN: Duration = Duration::from_secs(20);
