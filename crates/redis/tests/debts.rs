//! What was let through without Redis is charged once, to the key that owes it.

#![expect(clippy::unwrap_used, reason = "tests")]

mod stand;

use std::time::Duration;

use tidegate_core::{Policy, Quota, Span, Verdict};
use tidegate_redis::{By, Fleet, WithoutStore};
use tidegate_store::{Limiter, MemoryStore};
use tidegate_testbed::Server;

use self::stand::{LONG, Node, store_within, teach_repaying};

const LIMIT: u32 = 10;
const KEYS_MAX: usize = 1_000;
const KEYS: usize = 5_000;

async fn until_it_decides(limiter: &Node) {
    let asking = async {
        while limiter.key("somebody").peek().await.by() != By::Store {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, asking).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_with_more_keys_than_are_remembered_costs_others_nothing() {
    let mut server = Server::start().unwrap();
    let builder = Limiter::builder().each("client", Quota::per_day(LIMIT));
    let builder = builder.without_store(WithoutStore::Local { nodes: 1 }).remember_refusals(false);
    let store = store_within(&server.url(), Duration::from_millis(500)).await;
    let local = MemoryStore::with_keys_max(KEYS_MAX);
    let limiter = Node::new(builder, Fleet::with_local(store, local));
    server.kill();
    let mut passed = Vec::new();
    for number in 0..KEYS {
        let answer = limiter.decide(&*format!("away-{number}")).await;
        assert_eq!(answer.by(), By::Local);
        passed.push(answer.verdict().passes());
    }
    server.restart().unwrap();
    until_it_decides(&limiter).await;

    // Nobody ever saw these.
    for number in 0..100 {
        let key = format!("new-{number}");
        for left in (0..LIMIT).rev() {
            let answer = limiter.decide(&*key).await;
            assert_eq!((answer.by(), answer.decision().remaining), (By::Store, left), "{key}");
        }
    }
    // And of those that asked meanwhile, each owes what it was given, or that was written off.
    let mut charged = 0;
    for (number, passed) in passed.iter().enumerate() {
        for _ in 0..2 {
            let answer = limiter.decide(&*format!("away-{number}")).await;
            assert_eq!(answer.by(), By::Store);
        }
        let left = limiter.key(&*format!("away-{number}")).cost(0).peek().await;
        let owed = LIMIT - 2 - left.decision().remaining;
        assert!(owed <= u32::from(*passed), "away-{number} was charged {owed}");
        charged += u64::from(owed);
    }
    let passed = passed.iter().filter(|passed| **passed).count() as u64;
    let written_off = limiter.counts().written_off;
    assert_eq!(charged + written_off, passed);
    assert!(KEYS_MAX as u64 <= charged, "{charged} of {passed}");
}

/// Of what was let through without Redis, what is given back is not charged to it afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_without_it_is_not_owed_to_it() {
    let mut server = Server::start().unwrap();
    let builder = Limiter::builder().each("client", Quota::per_day(LIMIT));
    let builder = builder.without_store(WithoutStore::Local { nodes: 1 }).remember_refusals(false);
    let limiter = Node::within(Duration::from_millis(500), &server.url(), builder).await;
    server.kill();
    let given_back = limiter.key("ada").cost(3).enter().await.unwrap();
    let kept = limiter.key("ada").cost(4).enter().await.unwrap();
    given_back.refund().await;
    drop(kept);
    let here = limiter.key("ada").cost(0).peek().await;
    assert_eq!((here.by(), here.decision().remaining), (By::Local, LIMIT - 4));
    server.restart().unwrap();
    until_it_decides(&limiter).await;
    let answer = limiter.decide("ada").await;
    assert_eq!((answer.by(), answer.decision().remaining), (By::Store, LIMIT - 4 - 1));
}

/// Two nodes have a share of five each. The first that is back finds five cells left when it has
/// repaid its own, and uses them up: what the other one owes is charged all the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_there_is_no_room_for_overdraws_a_bucket() {
    let server = Server::start().unwrap();
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let builder = Limiter::builder().each("client", Quota::per_day(LIMIT));
        let builder = builder.without_store(WithoutStore::Local { nodes: 2 });
        nodes.push(Node::connect(&server.url(), builder.remember_refusals(false)).await);
    }
    let policy = Policy::token_bucket(Quota::per_day(LIMIT)).unwrap();
    teach_repaying(&nodes[0], policy).await;
    server.pause();
    for node in &nodes {
        let mut passed = 0;
        for _ in 0..10 {
            let answer = node.decide("ada").await;
            assert_eq!(answer.by(), By::Local);
            passed += u32::from(answer.verdict().passes());
        }
        assert_eq!(passed, LIMIT / 2);
    }
    server.resume();
    let mut retry_after = Span::ZERO;
    for node in &nodes {
        until_it_decides(node).await;
        let asking = async {
            loop {
                let answer = node.decide("ada").await;
                if let (By::Store, Verdict::Deny { retry_after }) = (answer.by(), answer.verdict())
                {
                    break retry_after;
                }
            }
        };
        retry_after = tokio::time::timeout(LONG, asking).await.unwrap();
    }
    // Were the bucket just empty, the next request would wait for one cell. What the second node
    // sent before it left Redis alone, at most three calls, was charged before all else.
    let cells = Duration::from(retry_after).as_secs_f64() / (86_400.0 / f64::from(LIMIT));
    assert!((2.0..=1.0 + f64::from(LIMIT)).contains(&cells), "{cells} cells");
}
