//! Redis answers, and what it remembers, or by which clock, is not what it was.

use std::time::Duration;

use tidegate_core::{Kind, Policy, Quota, Span};
use tidegate_redis::{By, RedisStore, WithoutStore};
use tidegate_store::{Limiter, LimiterBuilder};
use tidegate_testbed::Server;

use crate::stand::{LONG, Node, key, names, still_store, store};

const LIMIT: u32 = 10;

fn builder() -> LimiterBuilder {
    Limiter::builder().each("client", Quota::per_day(LIMIT)).remember_refusals(false)
}

/// How many of so many pass, all decided by Redis.
async fn passed(limiter: &Node, times: u32) -> u32 {
    let mut passed = 0;
    for _ in 0..times {
        let answer = limiter.decide("ada").await;
        assert_eq!(answer.by(), By::Store);
        passed += u32::from(answer.verdict().passes());
    }
    passed
}

#[tokio::test]
async fn scripts_that_are_flushed_let_nothing_more_pass() {
    let server = Server::start().unwrap();
    let limiter = Node::on(store(&server.url()).await, builder());
    let mut all = 0;
    for _ in 0..20 {
        server.must(&["SCRIPT", "FLUSH"]).unwrap();
        all += passed(&limiter, 1).await;
    }
    assert_eq!(all, LIMIT);
}

#[tokio::test]
async fn a_key_that_is_evicted_has_one_burst_more_each_time() {
    let server = Server::start().unwrap();
    let limiter = Node::on(store(&server.url()).await, builder());
    assert_eq!(passed(&limiter, 20).await, LIMIT);
    for _ in 0..3 {
        server.must(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]).unwrap();
        // A server over its bound evicts when it is asked to write.
        server.must(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
        assert!(server.run(&["SET", "other", "1"]).is_ok());
        server.must(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
        assert_eq!(names(&server).iter().filter(|name| name.contains("ada")).count(), 0);
        assert_eq!(passed(&limiter, 20).await, LIMIT);
    }
}

/// What would have to be charged is decided as the rule says; what is to be refused is refused.
#[tokio::test]
async fn a_server_that_is_full_refuses_what_is_to_be_refused() {
    let server = Server::start().unwrap();
    for (name, without, wanted) in [
        ("open", WithoutStore::Open, By::Open),
        ("closed", WithoutStore::Closed, By::Closed),
        ("local", WithoutStore::Local { nodes: 2 }, By::Local),
    ] {
        let builder = Limiter::builder().each(name, Quota::per_day(LIMIT));
        let builder = builder.remember_refusals(false).without_store(without);
        let limiter = Node::on(store(&server.url()).await, builder);
        assert_eq!(passed(&limiter, 20).await, LIMIT);
        server.must(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
        assert_eq!(passed(&limiter, 20).await, 0);
        let mut others = 0;
        for _ in 0..20 {
            let answer = limiter.decide("bob").await;
            assert_eq!(answer.by(), wanted);
            others += u32::from(answer.verdict().passes());
        }
        let most = [20, 0, LIMIT / 2];
        let place = [By::Open, By::Closed, By::Local].iter().position(|by| *by == wanted);
        assert_eq!(others, most[place.unwrap()]);
        server.must(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    }
}

/// Also a key that owes what passed while there was no room: it cannot be charged, and is refused
/// all the same.
#[tokio::test]
async fn a_server_that_is_full_refuses_a_key_that_owes() {
    let server = Server::start().unwrap();
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let builder = builder().without_store(WithoutStore::Local { nodes: 2 });
        nodes.push(Node::on(store(&server.url()).await, builder));
    }
    let [here, there] = &nodes[..] else { panic!("two nodes") };
    assert_eq!(passed(there, LIMIT - 1).await, LIMIT - 1);
    server.must(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    assert_eq!(here.decide("ada").await.by(), By::Local);
    server.must(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    assert_eq!(passed(there, 2).await, 1);
    server.must(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    assert_eq!(passed(here, 20).await, 0);
}

/// Ahead: what the rate earns in that time, at most one burst, once. Back again: at most the quota
/// of a window that had ended and been forgotten.
#[tokio::test]
async fn a_clock_that_jumps_pays_one_burst_at_most() {
    let server = Server::start().unwrap();
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Concurrency) {
        for (jump, earned) in [(30, 5), (600, LIMIT)] {
            let (store, clock) = still_store(&server.url()).await;
            let rule = store.rule(&format!("{kind} {jump}"), minute(kind));
            let take = async |store: &RedisStore| {
                let mut passed = 0;
                for _ in 0..3 * LIMIT {
                    let decision = store.decide(&rule, &key("ada"), 1).await.unwrap();
                    passed += u32::from(decision.verdict.passes());
                }
                passed
            };
            assert_eq!(take(&store).await, LIMIT, "{kind}");
            let at = Span::from_secs(jump);
            clock.advance(at);
            let ahead = take(&store).await;
            let most = if kind.has_burst() { earned } else { LIMIT };
            assert!(ahead <= most, "{kind} {jump}: {ahead}");
            assert_eq!(take(&store).await, 0, "{kind}: once");
            // Back, and where it was again: nothing that was charged ahead is forgotten.
            let back = still_store(&server.url()).await.0;
            assert_eq!(take(&back).await, 0, "{kind} {jump}: back");
            assert_eq!(take(&store).await, 0, "{kind} {jump}: ahead again");
        }
    }
}

fn minute(kind: Kind) -> Policy {
    Policy::new(kind, Quota::per_minute(LIMIT)).unwrap()
}

/// A node that stops forgets what it let through and had not yet charged to Redis.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_starts_while_redis_is_away_has_its_share_again() {
    let mut server = Server::start().unwrap();
    server.kill();
    for starts in 1..=3 {
        let limiter = builder().without_store(WithoutStore::Local { nodes: 2 });
        let limiter = Node::connect(&server.url(), limiter).await;
        let mut passed = 0;
        for _ in 0..20 {
            let answer = limiter.decide("ada").await;
            assert_eq!(answer.by(), By::Local);
            passed += u32::from(answer.verdict().passes());
        }
        assert_eq!(passed, LIMIT / 2, "start {starts}");
        if starts < 3 {
            continue;
        }
        server.restart().unwrap();
        let asking = async {
            while limiter.key("other").peek().await.by() != By::Store {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LONG, asking).await.unwrap();
        let mut rest = 0;
        for _ in 0..20 {
            rest += u32::from(limiter.decide("ada").await.verdict().passes());
        }
        assert!(rest <= LIMIT - LIMIT / 2, "the share of the last start is repaid: {rest}");
    }
}
