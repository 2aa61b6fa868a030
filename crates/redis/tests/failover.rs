//! Fail-overs and moving slots under load; what happened is read from a log of our own.
//!
//! Replication is asynchronous: what a primary had not passed on dies with it. So a fail-over may
//! cost what was admitted in the moment before it, and that is never more than one burst.

#![expect(clippy::unwrap_used, reason = "tests")]

mod stand;

use std::time::Duration;

use tidegate_core::Quota;
use tidegate_redis::{By, WithoutStore};
use tidegate_store::Limiter;
use tidegate_testbed::{Cluster, Sentinels, key_in, until};
use tokio::sync::Mutex;

use self::stand::load::{Allowed, Load, Log};
use self::stand::{LONG, Node, url_of};

/// One at a time: each of them runs six servers or more.
static ALONE: Mutex<()> = Mutex::const_new(());

const DEADLINE: Duration = Duration::from_millis(20);

const BURST: u64 = 20;
const ALLOWED: Allowed = Allowed { burst: BURST, per_second: 100 };

async fn limiter(url: &str, without: WithoutStore) -> Node {
    let quota = Quota::per_second(100).burst(20);
    let builder = Limiter::builder().each("client", quota).remember_refusals(false);
    Node::within(DEADLINE, url, builder.without_store(without)).await
}

fn wait_for_store(limiter: &Node) {
    let before = limiter.counts().store;
    until(LONG, "Redis decides", || before + 200 < limiter.counts().store).unwrap();
}

/// How much Redis admitted of a key more than allowed: a burst for each fail-over at most.
#[track_caller]
fn check(log: &Log, key: &str, fail_overs: u64) -> u64 {
    let worst = log.of(key).only(|entry| entry.by == By::Store).excess(ALLOWED);
    assert!(worst <= BURST * fail_overs, "{worst} too many");
    worst
}

async fn sentinel_fail_over(kills: bool) -> String {
    let mut sentinels = Sentinels::start().unwrap();
    let url = format!("{}/{}", url_of("redis+sentinel", sentinels.sentinels()), sentinels.name());
    let limiter = limiter(&url, WithoutStore::Closed).await;
    let load = Load::start(&limiter, &["ada"], 4);
    wait_for_store(&limiter);
    let port = sentinels.primary().port();
    if kills {
        sentinels.primary_mut().kill();
    } else {
        sentinels.primary().pause();
    }
    let new_port = sentinels.wait_for_failover(port).unwrap();
    wait_for_store(&limiter);
    assert_eq!(limiter.store().health().nodes[0].address, format!("127.0.0.1:{new_port}"));
    if !kills {
        // It does not know yet that it is none any more; nobody asks it.
        sentinels.primary().resume();
        wait_for_store(&limiter);
    }
    let log = load.stop().await;
    let closed = log.only(|entry| entry.by == By::Closed);
    assert_eq!(closed.admitted().count(), 0);
    assert!(0 < closed.count());
    let seen = check(&log, "ada", 1);
    format!("sentinels: {seen} too many, waited {:?} ms", log.waited_ms())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sentinels_replace_a_primary_that_is_killed() {
    let _alone = ALONE.lock().await;
    println!("{}", sentinel_fail_over(true).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sentinels_replace_a_primary_that_stands_still() {
    let _alone = ALONE.lock().await;
    println!("{}", sentinel_fail_over(false).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_replica_takes_over_in_a_cluster() {
    let _alone = ALONE.lock().await;
    let mut cluster = Cluster::start().unwrap();
    let url = url_of("redis+cluster", cluster.nodes());
    let limiter = limiter(&url, WithoutStore::Closed).await;
    let (lost, kept) = (key_in(7), key_in(16_000));
    let load = Load::start(&limiter, &[&lost, &kept], 4);
    wait_for_store(&limiter);
    let victim = cluster.primary_of(7).unwrap();
    cluster.nodes_mut()[victim].kill();
    let from = load.now();
    until(LONG, "a replica takes over", || {
        cluster.primary_of(7).is_ok_and(|owner| owner != victim)
    })
    .unwrap();
    let to = load.now();
    // Others are decided by Redis all the time: this key has to be, too, before the load ends.
    until(LONG, "Redis decides about it again", || {
        let asked = limiter.key(&*lost).peek();
        let runtime = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| runtime.block_on(asked)).by() == By::Store
    })
    .unwrap();
    wait_for_store(&limiter);
    let log = load.stop().await;
    println!("cluster: {} too many, waited {:?} ms", check(&log, &lost, 1), log.waited_ms());
    // Those who live elsewhere are decided there all the time, and no more of them pass.
    check(&log, &kept, 0);
    let away = log.between(from, to);
    assert_eq!(away.of(&lost).only(|entry| entry.by == By::Store).count(), 0);
    assert!(0 < away.of(&kept).only(|entry| entry.by == By::Store).count());
    let after = log.of(&lost).only(|entry| to < entry.asked && entry.by == By::Store);
    assert!(0 < after.count(), "Redis decides again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_slot_that_moves_lets_nothing_more_pass() {
    let _alone = ALONE.lock().await;
    let cluster = Cluster::start().unwrap();
    let limiter = limiter(&url_of("redis+cluster", cluster.nodes()), WithoutStore::Open).await;
    let key = key_in(42);
    let first = cluster.primary_of(42).unwrap();
    let load = Load::start(&limiter, &[&key], 4);
    for _ in 0..4 {
        wait_for_store(&limiter);
        let from = cluster.primary_of(42).unwrap();
        let to = (from + 1) % 3;
        cluster.begin_migration(42, from, to).unwrap();
        cluster.migrate_keys(42, from, to).unwrap();
        cluster.end_migration(42, from, to).unwrap();
    }
    wait_for_store(&limiter);
    let log = load.stop().await;
    let without = log.only(|entry| entry.by.is_fallback()).count();
    println!("moves: {}, {without} of {} without", check(&log, &key, 0), log.count());
    // The slot is moved between decisions of Redis: each move was followed by some.
    assert_eq!(cluster.primary_of(42).unwrap(), (first + 4) % 3);
}
