//! Refusals that are remembered: exact in time, and ended by whatever may free something.

use std::time::Duration;

use tidegate_core::{Kind, Policy, Quota, Span, Verdict};
use tidegate_redis::By;
use tidegate_store::Limiter;
use tidegate_testbed::Server;

use crate::stand::{Node, calls, key, permits, still, still_store, store, store_by};

/// A cell in a tenth of a second.
fn tenth() -> Quota {
    Quota::per_second(10).burst(1)
}

#[tokio::test]
async fn a_remembered_refusal_ends_exactly_when_time_allows() {
    let (server, limiter, clock) = still(Limiter::builder().each("client", tenth())).await;
    assert!(limiter.decide("ada").await.verdict().passes());
    let refused = limiter.decide("ada").await;
    assert_eq!(refused.by(), By::Store);
    let before = calls(&server);
    let mut left = 100_000;
    for step in [1, 49_999, 49_999] {
        let answer = limiter.decide("ada").await;
        assert_eq!(answer.by(), By::Remembered);
        let retry_after = Span::from_micros(left);
        assert_eq!(answer.verdict(), Verdict::Deny { retry_after });
        clock.advance(Span::from_micros(step));
        left -= step;
    }
    assert_eq!(left, 1);
    assert_eq!(limiter.decide("ada").await.by(), By::Remembered);
    assert_eq!(calls(&server), before, "Redis was not asked");
    clock.advance(Span::from_micros(1));
    let answer = limiter.decide("ada").await;
    assert_eq!((answer.by(), answer.verdict()), (By::Store, Verdict::Allow));
}

#[tokio::test]
async fn a_refusal_is_remembered_for_a_quarter_of_a_second_at_most() {
    let quota = Quota::per_minute(1);
    let (_server, limiter, clock) = still(Limiter::builder().each("client", quota)).await;
    assert!(limiter.decide("ada").await.verdict().passes());
    assert_eq!(limiter.decide("ada").await.by(), By::Store);
    clock.advance(Span::from_micros(249_999));
    assert_eq!(limiter.decide("ada").await.by(), By::Remembered);
    clock.advance(Span::from_micros(1));
    assert_eq!(limiter.decide("ada").await.by(), By::Store);
    assert_eq!(limiter.decide("ada").await.by(), By::Remembered);
}

#[tokio::test]
async fn other_costs_and_other_keys_are_judged_by_themselves() {
    let quota = Quota::per_minute(60).burst(10);
    let (_server, limiter, _clock) = still(Limiter::builder().each("client", quota)).await;
    assert!(limiter.key("ada").cost(10).decide().await.verdict().passes());
    assert!(!limiter.key("ada").cost(5).decide().await.verdict().passes());
    let answer = limiter.key("ada").cost(1).decide().await;
    assert_eq!(answer.by(), By::Remembered, "nothing is left, so that is certain");
    assert_eq!(answer.verdict(), Verdict::Deny { retry_after: Span::from_secs(1) });
    assert!(limiter.key("bob").cost(5).decide().await.verdict().passes());
}

/// What is left may be taken by anybody meanwhile, and then it is another number.
#[tokio::test]
async fn what_is_left_after_a_refusal_is_what_redis_says() {
    for kind in [Kind::TokenBucket, Kind::Gcra, Kind::FixedWindow, Kind::SlidingWindow] {
        let policy = Policy::new(kind, Quota::per_hour(4)).unwrap();
        let builder = || Limiter::builder().each("client", policy);
        let (server, here, clock) = still(builder()).await;
        let there = Node::on(store_by(&server.url(), &clock).await, builder());
        // Above the limit, and within it.
        for cost in [5, 4] {
            for (left, charges) in [(3, &here), (2, &there), (1, &here), (0, &there)] {
                let before = here.key("ada").cost(cost).decide().await;
                let passes = before.verdict().passes();
                assert_eq!(passes, cost == 4 && left == 3, "{kind:?}");
                if passes {
                    here.reset("ada").await.unwrap();
                }
                assert!(charges.decide("ada").await.verdict().passes());
                let after = here.key("ada").cost(cost).decide().await;
                let looked = there.key("ada").cost(cost).peek().await;
                assert_eq!(after.decision(), looked.decision(), "{kind:?}, {left} left");
                assert_eq!(after.decision().remaining, left, "{kind:?}");
            }
            here.reset("ada").await.unwrap();
            // The other node may remember a refusal for as long.
            clock.advance(Span::from_secs(1));
        }
    }
}

/// The limit that refuses has nothing left; of the other one, anybody may take something.
#[tokio::test]
async fn what_is_left_of_another_limit_is_what_redis_says() {
    let builder = || {
        let builder = Limiter::builder().each("client", Quota::per_hour(1));
        builder.all("everybody", Quota::per_hour(9))
    };
    let (server, here, clock) = still(builder()).await;
    let there = Node::on(store_by(&server.url(), &clock).await, builder());
    assert!(here.decide("ada").await.verdict().passes());
    for (left, (client, charges)) in [(7, ("bob", &there)), (6, ("eve", &here))] {
        assert!(!here.decide("ada").await.verdict().passes());
        assert!(charges.decide(client).await.verdict().passes());
        let told: Vec<u32> = here.decide("ada").await.each().map(|(_, it)| it.remaining).collect();
        assert_eq!(told, [0, left], "after {client}");
    }
}

#[tokio::test]
async fn what_is_given_back_here_ends_it_at_once() {
    let (_server, limiter, _clock) =
        still(Limiter::builder().each("client", Quota::per_minute(1))).await;
    for _ in 0..3 {
        let pass = limiter.key("ada").enter().await.unwrap();
        assert_eq!(limiter.decide("ada").await.by(), By::Store);
        assert_eq!(limiter.decide("ada").await.by(), By::Remembered);
        pass.refund().await;
        assert!(limiter.decide("ada").await.verdict().passes());
        assert_eq!(limiter.decide("ada").await.by(), By::Store);
        assert_eq!(limiter.decide("ada").await.by(), By::Remembered);
        limiter.reset("ada").await.unwrap();
    }
}

#[tokio::test]
async fn what_another_node_gives_back_ends_it_within_a_quarter_of_a_second() {
    let server = Server::start().unwrap();
    let (store, clock) = still_store(&server.url()).await;
    let node = |store| {
        let builder = Limiter::builder().each("client", Quota::per_day(1));
        Node::on(store, builder)
    };
    let (here, there) = (node(store), node(store_by(&server.url(), &clock).await));
    assert!(here.decide("ada").await.verdict().passes());
    assert_eq!(here.decide("ada").await.by(), By::Store);
    assert_eq!(here.decide("ada").await.by(), By::Remembered);
    there.reset("ada").await.unwrap();
    assert_eq!(here.decide("ada").await.by(), By::Remembered);
    clock.advance(Span::from_millis(250));
    assert!(here.decide("ada").await.verdict().passes());
}

#[tokio::test]
async fn redis_is_asked_each_time_where_that_is_wanted() {
    let server = Server::start().unwrap();
    let store = store(&server.url()).await;
    let policy = Policy::token_bucket(Quota::per_day(1)).unwrap();
    for (remembers, asked) in [(true, 0), (false, 20)] {
        let rule = store.rule(&format!("{remembers}"), policy).remember_refusals(remembers);
        assert!(store.decide(&rule, &key("ada"), 1).await.unwrap().verdict.passes());
        assert!(!store.decide(&rule, &key("ada"), 1).await.unwrap().verdict.passes());
        let before = calls(&server);
        for _ in 0..20 {
            let ask = tokio::time::timeout(Duration::from_secs(5), async {
                store.decide(&rule, &key("ada"), 1).await
            });
            assert!(!ask.await.unwrap().unwrap().verdict.passes());
        }
        let calls = calls(&server) - before;
        // On a machine that stands still for a quarter of a second, one more.
        assert!((asked..=asked + 1).contains(&calls), "{calls}");
    }
}

#[tokio::test]
async fn permits_are_asked_for_each_time() {
    let server = Server::start().unwrap();
    let store = store(&server.url()).await;
    let rule = store.rule("flights", permits(1, Span::from_secs(30)));
    assert!(store.decide(&rule, &key("ada"), 1).await.unwrap().verdict.passes());
    let before = calls(&server);
    for _ in 0..5 {
        assert!(!store.decide(&rule, &key("ada"), 1).await.unwrap().verdict.passes());
    }
    assert_eq!(calls(&server), before + 5);
}
