//! What breaks in the middle: nothing is sent twice, and it goes on afterwards.

use std::sync::Arc;
use std::time::Duration;

use tidegate_testbed::{Proxy, Server, until};

use super::stand::{LONG, Load, SHORT, Tally, count, counted, run, until_answered, wire};
use crate::wire::CallError;
use crate::wire::refusal::{Lost, Refusal};

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

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_is_not_hammered() -> Outcome {
    let server = Server::start()?;
    let proxy = Proxy::start(&server)?;
    let wire = wire(&proxy.url()).await;
    proxy.refuse(true);
    proxy.drop_all()?;
    let before = proxy.connections();
    // Calls that wait do not add tries of their own.
    for _ in 0..20 {
        let answer = run(&wire, count("k"), SHORT).await;
        assert!(matches!(answer, Err(CallError::NotRun(_) | CallError::Unknown(_))), "{answer:?}");
    }
    // Two seconds: bounds of 10, 20, … 2000 ms, each halved by chance on average. Without a
    // back-off it would be thousands.
    let tries = proxy.connections() - before;
    assert!((2..=25).contains(&tries), "{tries} tries");
    proxy.refuse(false);
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    Ok(())
}
