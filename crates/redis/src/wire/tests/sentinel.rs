//! Sentinel: the primary is found, lost, and found again.

use std::sync::Arc;

use tidegate_testbed::{Sentinels, until};

use super::stand::{LONG, Load, SHORT, count, counted, run, until_answered, wire};
use crate::wire::Wire;

type Outcome = anyhow::Result<()>;

async fn connect(sentinels: &Sentinels) -> Wire {
    let list: Vec<_> =
        sentinels.sentinels().iter().map(|one| format!("127.0.0.1:{}", one.port())).collect();
    wire(&format!("redis+sentinel://{}/{}", list.join(","), sentinels.name())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_primary_is_replaced_under_load() -> Outcome {
    let mut sentinels = Sentinels::start()?;
    let wire = Arc::new(connect(&sentinels).await);
    let keys = vec!["k".to_owned()];
    let load = Load::start(&wire, &keys, SHORT);
    until(LONG, "calls arrive", || counted(sentinels.primary(), "k") > 100)?;
    let port = sentinels.primary().port();
    sentinels.primary_mut().kill();
    let new_port = sentinels.wait_for_failover(port)?;
    assert_eq!(new_port, sentinels.replica().port());
    // What the old one had not passed on is lost with it, so only the new one's own is counted.
    load.stop().await;
    let before = counted(sentinels.replica(), "k");
    let tally = until_answered(&wire, "k").await;
    tally.check(counted(sentinels.replica(), "k") - before);
    assert_eq!(wire.health().nodes[0].address, format!("127.0.0.1:{new_port}"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_primary_is_left_though_its_connection_stays_open() -> Outcome {
    let sentinels = Sentinels::start()?;
    let wire = connect(&sentinels).await;
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    let port = sentinels.primary().port();
    sentinels.primary().pause();
    let new_port = sentinels.wait_for_failover(port)?;
    // Nobody has told the wire: it asks the sentinels every second.
    let address = format!("127.0.0.1:{new_port}");
    until(LONG, "the wire moves", || wire.health().nodes[0].address == address)?;
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    sentinels.primary().resume();
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planned_fail_over_repeats_nothing() -> Outcome {
    let sentinels = Sentinels::start()?;
    let wire = Arc::new(connect(&sentinels).await);
    let keys = vec!["k".to_owned()];
    let load = Load::start(&wire, &keys, LONG);
    until(LONG, "calls arrive", || counted(sentinels.primary(), "k") > 100)?;
    sentinels.fail_over()?;
    let replica = sentinels.replica();
    let before = counted(replica, "k");
    until(LONG, "calls arrive again", || counted(replica, "k") > before + 100)?;
    let tally = load.stop().await[0];
    // What the old one heard last is not known to the new one; but nothing is known twice.
    let counted = counted(replica, "k");
    assert!(counted <= tally.done + tally.unknown, "{counted} {tally:?}");
    assert_eq!(tally.not_run, 0, "there was time enough");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_sentinel_that_answers_is_enough() -> Outcome {
    let mut sentinels = Sentinels::start()?;
    sentinels.sentinels_mut()[0].kill();
    sentinels.sentinels()[1].pause();
    let wire = connect(&sentinels).await;
    assert!(run(&wire, count("k"), LONG).await.is_ok());
    Ok(())
}
