//! Permits that are renewed, on a real server.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Receipt, Span};
use tidegate_redis::{By, Fleet, FleetKey, FleetReceipts, SharedCharge, SharedRule, WithoutStore};
use tidegate_store::{Clock, ManualClock};
use tidegate_testbed::Server;

use crate::stand::{key, names, permits, still_store, store};

const LEASE: Span = Span::from_secs(10);
const OPEN: WithoutStore = WithoutStore::Open;

async fn still_fleet() -> (Server, Fleet, Arc<ManualClock>) {
    let server = Server::start().unwrap();
    let (store, clock) = still_store(&server.url()).await;
    (server, Fleet::new(store), clock)
}

async fn take(fleet: &Fleet, rule: &SharedRule, key: &FleetKey) -> FleetReceipts {
    let decided = fleet.decide(&[SharedCharge { rule, key, cost: 1 }]).await;
    assert!(decided.verdict.passes());
    decided.receipts
}

async fn free(fleet: &Fleet, rule: &SharedRule, key: &FleetKey) -> u32 {
    fleet.peek(&[SharedCharge { rule, key, cost: 0 }]).await.each[0].remaining
}

#[tokio::test]
async fn a_renewed_permit_lapses_one_lease_later_and_others_do_not() {
    let (_server, fleet, clock) = still_fleet().await;
    let rule = fleet.rule("exports", permits(2, LEASE), OPEN).unwrap();
    let ada = key("ada");
    let start = clock.now();
    let (mut first, mut second) =
        (take(&fleet, &rule, &ada).await, take(&fleet, &rule, &ada).await);
    assert_eq!(first.lapse_at(), Some(start.after(LEASE)));
    clock.advance(Span::from_secs(6));
    assert_eq!(first.renew().await, Ok(true));
    assert_eq!(first.lapse_at(), Some(clock.now().after(LEASE)));
    assert_eq!(free(&fleet, &rule, &ada).await, 0, "as many are in flight as before");
    // A tick before, and at, the end of the one that was not renewed.
    clock.advance(Span::from_micros(3_999_999));
    assert_eq!(free(&fleet, &rule, &ada).await, 0);
    clock.advance(Span::from_micros(1));
    assert_eq!(free(&fleet, &rule, &ada).await, 1);
    assert_eq!(second.renew().await, Ok(false));
    assert!(second.is_empty());
    assert_eq!(free(&fleet, &rule, &ada).await, 1, "nothing is taken again");
    // Renewed for as long as its holder likes, and then given back.
    for _ in 0..5 {
        clock.advance(Span::from_secs(5));
        assert_eq!(first.renew().await, Ok(true));
    }
    first.release().await.unwrap();
    assert_eq!(free(&fleet, &rule, &ada).await, 2);
}

#[tokio::test]
async fn a_key_is_kept_for_as_long_as_its_renewed_permit() {
    let (server, fleet, clock) = still_fleet().await;
    let rule = fleet.rule("exports", permits(2, LEASE), OPEN).unwrap();
    let ada = key("ada");
    let (mut first, second) = (take(&fleet, &rule, &ada).await, take(&fleet, &rule, &ada).await);
    let kept = || {
        let name = names(&server).pop().unwrap();
        server.must(&["PTTL", &name]).unwrap().text().parse::<i64>().unwrap()
    };
    clock.advance(Span::from_secs(7));
    second.release().await.unwrap();
    let before = kept();
    first.renew().await.unwrap();
    let longer = kept() - before;
    // Seven seconds, give or take what passes on the server while it is asked.
    assert!((4_000..10_000).contains(&longer), "{longer} ms");
}

#[tokio::test]
async fn the_old_receipt_is_void() {
    let (_server, fleet, clock) = still_fleet().await;
    let store = fleet.store();
    let rule = store.rule("exports", permits(2, LEASE));
    let ada = key("ada");
    let (_, receipt) = store.decide_with_receipt(&rule, &ada, 2).await.unwrap();
    let mut receipt = receipt.unwrap();
    let old = Receipt::new(receipt.at(), receipt.cost());
    clock.advance(Span::from_secs(1));
    assert_eq!(store.renew(&rule, &ada, &mut receipt).await, Ok(true));
    assert_eq!(receipt, Receipt::new(clock.now(), 2));
    let mut again = Receipt::new(old.at(), old.cost());
    assert_eq!(store.renew(&rule, &ada, &mut again).await, Ok(false));
    store.refund(&rule, &ada, old).await.unwrap();
    assert_eq!(store.peek(&rule, &ada, 0).await.unwrap().remaining, 0);
    store.refund(&rule, &ada, receipt).await.unwrap();
    assert_eq!(store.peek(&rule, &ada, 0).await.unwrap().remaining, 2);
    // Nothing else has permits.
    let log = store.rule("log", tidegate_core::Policy::token_bucket(quota()).unwrap());
    let mut receipt = store.decide_with_receipt(&log, &ada, 1).await.unwrap().1.unwrap();
    assert_eq!(store.renew(&log, &ada, &mut receipt).await, Ok(false));
}

fn quota() -> tidegate_core::Quota {
    tidegate_core::Quota::per_minute(5)
}

#[tokio::test]
async fn a_permit_goes_on_under_another_lease() {
    let (_server, fleet, clock) = still_fleet().await;
    let rule = fleet.rule("exports", permits(2, LEASE), OPEN).unwrap();
    let ada = key("ada");
    let mut permit = take(&fleet, &rule, &ada).await;
    clock.advance(Span::from_secs(5));
    fleet.change(&rule, permits(3, Span::from_secs(30))).unwrap();
    assert_eq!(permit.renew().await, Ok(true));
    assert_eq!(permit.lapse_at(), Some(clock.now().after(Span::from_secs(30))));
    clock.advance(Span::from_secs(29));
    assert_eq!(free(&fleet, &rule, &ada).await, 2);
    clock.advance(Span::from_secs(1));
    assert_eq!(free(&fleet, &rule, &ada).await, 3);
}

#[tokio::test]
async fn without_redis_a_share_is_renewed_here_and_the_rest_stays_as_it_is() {
    let server = Server::start().unwrap();
    let fleet = Fleet::new(store(&server.url()).await);
    let patient = fleet.rule("exports", permits(2, LEASE), OPEN).unwrap();
    let ada = key("ada");
    let permit = take(&fleet, &patient, &ada).await;
    permit.keep();
    // From here on it is in a hurry, and Redis is not there.
    let hasty = Fleet::new(store(&server.url()).await.within(Duration::from_millis(20)));
    let rule = hasty.rule("exports", permits(2, LEASE), WithoutStore::Local { nodes: 1 }).unwrap();
    let mut there = take(&hasty, &rule, &ada).await;
    server.pause();
    let decided = hasty.decide(&[SharedCharge { rule: &rule, key: &ada, cost: 1 }]).await;
    assert_eq!(decided.by, By::Local);
    let mut here = decided.receipts;
    let lapse_at = here.lapse_at().unwrap();
    assert_eq!(here.renew().await, Ok(true));
    assert!(lapse_at <= here.lapse_at().unwrap());
    assert!(there.renew().await.is_err());
    assert_eq!((there.cells(0), there.lapse_at().is_some()), (1, true), "it is not given up");
    server.resume();
}
