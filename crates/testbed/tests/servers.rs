//! The testbed itself: each thing it can do, once, against real servers.

use std::env;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tidegate_testbed::{Certificates, Cluster, Flavor, Reply, Sentinels, Server, key_in, until};

const SOON: Duration = Duration::from_secs(10);

fn text(server: &Server, args: &[&str]) -> String {
    server.run(args).expect("the server answers").text()
}

#[test]
fn redis_is_there_and_what_is_not_is_told() {
    let there = Flavor::all_there();
    assert!(there.contains(&Flavor::Redis), "install it: `cargo xtask servers`");
    for flavor in Flavor::FIT.into_iter().filter(|flavor| !there.contains(flavor)) {
        println!("skipped: {flavor:?} is not installed");
    }
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
fn a_paused_server_answers_when_it_goes_on() {
    let server = Server::start().unwrap();
    for _ in 0..3 {
        server.pause();
        assert!(server.is_up());
        let reply = server.run_within(Duration::from_millis(100), &["PING"]);
        assert!(reply.is_err(), "{reply:?}");
        server.resume();
        assert_eq!(text(&server, &["PING"]), "PONG");
    }
}

#[test]
fn a_restart_does_not_wait_for_what_is_loaded() {
    let builder = Server::builder().setting("key-load-delay", "1000");
    let builder = builder.setting("loading-process-events-interval-bytes", "1024");
    let mut server = builder.start().unwrap();
    server.must(&["DEBUG", "POPULATE", "1000", "key", "100"]).unwrap();
    server.must(&["SAVE"]).unwrap();
    server.restart().unwrap();
    assert!(text(&server, &["GET", "a"]).starts_with("LOADING"));
    until(SOON, "it has loaded", || text(&server, &["DBSIZE"]) == "1000").unwrap();
}

#[test]
fn settings_count_and_control_commands_know_the_password() {
    let builder = Server::builder().setting("maxmemory", "10mb");
    let server = builder.setting("requirepass", "secret").start().unwrap();
    let setting = server.must(&["CONFIG", "GET", "maxmemory"]).unwrap();
    assert_eq!(setting.items()[1].text(), "10485760");
    let mut stranger = Command::new("redis-cli");
    stranger.args(["-p", &server.port().to_string(), "PING"]);
    let said = stranger.output().unwrap().stdout;
    assert!(said.starts_with(b"NOAUTH"), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn a_failed_start_shows_the_log() {
    let failed = Server::builder().setting("no-such-setting", "1").start();
    let error = format!("{:#}", failed.expect_err("there is no such setting"));
    assert!(error.contains("no-such-setting"), "{error}");
}

#[test]
fn an_old_server_is_old() {
    if Flavor::Old.binary().is_err() {
        println!("skipped: Redis 5.0 is not installed");
        return;
    }
    let server = Server::builder().flavor(Flavor::Old).start().unwrap();
    let info = server.must(&["INFO", "server"]).unwrap();
    assert!(info.field("redis_version").unwrap().starts_with("5.0."));
}

#[test]
fn a_server_speaks_tls_to_who_trusts_its_authority() {
    let certificates = Certificates::new().unwrap();
    let builder = Server::builder().tls(&certificates).setting("tls-auth-clients", "yes");
    let server = builder.start().unwrap();
    let (ca, stranger) = (certificates.ca(), Certificates::new().unwrap());
    let key_pair = [certificates.client_certificate(), certificates.client_key()];
    let tls = |ca: &Path| {
        let mut command = Command::new("redis-cli");
        command.args(["-h", "localhost", "-p", &server.tls_port().unwrap().to_string()]);
        command.arg("--tls").arg("--cacert").arg(ca);
        command
    };
    let said = |command: &mut Command| {
        String::from_utf8(command.arg("PING").output().unwrap().stdout).unwrap()
    };
    let known = |mut command: Command| {
        said(command.arg("--cert").arg(&key_pair[0]).arg("--key").arg(&key_pair[1]))
    };
    assert_eq!(known(tls(&ca)), "PONG\n");
    assert_eq!(known(tls(&stranger.ca())), "");
    assert_ne!(said(&mut tls(&ca)), "PONG\n", "a client without a certificate was let in");
    assert_eq!(text(&server, &["PING"]), "PONG");
}

/// Not a test by itself: what the next one runs, and kills.
#[test]
fn a_process_that_holds_a_server() {
    if env::var_os(VICTIM).is_some() {
        let server = Server::start().unwrap();
        println!("\n{VICTIM} {} {}", server.port(), server.folder().display());
        // Until the other end is closed, which it is not while the test lives.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    }
}

#[test]
fn a_server_ends_with_a_process_that_was_killed() {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "a_process_that_holds_a_server", "--nocapture"]).env(VICTIM, "1");
    let mut victim = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with(VICTIM)).unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    let (port, folder) = (words[1].parse::<u16>().unwrap(), Path::new(words[2]));
    let is_up = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
    assert!(is_up() && folder.exists());
    victim.kill().unwrap();
    victim.wait().unwrap();
    until(SOON, "its server is gone", || !is_up() && !folder.exists()).unwrap();
}

const VICTIM: &str = "TIDEGATE_TESTBED_VICTIM";

#[test]
fn a_cluster_moves_a_slot_with_what_is_in_it() {
    Flavor::all_there().into_iter().for_each(moves_a_slot);
}

#[track_caller]
fn moves_a_slot(flavor: Flavor) {
    let cluster = Cluster::start_with(flavor).expect("a cluster starts");
    let slot = 7_000;
    let from = cluster.primary_of(slot).expect("the cluster answers");
    let to = (from + 1) % 3;
    let key = key_in(slot);
    let nodes = cluster.nodes();
    assert_eq!(text(&nodes[from], &["SET", &key, "1"]), "OK");
    cluster.begin_migration(slot, from, to).expect("the cluster answers");
    assert_eq!(cluster.migrate_keys(slot, from, to).expect("the cluster answers"), 1);
    let ask = format!("ASK {slot} 127.0.0.1:{}", nodes[to].port());
    assert_eq!(text(&nodes[from], &["GET", &key]), ask);
    cluster.end_migration(slot, from, to).expect("the cluster answers");
    assert_eq!(text(&nodes[to], &["GET", &key]), "1");
    let moved = format!("MOVED {slot} 127.0.0.1:{}", nodes[to].port());
    assert_eq!(text(&nodes[from], &["GET", &key]), moved);
    assert_eq!(cluster.primary_of(slot).expect("the cluster answers"), to);
}

#[test]
fn a_cluster_promotes_the_replica_of_a_primary_that_is_killed() {
    let flavor = *Flavor::all_there().last().unwrap();
    let mut cluster = Cluster::start_with(flavor).unwrap();
    let primary = cluster.primary_of(0).unwrap();
    let replica = cluster.replica_of(primary).unwrap().unwrap();
    cluster.nodes_mut()[primary].kill();
    until(SOON, "the replica owns the slot", || cluster.primary_of(0).ok() == Some(replica))
        .unwrap();
    cluster.wait_until_ok().unwrap();
    cluster.nodes_mut()[primary].restart().unwrap();
    until(SOON, "the old primary follows", || {
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
    sentinels.primary_mut().restart().unwrap();
    until(SOON, "the old primary follows", || {
        let info = sentinels.primary().must(&["INFO", "replication"]);
        info.is_ok_and(|info| info.field("master_link_status").as_deref() == Some("up"))
    })
    .unwrap();
    sentinels.wait_until_ok().unwrap();
}
