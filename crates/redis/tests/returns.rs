//! What is given back while Redis does not answer reaches it afterwards, once, or is counted.

#![expect(clippy::unwrap_used, reason = "tests")]

mod stand;

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Kind, Policy, Quota, Span};
use tidegate_redis::{
    Fleet, FleetReceipts, RedisStore, Settings, SharedCharge, SharedRule, WithoutStore,
};
use tidegate_store::{Clock, ManualClock};
use tidegate_testbed::Server;
use tokio::runtime::{Builder, Runtime};

use self::stand::{key, names, permits, store, store_by};

/// Longer than the busiest machine needs for anything.
const LONG: Duration = Duration::from_mins(1);
const CLOSED: WithoutStore = WithoutStore::Closed;
const LEASE: Span = Span::from_secs(3_600);
/// As many are kept; see `RETURNS_MAX`.
const KEPT: u32 = 16_384;

async fn fleet(server: &Server) -> Fleet {
    let builder = RedisStore::builder(Settings::from_url(&server.url()).unwrap());
    Fleet::new(builder.deadline(Duration::from_millis(500)).connect().await.unwrap())
}

fn window(limit: u32) -> Policy {
    Policy::new(Kind::FixedWindow, Quota::new(limit, Span::from_secs(366 * 86_400))).unwrap()
}

async fn take(fleet: &Fleet, rule: &SharedRule, cost: u32) -> FleetReceipts {
    let decided = fleet.decide(&[SharedCharge { rule, key: &key("ada"), cost }]).await;
    assert!(decided.verdict.passes());
    decided.receipts
}

/// What is left by Redis; nothing while it does not answer.
async fn left(fleet: &Fleet, rule: &SharedRule) -> Option<u32> {
    let decided = fleet.peek(&[SharedCharge { rule, key: &key("ada"), cost: 0 }]).await;
    (!decided.by.is_fallback()).then(|| decided.each[0].remaining)
}

async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.expect("it holds before the deadline");
}

/// Until the server, which does not answer, is left alone.
async fn until_it_rests(fleet: &Fleet, rule: &SharedRule) {
    until(async || {
        assert_eq!(left(fleet, rule).await, None);
        fleet.store().resting() == 1
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_given_back_while_it_is_paused_are_free_when_it_goes_on() {
    let server = Server::start().unwrap();
    let fleet = fleet(&server).await;
    let rule = fleet.rule("exports", permits(3, LEASE), CLOSED).unwrap();
    let (dropped, released) = (take(&fleet, &rule, 1).await, take(&fleet, &rule, 1).await);
    let elsewhere = take(&fleet, &rule, 1).await;
    server.pause();
    until_it_rests(&fleet, &rule).await;
    drop(dropped);
    assert!(released.release().await.is_err());
    // On a thread that knows of no runtime.
    std::thread::spawn(move || drop(elsewhere)).join().unwrap();
    server.resume();
    // Without anybody asking for one.
    until(async || names(&server).is_empty()).await;
    assert_eq!(fleet.counts().not_returned, 0);
    until(async || left(&fleet, &rule).await == Some(3)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_dropped_on_a_plain_thread_is_given_back() {
    let server = Server::start().unwrap();
    let fleet = fleet(&server).await;
    let rule = fleet.rule("exports", permits(1, LEASE), CLOSED).unwrap();
    let receipts = take(&fleet, &rule, 1).await;
    std::thread::spawn(move || drop(receipts)).join().unwrap();
    until(async || left(&fleet, &rule).await == Some(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_while_it_is_paused_is_done_once_when_it_goes_on() {
    let server = Server::start().unwrap();
    let fleet = fleet(&server).await;
    let rule = fleet.rule("logins", window(9), CLOSED).unwrap();
    let (good, bad) = (take(&fleet, &rule, 5).await, take(&fleet, &rule, 2).await);
    server.pause();
    until_it_rests(&fleet, &rule).await;
    assert!(fleet.refund(good).await.unwrap_err().is_certain());
    drop(bad);
    server.resume();
    until(async || left(&fleet, &rule).await == Some(7)).await;
    // Others charge, and nothing more is given back.
    drop(take(&fleet, &rule, 7).await);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(left(&fleet, &rule).await, Some(0));
    assert_eq!(fleet.counts().not_returned, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_never_goes_to_a_server_that_came_back_without_its_data() {
    let mut server = Server::start().unwrap();
    let fleet = fleet(&server).await;
    let rule = fleet.rule("logins", window(5), CLOSED).unwrap();
    let (during, after) = (take(&fleet, &rule, 2).await, take(&fleet, &rule, 1).await);
    server.kill();
    until_it_rests(&fleet, &rule).await;
    assert!(fleet.refund(during).await.unwrap_err().is_certain());
    server.restart().unwrap();
    let other = Fleet::new(store(&server.url()).await);
    let there = other.rule("logins", window(5), CLOSED).unwrap();
    drop(take(&other, &there, 5).await);
    until(async || fleet.counts().not_returned == 2).await;
    until(async || left(&fleet, &rule).await.is_some()).await;
    assert!(fleet.refund(after).await.unwrap_err().is_certain());
    assert_eq!(fleet.counts().not_returned, 3);
    assert_eq!(left(&other, &there).await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_comes_back_from_a_server_that_was_restarted_with_its_data() {
    let builder = Server::builder().setting("appendonly", "yes").setting("appendfsync", "always");
    let mut server = builder.start().unwrap();
    let fleet = fleet(&server).await;
    let rule = fleet.rule("exports", permits(2, LEASE), CLOSED).unwrap();
    let (given_back, held) = (take(&fleet, &rule, 1).await, take(&fleet, &rule, 1).await);
    server.kill();
    until_it_rests(&fleet, &rule).await;
    drop(given_back);
    server.restart().unwrap();
    until(async || left(&fleet, &rule).await == Some(1)).await;
    held.release().await.unwrap();
    assert_eq!(left(&fleet, &rule).await, Some(2));
    assert_eq!(fleet.counts().not_returned, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_of_a_server_that_lost_its_data_gives_back_nobody_elses() {
    let mut server = Server::start().unwrap();
    let fleet = fleet(&server).await;
    let rule = fleet.rule("exports", permits(2, LEASE), CLOSED).unwrap();
    let before = take(&fleet, &rule, 1).await;
    server.kill();
    until_it_rests(&fleet, &rule).await;
    drop(before);
    server.restart().unwrap();
    let other = Fleet::new(store(&server.url()).await);
    let there = other.rule("exports", permits(2, LEASE), CLOSED).unwrap();
    let held = (take(&other, &there, 1).await, take(&other, &there, 1).await);
    until(async || left(&fleet, &rule).await.is_some()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(left(&other, &there).await, Some(0));
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_have_been_given_back_is_counted_and_not_sent_again() {
    let server = Server::start().unwrap();
    let fleet = fleet(&server).await;
    let rule = fleet.rule("logins", window(5), CLOSED).unwrap();
    // The server knows the script for it.
    fleet.refund(take(&fleet, &rule, 1).await).await.unwrap();
    let receipts = take(&fleet, &rule, 3).await;
    server.pause();
    assert!(!fleet.refund(receipts).await.unwrap_err().is_certain());
    assert_eq!(fleet.counts().not_returned, 3);
    server.resume();
    until(async || left(&fleet, &rule).await.is_some()).await;
    // It had reached the server; sent again it would find the charge of somebody else.
    until(async || left(&fleet, &rule).await == Some(5)).await;
    drop(take(&fleet, &rule, 5).await);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(left(&fleet, &rule).await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_is_kept_than_there_is_room_for() {
    const BEYOND: u32 = 16;
    let server = Server::start().unwrap();
    let fleet = fleet(&server).await;
    let rule = fleet.rule("bytes", window(100_000), CLOSED).unwrap();
    let mut receipts = take(&fleet, &rule, 100_000).await;
    server.pause();
    until_it_rests(&fleet, &rule).await;
    for _ in 0..KEPT + BEYOND {
        assert!(fleet.refund(receipts.take_cells(0, 1)).await.is_err());
    }
    assert_eq!(fleet.counts().not_returned, u64::from(BEYOND));
    server.resume();
    until(async || left(&fleet, &rule).await == Some(KEPT)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_made_fresh_is_given_back_nothing_from_before() {
    let server = Server::start().unwrap();
    let fleet = fleet(&server).await;
    let rule = fleet.rule("logins", window(5), CLOSED).unwrap();
    let receipts = take(&fleet, &rule, 3).await;
    server.pause();
    until_it_rests(&fleet, &rule).await;
    assert!(fleet.refund(receipts).await.is_err());
    server.resume();
    until(async || fleet.reset(&rule, &key("ada")).await.is_ok()).await;
    drop(take(&fleet, &rule, 5).await);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(left(&fleet, &rule).await, Some(0));
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn what_time_has_paid_meanwhile_is_not_given_back_again() {
    let server = Server::start().unwrap();
    let clock = Arc::new(ManualClock::new());
    clock.advance(Span::from_secs(1_000_000_000));
    let policy = Policy::token_bucket(Quota::new(10, Span::from_secs(10))).unwrap();
    // Nothing goes on in either of them while the other one runs.
    let (here, there) = (runtime(), runtime());
    let (fleet, rule) = here.block_on(async {
        let builder = RedisStore::builder(Settings::from_url(&server.url()).unwrap());
        let builder = builder.judged_by(Arc::clone(&clock) as Arc<dyn Clock>);
        let fleet = Fleet::new(builder.connect().await.unwrap());
        let rule = fleet.rule("bytes", policy, CLOSED).unwrap();
        let receipts = take(&fleet, &rule, 10).await;
        server.pause();
        until_it_rests(&fleet, &rule).await;
        assert!(fleet.refund(receipts).await.is_err());
        (fleet, rule)
    });
    server.resume();
    clock.advance(Span::from_secs(5));
    there.block_on(async {
        let other = Fleet::new(store_by(&server.url(), &clock).await);
        let rule = other.rule("bytes", policy, CLOSED).unwrap();
        drop(take(&other, &rule, 5).await);
        assert_eq!(left(&other, &rule).await, Some(0));
    });
    here.block_on(until(async || left(&fleet, &rule).await.is_some_and(|left| 0 < left)));
    // As if the ten had been given back at once: full, and then five taken.
    assert_eq!(here.block_on(left(&fleet, &rule)), Some(5));
}
