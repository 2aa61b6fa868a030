//! The testbed itself: each thing it can do, once, against real servers.

use std::time::Duration;

use tidegate_testbed::{Cluster, Flavor, Proxy, Reply, Sentinels, Server, key_in, until};

fn text(server: &Server, args: &[&str]) -> String {
    server.run(args).expect("the server answers").text()
}

#[test]
fn a_server_can_be_killed_and_started_again() {
    for flavor in Flavor::all_there() {
        let mut server = Server::builder().flavor(flavor).start().unwrap();
        assert_eq!(text(&server, &["SET", "a", "1"]), "OK", "{flavor:?}");
        assert_eq!(server.run(&["GET", "a"]).unwrap(), Reply::Bulk(b"1".to_vec()));
        server.kill();
        assert!(!server.is_up() && server.run(&["PING"]).is_err(), "{flavor:?}");
        server.restart().unwrap();
        assert!(server.is_up());
        assert_eq!(server.run(&["GET", "a"]).unwrap(), Reply::Nil, "{flavor:?} kept something");
    }
}

#[test]
fn a_cluster_moves_a_slot_with_what_is_in_it() {
    let cluster = Cluster::start().unwrap();
    let slot = 7_000;
    let from = cluster.primary_of(slot).unwrap();
    let to = (from + 1) % 3;
    let key = key_in(slot);
    let nodes = cluster.nodes();
    assert_eq!(text(&nodes[from], &["SET", &key, "1"]), "OK");
    cluster.begin_migration(slot, from, to).unwrap();
    assert_eq!(cluster.migrate_keys(slot, from, to).unwrap(), 1);
    let ask = format!("ASK {slot} 127.0.0.1:{}", nodes[to].port());
    assert_eq!(text(&nodes[from], &["GET", &key]), ask);
    cluster.end_migration(slot, from, to).unwrap();
    assert_eq!(text(&nodes[to], &["GET", &key]), "1");
    let moved = format!("MOVED {slot} 127.0.0.1:{}", nodes[to].port());
    assert_eq!(text(&nodes[from], &["GET", &key]), moved);
    assert_eq!(cluster.primary_of(slot).unwrap(), to);
}

#[test]
fn a_cluster_promotes_the_replica_of_a_primary_that_is_killed() {
    let flavor = *Flavor::all_there().last().unwrap();
    let mut cluster = Cluster::start_with(flavor).unwrap();
    let primary = cluster.primary_of(0).unwrap();
    let replica = cluster.replica_of(primary).unwrap().unwrap();
    cluster.nodes_mut()[primary].kill();
    let within = Duration::from_secs(20);
    until(within, "the replica owns the slot", || cluster.primary_of(0).ok() == Some(replica))
        .unwrap();
    cluster.wait_until_ok().unwrap();
    cluster.nodes_mut()[primary].restart().unwrap();
    until(within, "the old primary follows", || {
        cluster.replica_of(replica).ok().flatten() == Some(primary)
    })
    .unwrap();
    cluster.wait_until_ok().unwrap();
}

#[test]
fn sentinels_choose_another_primary() {
    let mut sentinels = Sentinels::start().unwrap();
    let port = sentinels.primary().port();
    assert_eq!(sentinels.current_primary_port().unwrap(), port);
    sentinels.primary_mut().kill();
    assert_eq!(sentinels.wait_for_failover(port).unwrap(), sentinels.replica().port());
    assert_eq!(text(sentinels.replica(), &["SET", "a", "1"]), "OK");
    assert_eq!(sentinels.current_primary_port().unwrap(), sentinels.replica().port());
}

#[test]
fn a_proxy_counts() {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    assert_eq!(proxy.connections(), 0);
}
