//! Redis is away for a while, for each reason that it can have.

use tidegate_testbed::Server;

use crate::weather::Fault;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_is_paused() {
    let fault =
        Fault { begins: |server| server.pause(), ends: |server| server.resume(), ..Fault::NONE };
    fault.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_restarts_without_its_data() {
    let fault = Fault {
        begins: Server::kill,
        ends: |server| server.restart().unwrap(),
        losses: 1,
        ..Fault::NONE
    };
    fault.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_restarts_with_its_data() {
    let fault = Fault {
        server: || Server::builder().setting("appendonly", "yes"),
        begins: Server::kill,
        ends: |server| server.restart().unwrap(),
        ..Fault::NONE
    };
    fault.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn connections_that_are_cut_again_and_again() {
    let fault = Fault {
        goes_on: |server| drop(server.must(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap()),
        is_partial: true,
        ..Fault::NONE
    };
    fault.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_password_that_is_another_for_a_while() {
    let fault = Fault {
        url: |server| {
            server.must(&["ACL", "SETUSER", "ours", "on", ">one", "~*", "+@all"]).unwrap();
            format!("redis://ours:one@127.0.0.1:{}", server.port())
        },
        begins: |server| {
            server.must(&["ACL", "SETUSER", "ours", "resetpass", ">two"]).unwrap();
            server.must(&["CLIENT", "KILL", "USER", "ours"]).unwrap();
        },
        ends: |server| {
            server.must(&["ACL", "SETUSER", "ours", "resetpass", ">one"]).unwrap();
        },
        ..Fault::NONE
    };
    fault.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_primary_that_is_a_replica_for_a_while() {
    let fault = Fault {
        begins: |server| drop(server.must(&["REPLICAOF", "127.0.0.1", "1"]).unwrap()),
        ends: |server| drop(server.must(&["REPLICAOF", "NO", "ONE"]).unwrap()),
        ..Fault::NONE
    };
    fault.check().await;
}
