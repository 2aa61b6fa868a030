//! What breaks in the middle: nothing is sent twice, and it goes on afterwards.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::{Clock as _, SystemClock};
use tidegate_testbed::{Proxy, Server, until};

use super::stand::{LONG, Load, SHORT, Tally, count, counted, run, settings, until_answered, wire};
use crate::wire::refusal::{Lost, Refusal};
use crate::wire::{CallError, Wire};

type Outcome = anyhow::Result<()>;

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_cut_off_is_lost_and_not_asked_for_again() -> Outcome {
    let server = Server::start()?;
    let proxy = Proxy::start(&server)?;
    let wire = wire(&proxy.url()).await;
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    for bytes in 0..4 {
        let before = counted(&server, "k");
        proxy.cut_replies_after(bytes);
        let answer = run(&wire, count("k"), LONG).await;
        let is_lost = matches!(answer, Err(CallError::Unknown(Lost::Disconnected(_))));
        assert!(is_lost, "{bytes}: {answer:?}");
        assert_eq!(counted(&server, "k"), before + 1);
        // The next one waits for the next connection.
        assert!(run(&wire, count("k"), LONG).await.is_ok());
        assert_eq!(counted(&server, "k"), before + 2);
    }
    assert_eq!(wire.health().nodes[0].reconnects, 4);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_cut_in_the_middle_runs_at_most_once() -> Outcome {
    let server = Server::start()?;
    let proxy = Proxy::start(&server)?;
    let wire = wire(&proxy.url()).await;
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    proxy.cut_replies_after(90);
    let calls = (0..50).map(|_| count("batch")).collect();
    let mut tally = Tally::default();
    for answer in wire.run(0, calls, LONG).await {
        tally.take(&answer);
    }
    assert!(tally.unknown > 0, "{tally:?}");
    tally.check(counted(&server, "batch"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_drop_under_load_repeat_nothing() -> Outcome {
    let server = Server::start()?;
    let proxy = Proxy::start(&server)?;
    let wire = Arc::new(wire(&proxy.url()).await);
    let keys = vec!["k".to_owned()];
    let load = Load::start(&wire, &keys, LONG);
    for _ in 0..20 {
        let before = counted(&server, "k");
        until(LONG, "calls arrive", || counted(&server, "k") > before + 100)?;
        proxy.drop_all()?;
    }
    let tally = load.stop().await[0];
    assert!(tally.unknown > 0, "the drops hit nothing: {tally:?}");
    assert_eq!(tally.not_run, 0, "there was time enough");
    tally.check(counted(&server, "k"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_times_out_leaves_the_connection_usable() -> Outcome {
    let server = Server::start()?;
    let wire = wire(&server.url()).await;
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    server.pause();
    for _ in 0..10 {
        let answer = run(&wire, count("k"), Duration::from_millis(20)).await;
        assert_eq!(answer, Err(CallError::Unknown(Lost::TimedOut)));
    }
    server.resume();
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    assert_eq!(wire.health().nodes[0].reconnects, 0);
    // Those ten were written, and came late.
    assert_eq!(counted(&server, "k"), 12);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_is_not_waited_for_longer_than_asked() -> Outcome {
    let mut server = Server::start()?;
    let wire = wire(&server.url()).await;
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    server.kill();
    until(LONG, "the loss is noticed", || !wire.health().is_connected())?;
    let answer = run(&wire, count("k"), SHORT).await;
    assert!(matches!(answer, Err(CallError::NotRun(Refusal::NotConnected(_)))), "{answer:?}");
    let health = wire.health();
    assert!(health.nodes[0].last_error.is_some(), "{health:?}");
    server.restart()?;
    let tally = until_answered(&wire, "k").await;
    tally.check(counted(&server, "k"));
    assert_eq!(wire.health().nodes[0].reconnects, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_given_up_is_replaced() -> Outcome {
    let server = Server::start()?;
    let proxy = Proxy::start(&server)?;
    let wire = wire(&proxy.url()).await;
    for reconnects in 1..=5 {
        wire.reconnect(0);
        assert!(run(&wire, count("k"), LONG).await.is_ok());
        assert_eq!(wire.health().nodes[0].reconnects, reconnects);
    }
    until(LONG, "the old ones are closed", || proxy.connections_open() == 1)?;
    drop(wire);
    until(LONG, "the last one is closed", || proxy.connections_open() == 0)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_wire_is_left_even_if_a_server_never_answers() -> Outcome {
    let server = Server::start()?;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let wire = wire(&server.url()).await;
    server.pause();
    assert!(run(&wire, count("k"), SHORT).await.is_err());
    assert!(tasks() > before);
    drop(wire);
    until(LONG, "all tasks have ended", || tasks() == before)?;
    server.resume();
    Ok(())
}

/// Longer than a connection has to last to be replaced at once.
const STEADY: Duration = Duration::from_secs(6);

/// The shortest wait between two tries, once they have failed for a while.
const APART_MS: u64 = 200;

/// Makes the server useless for a connection that has lasted, counts the tries of an idle node to
/// replace it, and sees that it goes on once the server is mended.
async fn tries_are_few(breaks: impl FnOnce(&Server, &Proxy), mends: impl FnOnce(&Server, &Proxy)) {
    let server = Server::start().unwrap();
    let proxy = Proxy::start(&server).unwrap();
    let settings = settings(&proxy.url()).connect_timeout(SHORT);
    let wire = Wire::connect(&settings).await.unwrap();
    // Made by the keeper, as all but the first connections are.
    wire.reconnect(0);
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    tokio::time::sleep(STEADY).await;
    breaks(&server, &proxy);
    wire.reconnect(0);
    let clock = SystemClock::new();
    let (from, before) = (clock.now(), proxy.connections());
    until(LONG, "it is tried for", || before + 20 <= proxy.connections()).unwrap();
    let (tries, took) = (proxy.connections() - before, clock.now().since(from));
    // Six while the bound grows, and one that is under way.
    let most = 7 + took.get() / 1_000 / APART_MS;
    assert!(tries <= most, "{tries} tries in {} ms", took.get() / 1_000);
    mends(&server, &proxy);
    until_answered(&wire, "k").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_is_not_hammered() {
    tries_are_few(
        |_, proxy| {
            proxy.refuse(true);
            proxy.drop_all().unwrap();
        },
        |_, proxy| proxy.refuse(false),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_silent_is_not_hammered() {
    tries_are_few(|server, _| server.pause(), |server, _| server.resume()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_became_a_replica_is_not_hammered() {
    tries_are_few(
        |server, _| drop(server.must(&["REPLICAOF", "127.0.0.1", "1"]).unwrap()),
        |server, _| drop(server.must(&["REPLICAOF", "NO", "ONE"]).unwrap()),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_another_password_is_not_hammered() {
    tries_are_few(
        |server, _| drop(server.must(&["CONFIG", "SET", "requirepass", "other"]).unwrap()),
        |server, _| {
            let orders = "AUTH other\r\nCONFIG SET requirepass \"\"\r\n";
            let mut stream = std::net::TcpStream::connect(("127.0.0.1", server.port())).unwrap();
            std::io::Write::write_all(&mut stream, orders.as_bytes()).unwrap();
            // Both are answered before the connection is closed.
            let mut answers = std::io::BufReader::new(stream);
            for _ in 0..2 {
                let mut answer = String::new();
                std::io::BufRead::read_line(&mut answers, &mut answer).unwrap();
                assert_eq!(answer, "+OK\r\n");
            }
        },
    )
    .await;
}
