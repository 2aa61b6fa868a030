//! A cluster: slots that move, servers that die.

use std::sync::Arc;

use tidegate_testbed::{Cluster, SLOTS, key_in, until};

use super::stand::{LONG, Load, SHORT, Tally, count, count_all, counted, refusal, run, wire};
use crate::wire::{CallError, Refusal, Wire};

type Outcome = anyhow::Result<()>;

async fn connect(cluster: &Cluster) -> Wire {
    let list: Vec<_> =
        cluster.nodes().iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    wire(&format!("redis+cluster://{}", list.join(","))).await
}

/// What the owner of the key's slot has counted.
fn counted_by_owner(cluster: &Cluster, slot: u16) -> u64 {
    let owner = cluster.primary_of(slot).unwrap();
    counted(&cluster.nodes()[owner], &key_in(slot))
}

fn slots() -> Vec<u16> {
    (0..SLOTS).step_by(1000).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_slot_is_found_at_once() -> Outcome {
    let cluster = Cluster::start()?;
    let wire = connect(&cluster).await;
    assert!(wire.is_cluster());
    for slot in slots() {
        assert!(run(&wire, count(&key_in(slot)), LONG).await.is_ok());
        assert_eq!(counted_by_owner(&cluster, slot), 1);
    }
    let health = wire.health();
    assert!(health.is_connected(), "{health:?}");
    assert_eq!(health.nodes.len(), 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_come_to_the_wrong_server_are_sent_on() -> Outcome {
    let cluster = Cluster::start()?;
    let wire = connect(&cluster).await;
    let slots = slots();
    // All of them to the first lane, in one batch; most belong elsewhere.
    let calls = slots.iter().map(|slot| count(&key_in(*slot))).collect();
    assert!(wire.run(0, calls, LONG).await.iter().all(Result::is_ok));
    for slot in slots {
        assert_eq!(counted_by_owner(&cluster, slot), 1, "slot {slot}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_under_load_counts_every_call_once() -> Outcome {
    let cluster = Cluster::start()?;
    let wire = Arc::new(connect(&cluster).await);
    let slot = 42;
    let mut keys = vec![key_in(slot)];
    // Some are there before the move, some come into being while it goes on.
    keys.extend((0..200).map(|number| format!("{{{}}}{number}", key_in(slot))));
    let load = Load::start(&wire, &keys, LONG);
    for round in 0..4 {
        let from = cluster.primary_of(slot)?;
        let to = (from + 1) % 3;
        let node = &cluster.nodes()[from];
        until(LONG, "calls arrive", || counted(node, &keys[0]) > 2 * round)?;
        cluster.begin_migration(slot, from, to)?;
        cluster.migrate_keys(slot, from, to)?;
        cluster.end_migration(slot, from, to)?;
    }
    let owner = &cluster.nodes()[cluster.primary_of(slot)?];
    let last = counted(owner, &keys[0]);
    until(LONG, "calls arrive again", || counted(owner, &keys[0]) > last + 2)?;
    for (key, tally) in keys.iter().zip(load.stop().await) {
        // Nothing broke, so nothing may be lost: every call was answered, and counted once.
        assert_eq!((tally.not_run, tally.unknown), (0, 0), "{key}");
        tally.check(counted(owner, key));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_on_both_sides_of_a_move_wait_for_its_end() -> Outcome {
    let cluster = Cluster::start()?;
    let wire = Arc::new(connect(&cluster).await);
    let slot = 42;
    let (from, to) = (cluster.primary_of(slot)?, 1);
    assert_ne!(from, to);
    let (one, other) = (key_in(slot), format!("{{{}}}2", key_in(slot)));
    assert!(run(&wire, count(&one), LONG).await.is_ok());
    cluster.begin_migration(slot, from, to)?;
    // One key is here, the other is nowhere: the server cannot tell where to run it.
    let both = || count_all(&[&one, &other]);
    assert_eq!(refusal(&wire, both).await, Refusal::SlotMoves);
    // A key that is not here any more, or not yet, is asked for over there.
    assert!(run(&wire, count(&other), LONG).await.is_ok());
    let both = tokio::spawn({
        let (wire, call) = (Arc::clone(&wire), both());
        async move { run(&wire, call, LONG).await }
    });
    cluster.migrate_keys(slot, from, to)?;
    assert!(both.await?.is_ok());
    cluster.end_migration(slot, from, to)?;
    let node = &cluster.nodes()[to];
    assert_eq!((counted(node, &one), counted(node, &other)), (2, 2));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_s_replica_takes_over_under_load() -> Outcome {
    let mut cluster = Cluster::start()?;
    let wire = Arc::new(connect(&cluster).await);
    let slots = slots();
    let keys: Vec<_> = slots.iter().map(|slot| key_in(*slot)).collect();
    let load = Load::start(&wire, &keys, SHORT);
    let victim = cluster.primary_of(slots[0])?;
    until(LONG, "calls arrive", || counted_by_owner(&cluster, slots[0]) > 50)?;
    cluster.nodes_mut()[victim].kill();
    until(LONG, "a replica takes over", || {
        cluster.primary_of(slots[0]).is_ok_and(|owner| owner != victim)
    })?;
    let owner = cluster.primary_of(slots[0])?;
    let before = counted(&cluster.nodes()[owner], &keys[0]);
    until(LONG, "calls arrive again", || counted(&cluster.nodes()[owner], &keys[0]) > before + 50)?;
    let tallies = load.stop().await;
    for (slot, tally) in slots.iter().zip(tallies) {
        let counted = counted_by_owner(&cluster, *slot);
        let was_on_victim = *slot <= 5460;
        // What the victim had not passed on to its replica died with it.
        if was_on_victim {
            assert!(counted <= tally.done + tally.unknown, "slot {slot}: {counted} {tally:?}");
        } else {
            tally.check(counted);
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_is_left_when_the_caller_gives_it_up() -> Outcome {
    let cluster = Cluster::start()?;
    let wire = connect(&cluster).await;
    let key = key_in(7);
    assert!(run(&wire, count(&key), LONG).await.is_ok());
    let victim = cluster.primary_of(7)?;
    cluster.nodes()[victim].pause();
    let answer = run(&wire, count(&key), SHORT).await;
    assert!(matches!(answer, Err(CallError::Unknown(_))), "{answer:?}");
    wire.reconnect(wire.lane_of(7));
    let mut tally = Tally::default();
    while tally.done == 0 {
        // Time enough for the server that takes over, and for none that is paused.
        tally.take(&run(&wire, count(&key), LONG).await);
        assert!(tally.not_run + tally.unknown < 1000, "{:?}", wire.health());
    }
    assert_eq!(tally.unknown, 0, "nothing more is sent to a server that was given up");
    cluster.nodes()[victim].resume();
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_misses_slots_refuses_in_time() -> Outcome {
    let mut cluster = Cluster::start()?;
    let wire = connect(&cluster).await;
    let (lost, kept) = (7, SLOTS - 1);
    let owner = cluster.primary_of(lost)?;
    let replica = cluster.replica_of(owner)?.unwrap();
    assert!(run(&wire, count(&key_in(kept)), LONG).await.is_ok());
    for node in cluster.nodes() {
        node.must(&["CONFIG", "SET", "cluster-require-full-coverage", "yes"])?;
    }
    for node in [replica, owner] {
        cluster.nodes_mut()[node].kill();
    }
    let mut tally = Tally::default();
    loop {
        assert!(tally.done < 1_000_000, "the others do not miss it");
        let answer = run(&wire, count(&key_in(kept)), SHORT).await;
        tally.take(&answer);
        // It takes the others a while to miss it.
        if let Err(CallError::NotRun(refusal)) = answer {
            break assert_eq!(refusal, Refusal::ClusterDown);
        }
    }
    refusal(&wire, || count(&key_in(lost))).await;
    for node in [owner, replica] {
        cluster.nodes_mut()[node].restart()?;
    }
    cluster.wait_until_ok()?;
    tally.take(&run(&wire, count(&key_in(kept)), LONG).await);
    tally.check(counted_by_owner(&cluster, kept) - 1);
    assert!(run(&wire, count(&key_in(lost)), LONG).await.is_ok());
    Ok(())
}
