//! What a server did not run: it may be sent again, and is.

use tidegate_testbed::{Server, until};

use super::stand::{LONG, SHORT, Tally, count, counted, refusal, run, until_answered_within, wire};
use crate::wire::{CallError, Refusal};

type Outcome = anyhow::Result<()>;

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_was_flushed_is_sent_again_with_its_text() -> Outcome {
    let server = Server::start()?;
    let wire = wire(&server.url()).await;
    for round in 1..=3 {
        server.must(&["SCRIPT", "FLUSH"])?;
        assert!(run(&wire, count("single"), LONG).await.is_ok());
        server.must(&["SCRIPT", "FLUSH"])?;
        let calls = (0..100).map(|_| count("batch")).collect();
        assert!(wire.run(0, calls, LONG).await.iter().all(Result::is_ok));
        assert_eq!(counted(&server, "single"), round);
        assert_eq!(counted(&server, "batch"), 100 * round);
    }
    assert_eq!(wire.health().nodes[0].reconnects, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_becomes_a_replica_is_left_until_it_is_a_primary_again() -> Outcome {
    let other = Server::start()?;
    let server = Server::start()?;
    let wire = wire(&server.url()).await;
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    let port = other.port().to_string();
    server.must(&["REPLICAOF", "127.0.0.1", &port])?;
    let refusal = refusal(&wire, || count("k")).await;
    // It may also be seen while it loads what the other one has, which is nothing.
    assert!(matches!(refusal, Refusal::ReadOnly | Refusal::Loading), "{refusal:?}");
    until(LONG, "a connection is given up", || !wire.health().is_connected())?;
    server.must(&["REPLICAOF", "NO", "ONE"])?;
    let before = counted(&server, "k");
    // Time enough for a machine that stands still for a moment.
    let tally = until_answered_within(&wire, "k", LONG).await;
    tally.check(counted(&server, "k") - before);
    assert_eq!(tally.unknown, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_says_so() -> Outcome {
    let server = Server::start()?;
    let wire = wire(&server.url()).await;
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    server.must(&["CONFIG", "SET", "maxmemory", "1"])?;
    let answer = run(&wire, count("k"), LONG).await;
    assert_eq!(answer, Err(CallError::NotRun(Refusal::OutOfMemory)));
    server.must(&["CONFIG", "SET", "maxmemory", "0"])?;
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    assert_eq!(counted(&server, "k"), 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_loads_is_waited_for() -> Outcome {
    let mut server = Server::builder()
        .setting("appendonly", "yes")
        .setting("enable-debug-command", "yes")
        // Loads slowly, and answers meanwhile.
        .setting("key-load-delay", "500")
        .setting("loading-process-events-interval-bytes", "1024")
        .start()?;
    let wire = wire(&server.url()).await;
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    server.must(&["DEBUG", "POPULATE", "4000"])?;
    server.must(&["BGREWRITEAOF"])?;
    until(LONG, "the data is on disk", || {
        let info = server.must(&["INFO", "persistence"]).unwrap();
        info.text().contains("aof_rewrite_in_progress:0")
    })?;
    server.restart()?;
    let mut seen = Vec::new();
    let mut tally = Tally::default();
    while tally.done == 0 {
        let answer = run(&wire, count("k"), SHORT).await;
        tally.take(&answer);
        if let Err(error) = answer {
            seen.push(error);
        }
    }
    assert!(seen.contains(&CallError::NotRun(Refusal::Loading)), "{seen:?}");
    tally.check(counted(&server, "k") - 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_keeps_the_server_busy_is_waited_for() -> Outcome {
    let server = Server::builder().setting("busy-reply-threshold", "10").start()?;
    let wire = wire(&server.url()).await;
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    let port = server.port();
    let endless = std::thread::spawn(move || {
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
        let mut connection = client.get_connection().unwrap();
        redis::cmd("EVAL").arg("while true do end").arg(0).query::<()>(&mut connection)
    });
    until(LONG, "the server is busy", || {
        server.run(&["GET", "k"]).is_ok_and(|reply| format!("{reply:?}").contains("BUSY"))
    })?;
    assert_eq!(refusal(&wire, || count("k")).await, Refusal::Busy);
    server.must(&["SCRIPT", "KILL"])?;
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    assert!(endless.join().unwrap().is_err());
    assert_eq!(counted(&server, "k"), 2);
    Ok(())
}
