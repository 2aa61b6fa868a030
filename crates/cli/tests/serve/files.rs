//! Open files: a flood at one door leaves the others, the health check and the snapshot theirs.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;

use anyhow::Result;
use rustix::net::{self, AddressFamily, SocketAddrV4, SocketType};
use tidegate_testbed::{Daemon, Http, Ready, until};

use crate::stand::{Door, SOON, Talk, command, local, policy};

/// So few that a test can use them up.
const OPEN_FILES: &str = "640";

/// Of these, 256 are the server's own, and the doors share the rest.
const EACH_DOOR: usize = (640 - 256) / 3 - 1;

/// A connection that says nothing, from one of the addresses of this machine.
fn silent(host: u8, port: u16) -> Result<TcpStream> {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, host), 0))?;
    net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    Ok(socket.into())
}

#[test]
fn a_flood_at_one_door_leaves_everybody_else_their_files() {
    let mut builder = Daemon::builder().unwrap();
    let [http, grpc, resp] = [(); 3].map(|()| builder.port().unwrap());
    let policy_file = builder.write("policy.yaml", &policy(1_000_000)).unwrap();
    let snapshot = builder.folder().join("states");
    let mut serve = command();
    serve.arg("--policy").arg(&policy_file).arg("--snapshot").arg(&snapshot);
    serve.args(["--snapshot-every", "1s", "--log", "json"]);
    serve.args(["--http", &local(http), "--grpc", &local(grpc), "--resp", &local(resp)]);
    // As a shell that allows no more.
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", OPEN_FILES]);
    limited.arg(serve.get_program()).args(serve.get_args());
    for (name, _) in serve.get_envs() {
        limited.env_remove(name);
    }
    let daemon = builder.start(limited, Ready::Answers(http, "/readyz".to_owned())).unwrap();
    let told = format!("each door takes {EACH_DOOR} connections");
    assert!(daemon.log().contains(&told), "{}", daemon.log());

    let mut flood = Vec::new();
    for host in (2..6).cycle().take(1_000) {
        // Some are reset when nobody else fits into the queue of those who wait.
        flood.extend(silent(host, resp));
    }
    let page = || Http::get(http, "/metrics").unwrap().text();
    until(SOON, "the door is full", || {
        let line = format!("tidegate_connections{{door=\"resp\"}} {EACH_DOOR}");
        page().lines().any(|it| it == line)
    })
    .unwrap();
    assert_eq!(Http::get(http, "/healthz").unwrap().status, 200);
    for (door, port) in Door::ALL.into_iter().zip([http, grpc, resp]) {
        assert!(Talk::to(door, port).unwrap().ask().unwrap(), "{door:?} answers a newcomer");
    }
    let saved = || fs::metadata(&snapshot).and_then(|it| it.modified()).ok();
    let before = saved();
    until(SOON, "a snapshot is saved meanwhile", || saved() != before).unwrap();
    fs::write(&policy_file, policy(7)).unwrap();
    until(SOON, "the policy is read meanwhile", || {
        page().contains("tidegate_reloads_total{outcome=\"done\"} 1")
    })
    .unwrap();
    let log = daemon.log();
    assert!(!log.contains("could not be accepted"), "{log}");
    drop(flood);
}
