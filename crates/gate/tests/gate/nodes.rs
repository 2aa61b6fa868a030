//! Nodes that count each other through a real Redis, for when it is away.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use tidegate_core::Span;
use tidegate_gate::{Gate, GateBuilder, OpenError};
use tidegate_redis::{Fleet, RedisStore, Settings};
use tidegate_testbed::Server;

use crate::on_redis::passed;
use crate::stand::{Folder, by, rules};

/// As an operator who never counted writes it: one node.
const POLICY: &str = "
nodes: 1
on_store_error: local
rules: [{ name: r, key: header:x-api-key, algorithm: sliding-log, limit: 30/day }]
";

async fn store(url: &str) -> RedisStore {
    let builder = RedisStore::builder(Settings::from_url(url).unwrap());
    builder.deadline(Duration::from_secs(2)).connect().await.unwrap()
}

async fn node_with(
    server: &Server,
    policy: &str,
    more: impl FnOnce(GateBuilder) -> GateBuilder,
) -> Result<Gate, OpenError> {
    let fleet = Fleet::new(store(&server.url()).await);
    let builder = Gate::builder().rules(rules(policy)).store(fleet);
    more(builder.beat_every(Some(Duration::from_millis(20)))).open()
}

async fn node(server: &Server) -> Gate {
    node_with(server, POLICY, |builder| builder).await.unwrap()
}

/// Waits until all gates know of so many nodes.
async fn until(gates: &[&Gate], nodes: u32) {
    for _ in 0..4_000 {
        if gates.iter().all(|gate| gate.nodes() == nodes) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let known: Vec<u32> = gates.iter().map(|gate| gate.nodes()).collect();
    panic!("{known:?} instead of {nodes}");
}

#[tokio::test]
async fn nodes_that_lose_redis_admit_one_quota_together_although_one_is_written() {
    let mut server = Server::start().unwrap();
    let gates = [node(&server).await, node(&server).await, node(&server).await];
    until(&[&gates[0], &gates[1], &gates[2]], 3).await;
    server.kill();
    let mut all = 0;
    for gate in &gates {
        all += passed(gate, &by("ada"), 60).await;
    }
    assert!(0 < all && all <= 30, "{all} of 30");
    // None of them forgets the others, however long it takes.
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(gates.iter().all(|gate| gate.nodes() == 3));
    }
}

#[tokio::test]
async fn the_number_that_is_written_is_the_least() {
    let server = Server::start().unwrap();
    let five = POLICY.replace("nodes: 1", "nodes: 5");
    let gate = node_with(&server, &five, |builder| builder).await.unwrap();
    let other = node_with(&server, &five, |builder| builder).await.unwrap();
    until(&[&gate, &other], 5).await;
    drop(server);
    assert_eq!(passed(&gate, &by("ada"), 60).await, 6);
    // A node that nobody counts is one of so many as are written.
    let (gate, _clock) = crate::stand::gate(POLICY);
    assert_eq!(gate.nodes(), 1);
}

#[tokio::test]
async fn applications_with_other_prefixes_are_no_nodes_of_ours() {
    let server = Server::start().unwrap();
    let named = |name: &str| format!("name: {name}\n{POLICY}");
    let shop = node_with(&server, &named("shop"), |builder| builder).await.unwrap();
    let blog = node_with(&server, &named("blog"), |builder| builder).await.unwrap();
    let more = node_with(&server, &named("blog"), |builder| builder).await.unwrap();
    until(&[&blog, &more], 2).await;
    assert_eq!(shop.nodes(), 1);
}

/// It is started while Redis is away, and knows what it knew.
#[tokio::test]
async fn a_restart_while_redis_is_away_remembers_the_number() {
    let (mut server, folder) = (Server::start().unwrap(), Folder::new());
    let path = folder.join("snapshot");
    let gates = [node(&server).await, node(&server).await, node(&server).await];
    until(&[&gates[0], &gates[1], &gates[2]], 3).await;
    gates[0].save(&path).unwrap();
    server.kill();
    let restored = |path: &Path| {
        let path = path.to_owned();
        node_with(&server, POLICY, move |builder| builder.restore(path))
    };
    let again = restored(&path).await.unwrap();
    assert_eq!(again.nodes(), 3);
    assert_eq!(passed(&again, &by("ada"), 60).await, 10);
    // Without a file it is one node, and with another file none.
    assert_eq!(restored(&folder.join("missing")).await.unwrap().nodes(), 1);
    for wrong in ["", "tidegate nodes 0\n", "tidegate nodes 3", "nodes 3\n", "tidegate nodes 9x\n"]
    {
        fs::write(&path, wrong).unwrap();
        let refused = restored(&path).await.unwrap_err();
        assert!(matches!(refused, OpenError::Snapshot(_)), "{wrong:?}: {refused}");
    }
}

#[tokio::test]
async fn a_node_that_is_gone_is_forgotten_with_its_lease_and_one_that_claims_much_too() {
    let server = Server::start().unwrap();
    let store = store(&server.url()).await;
    let (long, short) = (Span::from_secs(600), Span::from_millis(30));
    assert_eq!(store.count_nodes(1, long).await.unwrap(), 1);
    assert_eq!(store.count_nodes(2, long).await.unwrap(), 2);
    assert_eq!(store.count_nodes(2, long).await.unwrap(), 2, "said twice");
    assert_eq!(store.count_nodes(3, short).await.unwrap(), 1, "no lease is longer than our own");
    let mut nodes = store.count_nodes(4, long).await.unwrap();
    for _ in 0..1_000 {
        if nodes == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        nodes = store.count_nodes(4, long).await.unwrap();
    }
    assert_eq!(nodes, 1);
    // What is no list of nodes counts for nothing, and is written over.
    server.must(&["SET", "tg:{%%}nodes", "zzz 1;;; 5 99999999999999999999999"]).unwrap();
    assert_eq!(store.count_nodes(5, long).await.unwrap(), 1);
    for node in 0..1_100 {
        store.count_nodes(1_000 + node, long).await.unwrap();
    }
    assert_eq!(store.count_nodes(5, long).await.unwrap(), 1_024, "bounded");
}
